"""What one connection has: its SQL session, its block, its parameters, its prepared statements and its portals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lakewarden.base.workers.cancellation import Cancellation
from lakewarden.errors import InvalidArgument
from lakewarden.serve.postgres.portals import Portal, PreparedStatement
from lakewarden.serve.postgres.things import Thing
from lakewarden.serve.postgres.variables import Variables
from lakewarden.serve.postgres.wire.problems import NO_PORTAL, NO_STATEMENT, TOO_MUCH, ProtocolError
from lakewarden.sql.blocks.session_block import SessionBlock
from lakewarden.sql.session import SqlSession

_MOST = 1000
"""Prepared statements and portals of a connection."""


@dataclass
class State:
    """One thread uses it at a time."""

    session: SqlSession
    variables: Variables
    text_bytes: int
    """The most that the texts of its prepared statements may have together, and the values that are bound to them."""
    result_bytes: int
    """The most that the rows of its portals may have together, before another runs."""
    prepared: dict[str, PreparedStatement] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)
    views: dict[int, tuple[Thing, ...]] = field(default_factory=dict)
    """The columns of the views, by the version of the catalog: each takes a query to describe."""
    querying: bool = False
    """Whether what runs now is a query, which has no effects."""
    cancellation: Cancellation = field(default_factory=Cancellation)
    """Of what runs now."""

    @property
    def block(self) -> SessionBlock:
        return self.session.block

    @property
    def search_path(self) -> str:
        return self.session.namespace or ""

    def use(self, names: Sequence[str]) -> None:
        """Takes the first of a search path's namespaces as the one in use.

        Raises:
            NotFound: it does not exist.
        """
        plain = [name.strip("'\", ") for name in names]
        wanted = [name for name in plain if name not in ("$user", "$", "user", "pg_catalog", "public", "")]
        if not wanted:
            raise InvalidArgument("search_path takes a namespace")
        self.session.sql('USE "{}"'.format(wanted[0].replace('"', '""')))

    def keep(self, name: str, made: PreparedStatement) -> None:
        """Raises:
        Problem: the connection has too many prepared statements, or they are too long.
        """
        held = sum(len(each.single.text) for known, each in self.prepared.items() if each.single is not None and known != name)
        if len(self.prepared) >= _MOST or held + (0 if made.single is None else len(made.single.text)) > self.text_bytes:
            raise ProtocolError(TOO_MUCH, f"a connection keeps up to {_MOST:,} prepared statements: deallocate some")
        self.prepared[name] = made

    def statement(self, name: str) -> PreparedStatement:
        found = self.prepared.get(name)
        if found is None:
            raise ProtocolError(NO_STATEMENT, f"there is no prepared statement {name!r}")
        return found

    def portal(self, name: str) -> Portal:
        found = self.portals.get(name)
        if found is None:
            raise ProtocolError(NO_PORTAL, f"there is no portal {name!r}")
        return found

    def open(self, name: str, portal: Portal) -> None:
        others = [each for known, each in self.portals.items() if known != name]
        if len(others) >= _MOST or sum(each.size for each in others) + portal.size > self.text_bytes:
            raise ProtocolError(
                TOO_MUCH, f"a connection keeps up to {_MOST:,} portals, with {self.text_bytes:,} bytes of values: close some"
            )
        self.portals[name] = portal

    def check_room(self) -> None:
        """Raises:
        Problem: too many rows wait to be sent.
        """
        if sum(each.waiting for each in self.portals.values()) > self.result_bytes:
            raise ProtocolError(
                TOO_MUCH, f"the portals of a connection keep up to {self.result_bytes:,} bytes of rows: close some"
            )

    def forget(self, name: str | None) -> None:
        """One prepared statement, or all."""
        if name is None:
            self.prepared.clear()
        else:
            self.prepared.pop(name, None)

    def close_portals(self) -> None:
        self.portals.clear()
