"""The methods of `Lakehouse` that delegate to `lake.maintenance`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Unpack, overload

from lakewarden.base.commit_metadata import Metadata
from lakewarden.base.scope import Scope
from lakewarden.catalog.operations import Plannable, PlanOptions, Request
from lakewarden.client.nouns import Nouns
from lakewarden.maintenance.planning.pending import DueScope, ScopeBacklog

if TYPE_CHECKING:
    from lakewarden.catalog.report import ScopeReport
    from lakewarden.maintenance.admin.health import StorageHealth
    from lakewarden.maintenance.admin.upgrade import UpgradedStorage
    from lakewarden.maintenance.check.scope import Finding
    from lakewarden.maintenance.planning.overview import Overview
    from lakewarden.maintenance.planning.status import ScopeStatus
    from lakewarden.maintenance.planning.users import KnownUser
    from lakewarden.maintenance.plans.value import Plan
    from lakewarden.maintenance.repair.report import RepairReport


class MaintenanceDelegates(Nouns):
    """The methods of `Lakehouse` that delegate to `lake.maintenance`."""

    def pending(self) -> Sequence[ScopeBacklog]:
        """The scopes with rows to flush, oldest first."""
        return self.maintenance.status.pending()

    def due(self) -> list[DueScope]:
        """The scopes that are due by their table's FLUSH_POLICY, and why."""
        return self.maintenance.status.due()

    def status(self, limit: int | None = None) -> list[ScopeStatus]:
        """The scopes with pending rows, and the state of their tables."""
        return self.maintenance.status.scopes(limit)

    def overview(self, limit: int | None = None) -> Overview:
        """Each table in numbers, and the worst scopes."""
        return self.maintenance.status.overview(limit)

    def users(self) -> list[KnownUser]:
        """The users of the catalog, and those who have rows, by name."""
        return self.maintenance.status.users()

    def check(self, storage: str | None = None, *, quick: bool = False) -> list[Finding]:
        """Checks that every storage is reachable, every scope readable, and log and table consistent."""
        return self.maintenance.status.check(storage, quick=quick)

    def upgrade(self) -> list[UpgradedStorage]:
        """Upgrades a warehouse of an earlier release to the newest format."""
        return self.maintenance.upgrade()

    def repair(
        self,
        table: str | None = None,
        *,
        user: str | None = None,
        dry_run: bool = False,
        restored: bool = False,
        metadata: Metadata | None = None,
    ) -> list[RepairReport]:
        """Repairs damaged logs and scopes, and reports what is lost."""
        return self.maintenance.repair(table, user=user, dry_run=dry_run, restored=restored, metadata=metadata)

    def health(self, storage: str | None = None, *, extended: bool = True) -> list[StorageHealth]:
        """The state of every storage, or of one."""
        return self.maintenance.status.storages(storage, extended=extended)

    @overload
    def plan(self, operation: Plannable, /, *tables: str, **options: Unpack[PlanOptions]) -> Plan: ...  # type: ignore[overload-overlap]  # a table's name contains a dot
    @overload
    def plan(self, *tables: str, look: bool = False) -> list[ScopeReport]: ...
    def plan(self, *names: str, **options: Unpack[PlanOptions]) -> Plan | list[ScopeReport]:
        """Plans an operation for `apply`; without an operation, reports what maintenance would do now."""
        return self.maintenance.plans.plan(*names, **options)

    def planned(self, operation: str, *tables: str, **options: Unpack[PlanOptions]) -> Plan:
        """The plan of an operation by its name."""
        return self.maintenance.plans.planned(operation, *tables, **options)

    def plan_due(self, *tables: str, look: bool = False) -> list[Plan]:
        """Plans of what maintenance would do now, in the order in which to apply them."""
        return self.maintenance.plans.due(*tables, look=look)

    def proposed(self, *tables: str, look: bool = False) -> list[ScopeReport]:
        """Reports for each operation that is due on a scope."""
        return self.maintenance.plans.proposed(*tables, look=look)

    def apply(self, plan: Plan | str, *, only: Request | None = None, metadata: Metadata | None = None) -> list[ScopeReport]:
        """Applies a plan, given by value or id, exactly and once."""
        return self.maintenance.plans.apply(plan, only=only, metadata=metadata)

    def look(self, operation: Plannable, *tables: str, **options: Unpack[PlanOptions]) -> list[ScopeReport]:
        """What a dry run reports, without keeping a plan."""
        return self.maintenance.plans.look(operation, *tables, **options)

    def run(
        self,
        operation: str,
        *tables: str,
        dry_run: bool = False,
        metadata: Metadata | None = None,
        **options: Unpack[PlanOptions],
    ) -> list[ScopeReport]:
        """Runs an operation by its name."""
        return self.maintenance.run(operation, *tables, dry_run=dry_run, metadata=metadata, **options)

    def flush(self, *tables: str, user: str | None = None, metadata: Metadata | None = None) -> list[ScopeReport]:
        """Moves pending rows into the Delta tables."""
        return self.maintenance.flush(*tables, user=user, metadata=metadata)

    def flush_scopes(self, scopes: Iterable[Scope], *, metadata: Metadata | None = None) -> list[ScopeReport]:
        """Flushes exactly these scopes, in one job."""
        return self.maintenance.flush_scopes(scopes, metadata=metadata)

    def compact(
        self,
        *tables: str,
        user: str | None = None,
        where: str | None = None,
        ratio: float | None = None,
        scheduled: bool = False,
        look: bool = False,
        dry_run: bool = False,
        metadata: Metadata | None = None,
    ) -> list[ScopeReport]:
        """Folds each scope's newest small files into one."""
        return self.maintenance.compact(
            *tables, user=user, where=where, ratio=ratio, scheduled=scheduled, look=look, dry_run=dry_run, metadata=metadata
        )

    def evict(self, *tables: str, user: str | None = None, dry_run: bool = False) -> list[ScopeReport]:
        """Removes STREAM rows that are too old or exceed their scope's size."""
        return self.maintenance.evict(*tables, user=user, dry_run=dry_run)

    def optimize(
        self,
        *tables: str,
        user: str | None = None,
        zorder: Sequence[str] = (),
        where: str | None = None,
        target_file_size: int | None = None,
        ratio: float | None = None,
        scheduled: bool = False,
        look: bool = False,
        dry_run: bool = False,
        metadata: Metadata | None = None,
    ) -> list[ScopeReport]:
        """Packs each scope's files to the target size, or clusters them by columns; each partition by itself."""
        return self.maintenance.optimize(
            *tables,
            user=user,
            zorder=zorder,
            where=where,
            target_file_size=target_file_size,
            ratio=ratio,
            scheduled=scheduled,
            look=look,
            dry_run=dry_run,
            metadata=metadata,
        )

    def vacuum(
        self,
        *tables: str,
        user: str | None = None,
        retain_hours: float | None = None,
        force: bool = False,
        ignore_checks: bool = False,
        look: bool = False,
        dry_run: bool = True,
        metadata: Metadata | None = None,
    ) -> list[ScopeReport]:
        """Deletes files that no version inside the retention needs; only lists them unless `dry_run=False`."""
        return self.maintenance.vacuum(
            *tables,
            user=user,
            retain_hours=retain_hours,
            force=force,
            ignore_checks=ignore_checks,
            look=look,
            dry_run=dry_run,
            metadata=metadata,
        )

    def restore(
        self,
        table: str,
        *,
        user: str | None = None,
        version: int | None = None,
        timestamp: datetime | None = None,
        discard_pending: bool = False,
        dry_run: bool = True,
        metadata: Metadata | None = None,
    ) -> list[ScopeReport]:
        """Brings a scope or a table back to a version or a time; only reports what it would do unless `dry_run=False`."""
        return self.maintenance.restore(
            table,
            user=user,
            version=version,
            timestamp=timestamp,
            discard_pending=discard_pending,
            dry_run=dry_run,
            metadata=metadata,
        )

    def move(self, table: str, to: str, *, metadata: Metadata | None = None) -> list[ScopeReport]:
        """Moves a table to another storage; reads and writes continue."""
        return self.maintenance.move(table, to, metadata=metadata)

    def cancel_move(self, table: str) -> list[ScopeReport]:
        """Cancels a move before its switch; the table stays where it is."""
        return self.maintenance.cancel_move(table)
