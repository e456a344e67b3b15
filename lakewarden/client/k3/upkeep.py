"""Maintenance, history and time travel (K3-102 to K3-118); how far a table's log is drained, and its partitions (K3-113)."""

from __future__ import annotations

from collections.abc import Sequence
from posixpath import dirname

from lakewarden.base.clock import to_millis
from lakewarden.base.commit_metadata import Metadata
from lakewarden.catalog.report import ScopeReport
from lakewarden.client.k3.calls import Calls
from lakewarden.client.k3.messages import (
    CompactAnswer,
    DescriptionAnswer,
    HistoryAnswer,
    OptimizeAnswer,
    PartitionAnswer,
    RestoreAnswer,
    VacuumAnswer,
)
from lakewarden.client.k3.wire import int64, millis, whole
from lakewarden.delta.reading.history import HistoryEntry
from lakewarden.errors import InvalidArgument, ScopesFailed
from lakewarden.maintenance.optimize import OptimizeOptions
from lakewarden.maintenance.planning.drains import last_drain, partition_sizes, table_size, waiting_since
from lakewarden.maintenance.request import Request, new_request
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.maintenance.vacuum import VacuumOptions
from lakewarden.maintenance.vacuum.removable import SAFE_HOURS

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
        options = OptimizeOptions(tuple(z_order_columns), target_file_size=size * _MIB, look=True)
        report = _only(self._done(Request("optimize", (str(found.name),), options)))
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
        hours, tables = float(whole("retention_hours", retention_hours)), (str(found.name),)
        if dry_run:
            report = _only(self._services.operator().look(Request("vacuum", tables, VacuumOptions(hours, force, look=True))))
        else:
            report = _only(self._done(Request("vacuum", tables, VacuumOptions(hours, force, recorded=True, look=True))))
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
        reports = self._done(new_request("flush", (str(found.name),)))
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
        self._done(Request("restore", (str(found.name),), RestoreOptions(to, always=True)))
        return {"version": int64(table_size(self._warehouse, found).version or 0), "restoredVersion": int64(to)}

    def _done(self, request: Request) -> list[ScopeReport]:
        return _sound(self._services.operator().run(request))


def _sound(reports: Sequence[ScopeReport]) -> list[ScopeReport]:
    """Raises ScopesFailed: the table's scope failed; the code is the fault's."""
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


class Inspection(Calls):
    """The calls that look into a table."""

    def describe_table(self, bucket: str, table: str) -> DescriptionAnswer:
        """The newest version, what the last drain did, and how many seconds the oldest row has been waiting for the next.

        Raises:
            NotFound: the bucket or the table does not exist.
        """
        found = self._table(bucket, table, None)
        size, drain = table_size(self._warehouse, found), last_drain(self._warehouse, found)
        since = waiting_since(self._warehouse, found)
        lag = 0.0 if since is None else (self._warehouse.clock() - since).total_seconds()
        return {
            "bucket": bucket,
            "name": table,
            "version": "" if size.version is None else int64(size.version),
            "lastDrainTargetVersion": "" if drain is None else int64(drain.version),
            "lastDrainAt": "" if drain is None else millis(drain.at),
            "lastDrainRowsInserted": int64(0 if drain is None else drain.inserted),
            "lastDrainRowsUpdated": int64(0 if drain is None else drain.updated),
            "lastDrainRowsDeleted": int64(0 if drain is None else drain.deleted),
            "drainLagSecs": int64(max(0, int(lag))),
        }

    def list_partitions(self, bucket: str, table: str) -> list[PartitionAnswer]:
        """Each partition that has files, with their number; NULL is None. Raises as `describe_table`."""
        found = self._table(bucket, table, None)
        return [
            {
                "values": dict(one.partition),
                "fileCount": int64(one.files),
                "rowCount": int64(one.rows),
                "sizeBytes": int64(one.bytes),
            }
            for one in partition_sizes(self._warehouse, found)
        ]
