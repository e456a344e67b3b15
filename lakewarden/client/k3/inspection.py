"""How far a table's write log is drained, and its partitions (K3-113)."""

from __future__ import annotations

from lakewarden.client.k3.calls import Calls
from lakewarden.client.k3.messages import DescriptionAnswer, PartitionAnswer
from lakewarden.client.k3.wire import int64, millis
from lakewarden.maintenance.planning.drains import last_drain, partition_sizes, waiting_since
from lakewarden.maintenance.planning.table_size import table_size


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
