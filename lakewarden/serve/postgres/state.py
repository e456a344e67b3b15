"""What one connection has: its SQL session, its block, its parameters, its prepared statements and its portals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lakewarden.base.cancellation import Cancellation
from lakewarden.errors import InvalidArgument
from lakewarden.serve.postgres.catalog_relations import Thing
from lakewarden.serve.postgres.kinds import Kind
from lakewarden.serve.postgres.problems import NO_PORTAL, NO_STATEMENT, TOO_MUCH, ProtocolError
from lakewarden.serve.postgres.variables import Variables
from lakewarden.sql.dialect import Value
from lakewarden.sql.parse import Single
from lakewarden.sql.results import ResultRows
from lakewarden.sql.session import SqlSession
from lakewarden.sql.session_block import SessionBlock


# Prepared statements, the portals that run them, and what came of it.
@dataclass(frozen=True)
class AnswerColumn:
    """A column of an answer as it was described."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class CommandOutcome:
    """What a statement did: its command tag, and its rows if it has some."""

    tag: str
    rows: ResultRows | None = None
    notices: tuple[str, ...] = ()
    changed: str | None = None
    """The run-time parameter that was set."""


@dataclass(frozen=True)
class PreparedStatement:
    """A parsed statement; `single` is None for an empty text."""

    single: Single | None
    kinds: tuple[Kind, ...] = ()
    """Of its parameters."""
    columns: tuple[AnswerColumn, ...] | None = None
    """Of its answer, as they were described to the client; None before that."""


@dataclass
class Portal:
    """A statement with its values, and how far its rows were sent."""

    single: Single | None
    values: Sequence[Value]
    formats: Sequence[int]
    columns: tuple[AnswerColumn, ...] | None = None
    size: int = 0
    """Bytes of the message that made it."""
    outcome: CommandOutcome | None = None
    sent: int = 0
    held: bool = False
    """Whether it outlives its block, as a cursor WITH HOLD does."""

    @property
    def waiting(self) -> int:
        """Bytes of rows that are kept to be sent."""
        return 0 if self.outcome is None or self.outcome.rows is None else self.outcome.rows.table.nbytes

    def finish(self) -> None:
        """Lets go of its rows: all were sent."""
        if self.outcome is not None and self.outcome.rows is not None:
            empty = self.outcome.rows.table.schema.empty_table()
            self.outcome, self.sent = replace(self.outcome, rows=replace(self.outcome.rows, table=empty)), 0

    def binary(self, columns: int) -> list[bool]:
        """Whether each of so many columns is sent in binary.

        Raises:
            InvalidArgument: the client gave another number of formats.
        """
        if len(self.formats) <= 1:
            return [bool(self.formats and self.formats[0])] * columns
        if len(self.formats) != columns:
            raise InvalidArgument(f"{len(self.formats)} formats are given for {columns} columns")
        return [bool(each) for each in self.formats]


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
        """Raises Problem: the connection has too many prepared statements, or they are too long."""
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
        """Raises Problem: too many rows wait to be sent."""
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
