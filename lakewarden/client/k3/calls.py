"""What K3's calls share: the warehouse, the gate, how buckets and tables are found, and the types of arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache, cached_property, wraps
from inspect import Signature, signature
from typing import Concatenate, ParamSpec, Protocol, TypeVar, get_type_hints

import msgspec

from lakewarden.base.cancellation import Cancellation
from lakewarden.base.commit_metadata import attached
from lakewarden.base.scope import TableName
from lakewarden.catalog.access import OPERATOR, Act, Principal, TableAct, TableOf
from lakewarden.catalog.changes.engines import namespace_of, require_active
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.session_gate import Door
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.maintenance.open_table import open_table
from lakewarden.sql.context import Services
from lakewarden.sql.results import Result
from lakewarden.sql.statement import Statement
from lakewarden.tables.client import TableClient
from lakewarden.tables.freshness import Freshness
from lakewarden.tables.warehouse import Warehouse, find_table, live_tables

DEFAULTS = {"ON_DUPLICATE": "replace", "FLUSH_POLICY": "rows:1"}
"""Options of tables that K3's calls make: a later insert of a key wins (K3-99), and what is in the log is drained when the flush
sensor looks next (K3-98)."""


class BucketSession(Protocol):
    """What the calls need of a session of SQL, with errors of its own: statements from texts, and their results."""

    def parsed(self, text: str) -> list[Statement]: ...
    def run(
        self, statements: Sequence[Statement], *, freshness: Freshness | None = None, cancellation: Cancellation | None = None
    ) -> list[Result]: ...


class Calls(ABC):
    """A family of K3's calls, for one principal. A bucket is a namespace; its tables are the SHARED ones.

    What a family makes public is a call, and the types of its arguments are checked.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, member in list(vars(cls).items()):
            if not name.startswith("_") and callable(member):
                setattr(cls, name, checked(member))

    def __init__(self, services: Services, principal: Principal = OPERATOR, cancellation: Cancellation | None = None) -> None:
        """
        Args:
            cancellation: of the calls' statements, as of `SqlSession.run`.
        """
        self._services = services
        self._principal = principal
        self._cancellation = cancellation

    @property
    def _warehouse(self) -> Warehouse:
        return self._services.warehouse

    @cached_property
    def _door(self) -> Door:
        warehouse = self._warehouse
        return Door(self._principal, AuditLog(warehouse.state, warehouse.clock, warehouse.new_id))

    def _catalog(self, bucket: str, act: Act | None = None) -> Catalog:
        """Raises:
        NotFound: the bucket does not exist.
        PermissionDenied: the principal may not.
        """
        if act is not None:
            self._door.allow(act)
        catalog = self._warehouse.catalog.read()
        namespace_of(catalog, bucket)
        return catalog

    def _table(self, bucket: str, name: str, act: TableAct | None) -> Table:
        """A table of a bucket.

        Args:
            act: what is to be done with its rows; None to look at the table itself.

        Raises:
            NotFound: the bucket or the table does not exist.
            PermissionDenied, FailedPrecondition: the principal may not, or the bucket's engine is disabled.
            Unsupported: it is no SHARED table.
        """
        table = find_table(self._catalog(bucket), TableName(bucket, name))
        if table.type != "SHARED":
            raise Unsupported(f"{table.name} is a {table.type} table; K3's calls are for SHARED tables")
        if act is None:
            self._door.allow("look at what exists")
            return table
        self._door.allow(act, table)
        if act != "drop":
            require_active(self._warehouse.catalog.read(), table.name.namespace)
        return table

    def _client(self, table: Table) -> TableClient:
        return open_table(self._warehouse, table, self._principal.user)

    def _tables(self, catalog: Catalog, bucket: str) -> list[Table]:
        """The bucket's tables, those of pipelines without a schema yet among them."""
        there = (*live_tables(catalog), *catalog.blanks.values())
        return [table for table in there if table.name.namespace == bucket and table.type == "SHARED"]

    @abstractmethod
    def _session(self, bucket: str) -> BucketSession:
        """A session of the principal, in which names are of the bucket."""

    def _check_active(self, catalog: Catalog, bucket: str, name: str, act: TableAct) -> None:
        """Of a table that does not exist yet."""
        self._door.allow(act, TableOf(TableName(bucket, name), "SHARED"))
        require_active(catalog, bucket)

    def _run(self, bucket: str, statement: Statement, freshness: Freshness = "strong") -> Result:
        (result,) = self._session(bucket).run([statement], freshness=freshness, cancellation=self._cancellation)
        return result


def only(statements: Sequence[Statement]) -> Statement:
    """Raises InvalidArgument: there is not exactly one statement."""
    if len(statements) != 1:
        raise InvalidArgument(f"a call takes one statement, and this text has {len(statements)}: make a call for each")
    return statements[0]


C = TypeVar("C")
P = ParamSpec("P")
A = TypeVar("A")


def checked(call: Callable[Concatenate[C, P], A]) -> Callable[Concatenate[C, P], A]:
    """The call, behind a look at the types of its arguments: what HTTP refuses in a request's body, Python refuses, too. What it
    commits carries its `user_metadata`.

    Raises:
        InvalidArgument: an argument is not of its declared type; the call has done nothing.
    """

    @wraps(call)
    def looked_at(self: C, /, *args: P.args, **kwargs: P.kwargs) -> A:
        shape, kinds = _declared(call)
        given = shape.bind(self, *args, **kwargs).arguments
        for name, value in list(given.items())[1:]:
            try:
                msgspec.convert(value, kinds[name])
            except msgspec.ValidationError as error:
                raise InvalidArgument(f"{call.__name__}: {name}: {error}") from error
        with attached(given.get("user_metadata")):
            return call(self, *args, **kwargs)

    return looked_at


@cache
def _declared(call: Callable[..., object]) -> tuple[Signature, dict[str, object]]:
    return signature(call), get_type_hints(call)
