"""The context of a statement: the session's user, the catalog, the tables that its queries may read; and the services that all
statements of a warehouse use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from lakewarden.base.cancellation import Cancellation
from lakewarden.base.scope import TableName
from lakewarden.catalog.access import OPERATOR, Principal, TableOf
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.session_gate import Door
from lakewarden.errors import InvalidArgument, NotFound
from lakewarden.sql.query_engine.engine import Limits, QueryEngine
from lakewarden.sql.ref import Ref
from lakewarden.sql.relations import SYSTEM, ViewQuery, view_query
from lakewarden.sql.results import Rules
from lakewarden.sql.session_block import OpenBlock, SessionBlock, no_block
from lakewarden.sql.temporary import TemporaryTable, TemporaryTables
from lakewarden.tables.warehouse import Warehouse, find_table

if TYPE_CHECKING:
    from lakewarden.maintenance.operator import Operator
    from lakewarden.tables.changes.log_reader import Feeds
    from lakewarden.tables.freshness import Freshness
    from lakewarden.tables.rows.files import Upload


# The SQL sessions that are open in this process, for `system.sessions`.
@dataclass(frozen=True)
class OpenSession:
    """A session's current state. `namespace` is the one in use; `actor` acts as the user by EXECUTE AS USER; `block` is the one
    that is open."""

    number: int
    user: str
    role: str
    actor: str | None
    namespace: str | None
    opened_at: datetime
    block: OpenBlock | None = None


class SessionInfo(Protocol):
    def describe(self) -> OpenSession: ...


class Sessions:
    """Lists sessions by weak references: one that has no other reference is over. Safe for threads."""

    def __init__(self) -> None:
        self._open: WeakSet[SessionInfo] = WeakSet()
        self._lock = threading.Lock()
        self._numbers = count(1)

    def add(self, session: SessionInfo) -> int:
        """Returns the session's number in this process."""
        with self._lock:
            self._open.add(session)
            return next(self._numbers)

    def now(self) -> list[OpenSession]:
        """The open sessions, oldest first."""
        with self._lock:
            found = list(self._open)
        return sorted((each.describe() for each in found), key=lambda one: one.number)


@dataclass(frozen=True)
class Services:
    """Created once for an open warehouse; all its sessions share them."""

    warehouse: Warehouse
    engine: QueryEngine
    """In this process, for the operator."""
    workers: QueryEngine
    """In processes of their own, for every other session."""
    sessions: Sessions
    operator: Callable[[], Operator]
    """Runs operations as jobs. A function, since it imports all operations, which a query does not need."""
    feeds: Callable[[], Feeds]
    """One reader of each table's log, for all subscriptions of the process. A function for the same reason."""
    served: bool = False
    """Whether the sessions are opened over a network: then the bounds hold for every one of them, also for `root` as `system`."""

    def trusts(self, principal: Principal) -> bool:
        """Whether the operator opened the session: its statements run in this process, and its texts have no bounds."""
        return not self.served and principal.opener == OPERATOR


@dataclass(frozen=True)
class Subject:
    """The table that a statement is about, which `bind` looked up once."""

    ref: Ref
    name: TableName
    table: Table | TableOf | None
    """As the gate sees it; None where it does not exist yet, and of a temporary table, which is the session's own."""


@dataclass(frozen=True, kw_only=True)
class SessionChoices:
    """What USE and SET chose."""

    namespace: str | None = None
    freshness: Freshness = "strong"
    metadata: str = ""
    """Of the commits of what the session writes: a JSON object, or empty."""
    table_storage: Mapping[str, str] = field(default_factory=dict)
    """The options that `SET 'table-storage.…'` chose, without the prefix."""


