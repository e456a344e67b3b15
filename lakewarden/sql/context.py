"""What a statement runs with: for whom, over which catalog, and which tables its queries may read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from lakewarden.access.gate import Session, TableOf
from lakewarden.admin.session_gate import Door
from lakewarden.catalog.model import Catalog, Table
from lakewarden.errors import InvalidArgument, NotFound
from lakewarden.scope import TableName
from lakewarden.sql.parse import parse_query
from lakewarden.sql.query_engine.engine import Limits
from lakewarden.sql.relations import SYSTEM, ViewQuery
from lakewarden.sql.services import Services
from lakewarden.sql.statements import Query, Ref
from lakewarden.warehouse import Warehouse, find_table

if TYPE_CHECKING:
    from lakewarden.operations.reading.scope import Freshness
    from lakewarden.rows.files import Upload


@dataclass(frozen=True)
class Context:
    """Names are looked up in one version of the catalog, so a name means the same for all of a statement."""

    services: Services
    door: Door
    catalog: Catalog
    namespace: str | None = None
    freshness: Freshness = "strong"
    wait: bool = True
    uploads: Mapping[str, Upload] = field(default_factory=dict)
    readable: Mapping[TableName, Table | TableOf] = field(default_factory=dict)
    """What the gate lets the queries of the statement read; `bind` says so, and no one asks again."""

    @property
    def warehouse(self) -> Warehouse:
        return self.services.warehouse

    @property
    def session(self) -> Session:
        return self.door.session

    @property
    def limits(self) -> Limits:
        """Of each query."""
        settings = self.warehouse.settings.sql
        return Limits(settings.timeout_seconds, settings.result_bytes)

    def through(self, door: Door) -> Context:
        """The same, for another session."""
        return replace(self, door=door)

    def named(self, ref: Ref, namespace: str | None = None) -> TableName:
        """The full name that is meant, in the catalog's own letters where it is there: SQL's names have no case.

        Raises:
            InvalidArgument: no namespace, neither in the name nor in use.
        """
        place = ref.namespace or namespace or self.namespace
        if place is None:
            raise InvalidArgument(f"{ref} has no namespace: write it as in chat.{ref}, or USE one first")
        if place.lower() == SYSTEM:
            return TableName(SYSTEM, ref.name.lower())
        meant = TableName(place, ref.name)
        if meant in self.catalog.tables or meant in self.catalog.views:
            return meant
        return next((name for name in (*self.catalog.tables, *self.catalog.views) if _alike(name, meant)), meant)

    def table(self, ref: Ref) -> Table:
        """Raises:
        NotFound, InvalidArgument: no such table.
        """
        return find_table(self.catalog, self.named(ref))

    def relation(self, ref: Ref, namespace: str | None) -> TableName | ViewQuery:
        """What a name in a query means.

        Raises:
            NotFound, InvalidArgument: nothing.
        """
        name = self.named(ref, namespace)
        view = self.catalog.views.get(name)
        if view is not None:
            return ViewQuery(cast("Query", parse_query(view.text)).query, name.namespace)
        if name.namespace != SYSTEM:
            find_table(self.catalog, name)
        return name

    def guarded(self, name: TableName) -> Table | TableOf | None:
        """The table as the gate looks at it; None where it does not exist."""
        if name.namespace == SYSTEM:
            return TableOf(name, "SYSTEM")
        try:
            return find_table(self.catalog, name)
        except NotFound:
            return None

    def owner(self, table: Table) -> str | None:
        """Whose rows of a table the session sees: its own of a USER table."""
        return None if table.type == "SHARED" else self.session.user


def _alike(one: TableName, other: TableName) -> bool:
    return (one.namespace.lower(), one.name.lower()) == (other.namespace.lower(), other.name.lower())
