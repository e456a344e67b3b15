"""`lake.maintenance`: the operations over scopes. Each returns a report for each scope.

The commits of an operation carry its `metadata`, a JSON object of the caller (`HistoryEntry.metadata`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from lakewarden.base.commit_metadata import Metadata, attaches
from lakewarden.base.scope import Scope, TableName
from lakewarden.client.parts import Noun
from lakewarden.client.plans import Plans
from lakewarden.client.status import WarehouseStatus
from lakewarden.maintenance.compact import CompactOptions
from lakewarden.maintenance.optimize import OptimizeOptions
from lakewarden.maintenance.request import Request, check_request, new_request
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.maintenance.vacuum import VacuumOptions

if TYPE_CHECKING:
    from lakewarden.catalog.report import ScopeReport
    from lakewarden.maintenance.admin.upgrade import UpgradedStorage
    from lakewarden.maintenance.repair.report import RepairReport


class MaintenanceCalls(Noun):
    """The calls of `lake.maintenance` that `Lakehouse` has, too."""

    def upgrade(self) -> list[UpgradedStorage]:
        """Upgrades a warehouse of an earlier release to the newest format: gives every storage its identity and every
        table its floor. Stop processes of earlier releases first; open the warehouse again afterwards.

        Raises:
            StorageUnavailable, StorageRefused, Corrupt: a storage, or the table of a flushed scope, does not exist;
                nothing was upgraded.
        """
        from lakewarden.maintenance.admin.upgrade import upgrade

        return upgrade(self._parts.warehouse)

    @attaches
    def repair(
        self,
        table: str | None = None,
        *,
        user: str | None = None,
        dry_run: bool = False,
        restored: bool = False,
        metadata: Metadata | None = None,
    ) -> list[RepairReport]:
        """Repairs damaged logs and scopes from the rows that are left, and reports what is lost.

        Moves damaged objects, and rows that may have been deleted, to `_quarantine/` in the scope's directory.

        Args:
            table: by default all tables.
            user: only this user's scopes.
            dry_run: reports what would be done, and changes nothing; `apply` of its plan does that.
            restored: the required step after the warehouse or its data was restored from a backup.

        Returns:
            A report for each damaged log and ledger, and for each scope; `skipped` where nothing is wrong. It names the writers
            not all of whose rows are back: they stop until they are resumed.

        Raises:
            NotFound, InvalidArgument: the table does not exist; the user's name is not valid, or given for a SHARED table.
            StorageUnavailable: a storage is unavailable, or not the one that this warehouse uses.
        """
        from lakewarden.ingest.pipelines.rejects import with_uploads
        from lakewarden.maintenance.repair.procedure import as_reports, damage, repaired

        request = check_request(new_request("repair", () if table is None else (table,), user=user, restored=restored))
        at, planned_at = self._parts.operator, self._parts.warehouse.clock()
        catalog = at.warehouse.catalog.read()
        if not dry_run:
            return with_uploads(at.warehouse, repaired(at, catalog, request))
        found = damage(at, catalog, request)
        plan_id = at.kept(request, as_reports(at.warehouse, catalog, found), planned_at, catalog).plan_id
        return [replace(one, plan_id=plan_id) for one in found]

    def flush(self, *tables: str, user: str | None = None, metadata: Metadata | None = None) -> list[ScopeReport]:
        """Moves pending rows into the Delta tables: by default of all tables and users.

        Raises:
            NotFound: a table does not exist; nothing was flushed.
        """
        return self._parts.operator.do(new_request("flush", tables, user=user), dry_run=False, metadata=metadata)

    @attaches
    def flush_scopes(self, scopes: Iterable[Scope], *, metadata: Metadata | None = None) -> list[ScopeReport]:
        """Flushes exactly these scopes, in one job; skips those without pending rows."""
        from lakewarden.maintenance.flush.procedure import flush_exactly

        return flush_exactly(self._parts.operator, set(scopes))

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
        """Folds each scope's newest small files into one.

        Over whole tables, this opens the scopes that may need it, by what the state knows of them. The others are
        `skipped`, with the metric `scopes_quiet`: more than a hundred of a table in one report. So are those of a storage that is
        away, with `scopes_failed`. Optimize and vacuum do the same.

        Args:
            where: a condition on partition columns, such as `day = '2024-05-01'`: only these partitions.
            ratio: leaves a file with more than this many times the rows of the newer ones together. Without it, or with 0, all
                files are taken that fit; with `scheduled` the table's COMPACTION_RATIO counts, or `compaction.ratio`.
            scheduled: as a schedule does it. After a change of the rule, scopes that were quiet come a part at a time.
            look: opens each scope. Without it, commits of other programs may be missed until the next rolling look.
        """
        options = CompactOptions(user=user, where=where, ratio=ratio, scheduled=scheduled, look=look)
        return self._parts.operator.do(Request("compact", tables, options), dry_run=dry_run, metadata=metadata)

    def evict(self, *tables: str, user: str | None = None, dry_run: bool = False) -> list[ScopeReport]:
        """Removes STREAM rows that have expired or exceed their scope's size: a report for each such scope.

        Raises:
            NotFound, Unsupported: a table does not exist or is not a STREAM table; nothing was evicted.
        """
        return self._parts.operator.do(new_request("evict", tables, user=user), dry_run=dry_run)

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
        """Packs each scope's files to the target size, or clusters them by columns; each partition by itself.

        Args:
            where: a condition on partition columns, in SQL; other partitions are left.
            target_file_size: in bytes, instead of the table's.
            ratio: leaves a file with more than this many times the bytes of the smaller ones together; as in `compact`.
            scheduled: as a schedule does it; a change of `maintenance.min_gain` then reaches the scopes a part at a time.
            look: as in `compact`.
        """
        options = OptimizeOptions(tuple(zorder), where, target_file_size, ratio=ratio, scheduled=scheduled, user=user, look=look)
        return self._parts.operator.do(Request("optimize", tables, options), dry_run=dry_run, metadata=metadata)

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
        """Deletes files that no version inside the retention needs; only lists them unless `dry_run=False`. `look` is as in
        `compact`.

        A scope that failed a check, and has passed none since, is `failed` with CONFLICT, and the others are done.

        Args:
            ignore_checks: vacuums such scopes, too.

        Raises:
            InvalidArgument: the retention is below 168 hours, and `force` is not given.
        """
        options = VacuumOptions(retain_hours, force, ignore_checks, user=user, look=look)
        return self._parts.operator.do(Request("vacuum", tables, options), dry_run=dry_run, metadata=metadata)

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
        """Restores a scope (or, by timestamp, all scopes of a table); only reports what it would do unless `dry_run=False`.

        Pending rows are flushed first, or dropped with `discard_pending`.

        Raises:
            InvalidArgument: not exactly one of `version` and `timestamp`, or a version of a USER table without a user.
        """
        options = RestoreOptions(version, timestamp, discard_pending, user=user)
        return self._parts.operator.do(Request("restore", (table,), options), dry_run=dry_run, metadata=metadata)

    def run(
        self,
        operation: str,
        *tables: str,
        dry_run: bool = False,
        metadata: Metadata | None = None,
        **options: object,
    ) -> list[ScopeReport]:
        """Runs an operation by its name; the methods of this noun do that for most.

        Raises:
            InvalidArgument, Unsupported, NotFound: the request is not valid, by its row and its options; nothing was done.
        """
        request = check_request(new_request(operation, tables, **options))
        return self._parts.operator.do(request, dry_run=dry_run, metadata=metadata)

    def move(self, table: str, to: str, *, metadata: Metadata | None = None) -> list[ScopeReport]:
        """Moves a table to another storage: copies, compares, switches, and empties the old place. Reads and writes continue;
        flushes wait while the last part is copied. Continues a move that was interrupted.

        The scopes of users with their own storage stay there.

        Args:
            to: the storage's id.

        Returns:
            A report for each scope; empty if the table is there already. If a scope failed, the table stays where it is.

        Raises:
            NotFound, Unsupported: the table or storage does not exist; it is a STREAM table.
            InUse: the table is being moved elsewhere, or its place there is not empty.
            Conflict: a reader pins a version, or a user is being erased; try again later.
        """
        return self._parts.operator.do(new_request("move", (table,), to=to), dry_run=False, metadata=metadata)

    def cancel_move(self, table: str) -> list[ScopeReport]:
        """Cancels a move before its switch; the table stays where it is, and the copies are removed.

        Raises:
            NotFound: the table does not exist.
            InUse: the table is at the new place already; the move can only be completed.
        """
        from lakewarden.maintenance.move.procedure import cancel_move

        return cancel_move(self._parts.operator, TableName.parse(table))


class Maintenance(MaintenanceCalls):
    """`lake.maintenance`."""

    @property
    def status(self) -> WarehouseStatus:
        """What is pending, due or damaged."""
        return WarehouseStatus(self._parts)

    @property
    def plans(self) -> Plans:
        """The operations as plans."""
        return Plans(self._parts)
