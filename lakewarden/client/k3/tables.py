"""Tables of a bucket (K3-18 to K3-34)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakewarden.base.clock import to_millis
from lakewarden.base.commit_metadata import Metadata
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.access import TableOf
from lakewarden.catalog.changes.engines import engine_id, namespace_of
from lakewarden.catalog.model import Catalog, Table
from lakewarden.client.k3.calls import Calls
from lakewarden.client.k3.columns import declared, shown
from lakewarden.client.k3.enums import K3TableStatus, TableSource
from lakewarden.client.k3.messages import DeletedAnswer, TableAnswer
from lakewarden.client.k3.wire import int64, millis
from lakewarden.delta.reading.history import history
from lakewarden.errors import Corrupt, NotFound, StorageRefused, StorageUnavailable
from lakewarden.maintenance.admin.create_table import make_table, new_table
from lakewarden.maintenance.drop import drop_now
from lakewarden.maintenance.planning.table_size import TableSize, table_size

DEFAULTS = {"ON_DUPLICATE": "replace", "FLUSH_POLICY": "rows:1"}
"""Options of tables that K3's calls make: a later insert of a key wins (K3-99), and what is in the log is drained when the flush
sensor looks next (K3-98)."""


class Tables(Calls):
    """The calls about tables."""

    def create_table(
        self,
        bucket: str,
        name: str,
        columns: Sequence[Mapping[str, object]] = (),
        partition_columns: Sequence[str] = (),
        merge_keys: Sequence[str] = (),
        description: str = "",
        user_metadata: Metadata | None = None,
    ) -> TableAnswer:
        """Creates a table, with its Delta table at version 0. Answers it.

        Raises:
            InvalidArgument, AlreadyExists, NotFound, FailedPrecondition: nothing was created.
        """
        self._check_active(self._catalog(bucket), bucket, name, "create")
        made = declared(columns, merge_keys)
        table = new_table(self._warehouse, TableName(bucket, name), "SHARED", made, merge_keys, DEFAULTS, partition_columns)
        make_table(self._warehouse, replace(table, description=description), at_once=True)
        return self.get_table(bucket, name)

    def get_table(self, bucket: str, table: str) -> TableAnswer:
        """Raises:
        NotFound: the bucket or the table does not exist.
        """
        catalog = self._catalog(bucket)
        blank = catalog.blanks.get(TableName(bucket, table))
        if blank is not None:
            self._door.allow("look at what exists")
            return self._shown(catalog, blank)
        return self._shown(catalog, self._table(bucket, table, None))

    def list_tables(self, bucket: str) -> list[TableAnswer]:
        """Every table, in the order of creation. One that cannot be read has the status UNSPECIFIED, and no numbers."""
        catalog = self._catalog(bucket, "look at what exists")
        tables = sorted(self._tables(catalog, bucket), key=lambda table: table.created_at)
        return [self._listed(catalog, table) for table in tables]

    def _listed(self, catalog: Catalog, table: Table) -> TableAnswer:
        try:
            return self._shown(catalog, table)
        except (Corrupt, StorageRefused, StorageUnavailable):
            answer = self._answer(catalog, table, TableSize(None, 0, 0, 0), to_millis(table.created_at))
            return {**answer, "rowCount": "", "sizeBytes": "", "status": K3TableStatus.UNSPECIFIED.wire}

    def delete_table(self, bucket: str, table: str) -> DeletedAnswer:
        """Removes a table and its data; returns when they are gone. The pipeline and the rule of one stay (K3-125)."""
        blank = self._catalog(bucket).blanks.get(TableName(bucket, table))
        if blank is not None:
            self._door.allow("drop", self._blank_gate(blank))
        found = blank or self._table(bucket, table, "drop")
        drop_now(self._services.operator(), found.name)
        return {"tableId": _table_id(found), "bucket": bucket, "name": table, "deleted": True}

    def _blank_gate(self, blank: Table) -> TableOf:
        """A table without a schema as the gate sees it."""
        return TableOf(blank.name, "SHARED", blank.access_level)

    def _shown(self, catalog: Catalog, table: Table) -> TableAnswer:
        size = table_size(self._warehouse, table) if table.schemas else TableSize(None, 0, 0, 0)
        return self._answer(catalog, table, size, self._updated(catalog, table))

    def _answer(self, catalog: Catalog, table: Table, size: TableSize, updated: int) -> TableAnswer:
        """A table without a schema has no columns yet; its key and partitions are those of its pipeline."""
        pipeline = next((one for one in catalog.pipelines.values() if one.table_id == table.id), None)
        layout = table.schema if table.schemas else pipeline
        return {
            "tableId": _table_id(table),
            "bucket": table.name.namespace,
            "engineId": engine_id(namespace_of(catalog, table.name.namespace)),
            "name": table.name.name,
            "description": table.description,
            "columns": [shown(column) for column in (table.schema.shown if table.schemas else ())],
            "partitionColumns": list(layout.partition_by if layout else ()),
            "mergeKeys": list(layout.primary_key if layout else ()),
            "source": (TableSource.MANUAL if pipeline is None else TableSource.PIPELINE_GENERATED).wire,
            "deltaVersion": "" if size.version is None else int64(size.version),
            "rowCount": int64(size.rows),
            "sizeBytes": int64(size.bytes),
            "status": K3TableStatus.ACTIVE.wire,
            "createdAt": millis(table.created_at),
            "updatedAt": int64(updated),
            "pipelineId": "" if pipeline is None else pipeline.id,
        }

    def _updated(self, catalog: Catalog, table: Table) -> int:
        """When the newest commit was made, in milliseconds; before the first, when the table was."""
        created = to_millis(table.created_at)
        if not table.schemas:
            return created
        try:
            newest = history(self._warehouse.target(catalog, Scope(table.name, None)), limit=1)
        except NotFound:
            return created
        return max(created, *(to_millis(one.timestamp) for one in newest)) if newest else created


def _table_id(table: Table) -> str:
    return f"tbl_{table.id}"
