"""The state of a warehouse: what is pending, due or damaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.catalog.changes.engines import is_active
from lakewarden.maintenance.execution.engine import WorkEngine
from lakewarden.maintenance.planning.pending import DueScope, PendingScopes, ScopeBacklog, due_scopes, pending_in
from lakewarden.tables.warehouse import Warehouse, cold_tables

if TYPE_CHECKING:
    from lakewarden.maintenance.admin.health import StorageHealth
    from lakewarden.maintenance.check.scope import Finding
    from lakewarden.maintenance.planning.overview import Overview
    from lakewarden.maintenance.planning.status import ScopeStatus
    from lakewarden.maintenance.planning.users import KnownUser


@dataclass(frozen=True)
class StatusCalls:
    """`lake.maintenance.status`."""

    warehouse: Warehouse
    engine: WorkEngine

    def pending(self) -> Sequence[ScopeBacklog]:
        """The scopes with rows to flush, oldest first; reads all of the log. STREAM tables have none.

        Omits tables whose log is corrupt; their flush and `check` report it.
        """
        return pending_in(self.warehouse)

    def due(self) -> list[DueScope]:
        """The scopes that are due by their table's FLUSH_POLICY, and why."""
        return self._due(active=True)

    def held(self) -> list[DueScope]:
        """Those that would be due if the engine of their namespace were not disabled."""
        return self._due(active=False)

    def _due(self, *, active: bool) -> list[DueScope]:
        catalog = self.warehouse.catalog.read()
        pending = PendingScopes.of(cold_tables(catalog), self.warehouse.logs.views().sound)
        found = due_scopes(catalog, pending, self.warehouse.clock())
        return [one for one in found if is_active(catalog, one.pending.table) is active]

    def scopes(self, limit: int | None = None) -> list[ScopeStatus]:
        """The scopes that are broken, then those with pending rows and the state of their tables, the longest waiting first;
        at most `limit`."""
        from lakewarden.maintenance.planning.broken_scopes import BrokenScopes
        from lakewarden.maintenance.planning.status import status

        catalog, views = self.warehouse.catalog.read(), self.warehouse.logs.views()
        tables = cold_tables(catalog)
        broken = [BrokenScopes.of(self.warehouse, catalog, table) for table in tables]
        return status(self.warehouse, PendingScopes.of(tables, views.sound), limit, broken, views.faults)

    def overview(self, limit: int | None = None) -> Overview:
        """Each table in numbers, and the worst scopes with the reason: at most `limit`, or all that have pending rows."""
        from lakewarden.maintenance.planning.overview import overview

        return overview(self.warehouse, limit)

    def users(self) -> list[KnownUser]:
        """The users of the catalog, and those who have rows, by name; reads the list of scopes of each table."""
        from lakewarden.maintenance.planning.users import known_users

        return known_users(self.warehouse)

    def check(self, storage: str | None = None, *, quick: bool = False) -> list[Finding]:
        """Checks that every storage is reachable, every scope readable, and log and table consistent.

        With `quick` it opens only the scopes that failed a check before, or that the state does not know.
        """
        from lakewarden.maintenance.check.run import check

        return check(self.warehouse, self.engine.run, storage, quick=quick)

    def storages(self, storage: str | None = None, *, extended: bool = True) -> list[StorageHealth]:
        """The state of every storage, or of one: what works there, how fast, and with `extended` how much it holds.

        Raises:
            NotFound: the storage does not exist.
        """
        from lakewarden.maintenance.admin.health import health
        from lakewarden.maintenance.check.storages import storages_named

        chosen = storages_named(self.warehouse.catalog.read(), storage).values()
        return [health(self.warehouse, one, extended=extended) for one in chosen]