@dataclass(frozen=True)
class Context(SessionChoices):
    """Names are resolved in one version of the catalog, so a name means the same throughout a statement."""

    services: Services
    door: Door
    catalog: Catalog
    wait: bool = True
    uploads: Mapping[str, Upload] = field(default_factory=dict)
    readable: Mapping[TableName, Table | TableOf] = field(default_factory=dict)
    """What the gate lets the statement's queries read. `bind` decides it, once."""
    rules: Rules = "native"
    temporary: TemporaryTables = field(default_factory=TemporaryTables)
    """The session's own."""
    block: SessionBlock = field(default_factory=no_block)
    """The session's own."""
    shadowing: frozenset[TableName] = frozenset()
    """The names that mean temporary tables in this statement: of those that exist, and that its text creates before it."""
    subject: Subject | None = None
    check: Callable[[], None] | None = None
    """What `bind` left to the run: whether the engine takes the text of the statement's query (`queries.select`)."""
    cancellation: Cancellation = field(default_factory=Cancellation)
    """Of the text's queries. `bind` leaves it out where a statement writes: that runs to its end."""

    @property
    def warehouse(self) -> Warehouse:
        return self.services.warehouse

    @property
    def principal(self) -> Principal:
        return self.door.principal

    @property
    def engine(self) -> QueryEngine:
        return self.services.engine if self.services.trusts(self.principal) else self.services.workers

    @property
    def limits(self) -> Limits:
        """Of each query."""
        settings = self.warehouse.settings.sql
        return Limits(settings.timeout_seconds, settings.result_bytes, cancellation=self.cancellation)

    def to_run(self, readable: Mapping[TableName, Table | TableOf], check: Callable[[], None] | None) -> Context:
        """The same context for a statement that `bind` allowed."""
        made = object.__new__(Context)  # `replace` sets twenty fields one by one, which costs a look-up more than its parsing
        vars(made).update(vars(self), readable=readable, check=check)
        return made

    def through(self, door: Door) -> Context:
        """The same context for another session."""
        return replace(self, door=door)

    def named(self, ref: Ref, namespace: str | None = None) -> TableName:
        """The full name, spelled as in the catalog if it exists: names in SQL ignore case.

        Raises:
            InvalidArgument: the name has no namespace, and none is in use.
        """
        if self.subject is not None and ref is self.subject.ref:
            return self.subject.name
        place = ref.namespace or namespace or self.namespace
        if place is None:
            raise InvalidArgument(f"{ref} has no namespace: write it as in chat.{ref}, or USE one first")
        if place.lower() == SYSTEM:
            return TableName(SYSTEM, ref.name.lower())
        meant = TableName(place, ref.name)
        if self.shadowing and (own := next((name for name in self.shadowing if _alike(name, meant)), None)) is not None:
            return own
        catalog = self.catalog
        if meant in catalog.tables or meant in catalog.views:
            return meant
        there = (*catalog.tables, *catalog.views, *catalog.blanks)
        return next((name for name in there if _alike(name, meant)), meant)

    def table(self, ref: Ref) -> Table:
        """Raises:
        NotFound, InvalidArgument: the table does not exist.
        """
        if self.subject is not None and ref is self.subject.ref and isinstance(self.subject.table, Table):
            return self.subject.table
        name = self.named(ref)
        held = self.temporary_table(name)
        return find_table(self.catalog, name) if held is None else held.table

    def temporary_table(self, name: TableName) -> TemporaryTable | None:
        """The session's own table that the name means; None where it means one of the warehouse.

        Raises:
            NotFound: it was dropped.
        """
        if name not in self.shadowing:
            return None
        held = self.temporary.find(name)
        if held is None:
            raise NotFound(f"there is no temporary table {name}")
        return held

    def relation(self, ref: Ref, namespace: str | None) -> TableName | ViewQuery:
        """The whole name of a table in a query, or what a view means. Raises as `meant`."""
        found = self.meant(name := self.named(ref, namespace))
        return found if isinstance(found, ViewQuery) else name

    def meant(self, name: TableName) -> Table | TableOf | ViewQuery:
        """What a name in a query means: a view, or a table as the gate sees it.

        Raises:
            NotFound: nothing has this name.
        """
        view = None if name in self.shadowing else self.catalog.views.get(name)
        return self.guarded(name) or find_table(self.catalog, name) if view is None else view_query(view)

    def guarded(self, name: TableName) -> Table | TableOf | None:
        """The table as the gate sees it; None where it does not exist. Reading one without columns fails behind the gate."""
        if self.subject is not None and name is self.subject.name and self.subject.table is not None:
            return self.subject.table
        if name.namespace == SYSTEM:
            return TableOf(name, "SYSTEM")
        if (held := self.temporary_table(name)) is not None:
            return held.table
        if (blank := self.catalog.blanks.get(name)) is not None:
            return TableOf(name, "SHARED", blank.access_level)
        table = self.catalog.tables.get(name)
        return None if table is None or table.dropping else table

    def owner(self, table: Table) -> str | None:
        """The scope that the session sees of a table: its own user's in a USER table."""
        return None if table.type == "SHARED" else self.door.principal.user


def _alike(one: TableName, other: TableName) -> bool:
    return (one.namespace.lower(), one.name.lower()) == (other.namespace.lower(), other.name.lower())
