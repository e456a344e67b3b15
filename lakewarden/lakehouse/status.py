"""How a warehouse stands: what is pending or due, and what is damaged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.execution.engine import Engine
from lakewarden.planning.pending import Due, Pending, due_scopes, pending_in
from lakewarden.warehouse import Warehouse

if TYPE_CHECKING:
    from lakewarden.admin.health import StorageHealth
    from lakewarden.operations.check import Finding
    from lakewarden.planning.status import ScopeStatus


@dataclass(frozen=True)
class Status:
    """`lake.maintenance.status`."""

    warehouse: Warehouse
    engine: Engine

    def pending(self) -> list[Pending]:
        """The scopes with rows to flush, oldest first; costs what lies in the log. STREAM tables have none.

        Those of a table whose log is corrupt are not known; its flush and `check` say so.
        """
        return pending_in(self.warehouse)

    def due(self) -> list[Due]:
        """The scopes that their table's FLUSH_POLICY wants flushed now, and why."""
        return list(due_scopes(self.warehouse.catalog.read(), self.pending(), self.warehouse.clock()))

    def scopes(self) -> list[ScopeStatus]:
        """The scopes with pending rows and how their tables stand, the one that waits longest first."""
        from lakewarden.planning.status import status

        return status(self.warehouse, self.pending())

    def check(self, storage: str | None = None) -> list[Finding]:
        """Is every storage reachable, every scope readable, log and table consistent?"""
        from lakewarden.operations.check import check

        return check(self.warehouse, self.engine.run, storage)

    def storages(self, storage: str | None = None, *, extended: bool = True) -> list[StorageHealth]:
        """How every storage is, or that one: what can be done there, how fast, and with `extended` how much lies there.

        Raises:
            NotFound: no such storage.
        """
        from lakewarden.admin.health import health
        from lakewarden.operations.check import storages_named

        chosen = storages_named(self.warehouse.catalog.read(), storage).values()
        return [health(self.warehouse, one, extended=extended) for one in chosen]
