"""Maintenance, history and time travel (K3-102 to K3-118)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from posixpath import dirname

from lakewarden.base.clock import to_millis
from lakewarden.base.commit_metadata import Metadata
from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Table
from lakewarden.catalog.operations import Request
from lakewarden.catalog.report import ScopeReport
from lakewarden.client.k3.calls import Calls
from lakewarden.client.k3.messages import CompactAnswer, HistoryAnswer, OptimizeAnswer, RestoreAnswer, VacuumAnswer
from lakewarden.client.k3.wire import int64, whole
from lakewarden.delta.history import HistoryEntry
from lakewarden.errors import InvalidArgument, ScopesFailed
from lakewarden.maintenance.maintain import maintain_targets
from lakewarden.maintenance.optimize.scope import OptimizeOptions
from lakewarden.maintenance.planning.table_size import table_size
from lakewarden.maintenance.plans.scope_options import ScopeOptions
from lakewarden.maintenance.restore.scope import restore_options
from lakewarden.maintenance.rewind import Rewind, rewind
from lakewarden.maintenance.vacuum.retention import SAFE_HOURS
from lakewarden.maintenance.vacuum.scope import VacuumOptions

_MIB = 1 << 20


class UpkeepCalls(Calls):
    """The calls that maintain a table, and its history."""

    def history(self, bucket: str, table: str, limit: object = 20, before_version: object = None) -> list[HistoryAnswer]:
        """The commits below `before_version`, newest first.

        Raises:
            InvalidArgument: a negative limit or version.
        """
        found = self._client(self._table(bucket, table, "read"))
        before = None if before_version is None else whole("before_version", before_version)
        return [_entry(one) for one in found.history(limit=whole("limit", limit), before_version=before)]

    def optimize(
        self,
        bucket: str,
        table: str,
        z_order_columns: Sequence[str] = (),
        target_file_size_mb: object = 128,
        user_metadata: Metadata | None = None,
    ) -> OptimizeAnswer:
        """Packs small files to the target size, partition by partition; with columns, clusters the rows by them.

        Raises:
            InvalidArgument: a column that does not exist, or by which the table is partitioned; a size that is not above 0.
        """
        found = self._table(bucket, table, "write")
        size = whole("target_file_size_mb", target_file_size_mb)
        if size <= 0:
            raise InvalidArgument(f"target_file_size_mb {size}: a size above 0")
        report = self._maintained(found, OptimizeOptions(tuple(z_order_columns)), size * _MIB)
        total, done = table_size(self._warehouse, found), report.outcome == "done"
        metrics = report.metrics if done else {}
        kept = total.files - metrics.get("files_added", 0)
        return {
            "version": int64(total.version or 0),
            "optimizeType": "z_order" if z_order_columns else "compact",
            "filesAdded": int64(metrics.get("files_added", 0)),
            "filesRemoved": int64(metrics.get("files_removed", 0)),
            "bytesAdded": int64(metrics.get("bytes_added", 0)),
            "bytesRemoved": int64(metrics.get("bytes_removed", 0)),
            "partitionsOptimized": int64(len({dirname(file) for file in report.files}) if done else 0),
            "totalConsideredFiles": int64(kept + metrics.get("files_removed", 0)),
            "totalFilesSkipped": int64(kept),
        }

    def vacuum(
        self,
        bucket: str,
        table: str,
        retention_hours: object = SAFE_HOURS,
        dry_run: bool = False,
        force: bool = False,
        user_metadata: Metadata | None = None,
    ) -> VacuumAnswer:
        """Deletes the files that no version of the last hours needs, between two commits; a dry run only lists them.

        Raises:
            InvalidArgument: fewer than 168 hours, without `force`.
        """
        found = self._table(bucket, table, "write")
        hours = float(whole("retention_hours", retention_hours))
        if dry_run:
            report = self._look(Request("vacuum", (str(found.name),), retain_hours=hours, force=force))
        else:
            report = self._maintained(found, VacuumOptions(hours, force, recorded=True))
        return {
            "version": int64(table_size(self._warehouse, found).version or 0),
            "dryRun": dry_run,
            "filesDeleted": int64(0 if dry_run else report.metrics.get("files_deleted", 0)),
            "bytesDeleted": int64(0 if dry_run else report.metrics.get("bytes_deleted", 0)),
            "files": list(report.files),
        }

    def compact(self, bucket: str, table: str, user_metadata: Metadata | None = None) -> CompactAnswer:
        """Drains the write log into Delta now, by one commit; none where the log is empty."""
        found = self._table(bucket, table, "flush")
        reports = self._done(Request("flush", (str(found.name),)))
        drained = sum(one.metrics["rows_upserted"] + one.metrics["rows_deleted"] for one in reports if one.outcome == "done")
        return {
            "version": int64(table_size(self._warehouse, found).version or 0),
            "rowsDrained": int64(drained),
            "pendingDrain": False,
        }

    def restore(self, bucket: str, table: str, version: object, user_metadata: Metadata | None = None) -> RestoreAnswer:
        """Brings an earlier version back as a new one, also where its rows are those of now. What is in the write log is
        drained first.

        Raises:
            NotFound: the version does not exist, or its files were vacuumed; the message says which still work.
        """
        found = self._table(bucket, table, "write")
        to = whole("version", version)
        options, at = replace(restore_options(found, None, to, None), always=True), self._services.operator().workplace

        def work(job_id: str) -> list[ScopeReport]:
            asked = Rewind(found.name, None, options, discard_pending=False, dry_run=False, job_id=job_id)
            return rewind(self._warehouse, at.run, at.flush_large, asked)

        _sound(at.as_job("restore", {"tables": str(found.name), "version": str(to)}, work, None))
        return {"version": int64(table_size(self._warehouse, found).version or 0), "restoredVersion": int64(to)}

    def _look(self, request: Request) -> ScopeReport:
        from lakewarden.maintenance.execution.planner import Planner  # imports all operations

        return _only(Planner(self._services.operator()).look(request))

    def _maintained(self, table: Table, options: ScopeOptions, target_file_size: int | None = None) -> ScopeReport:
        """Raises:
        InvalidArgument: an option is not valid for the table; nothing was done.
        """
        warehouse, at = self._warehouse, self._services.operator().workplace
        options.check(table.name, table.schema, warehouse.retention_hours(table))
        target = warehouse.target(warehouse.catalog.read(), Scope(table.name, None))
        sized = target if target_file_size is None else replace(target, target_file_size=target_file_size)

        def work(job_id: str) -> list[ScopeReport]:
            return maintain_targets(warehouse, at.run, [sized], options, dry_run=False, job_id=job_id)

        return _only(at.as_job(options.operation, {"tables": str(table.name)}, work, None))

    def _done(self, request: Request) -> list[ScopeReport]:
        return _sound(self._services.operator().run(request))


def _sound(reports: Sequence[ScopeReport]) -> list[ScopeReport]:
    """Raises:
    ScopesFailed: the table's scope failed; the code is the fault's.
    """
    for report in reports:
        if report.fault is not None:
            raise ScopesFailed(report.fault.code, report.fault.message)
    return list(reports)


def _only(reports: Sequence[ScopeReport]) -> ScopeReport:
    """A SHARED table has one scope."""
    (report,) = _sound(reports)
    return report


def _entry(one: HistoryEntry) -> HistoryAnswer:
    return {
        "version": int64(one.version),
        "timestamp": str(to_millis(one.timestamp)),
        "operation": one.operation,
        "parameters": one.parameters,
        "operationMetrics": one.operation_metrics,
        "userMetadata": one.metadata,
        "engineInfo": one.engine_info,
        "readVersion": int64(one.k3_read_version),
    }
