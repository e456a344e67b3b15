"""Tables of a bucket (K3-18 to K3-34); pipelines, their rules, and ingests (K3-22 to K3-26, K3-119 to K3-125)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakewarden.base.clock import to_millis
from lakewarden.base.commit_metadata import Metadata
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.access import ADMINS, TableAct, TableOf
from lakewarden.catalog.changes.engines import engine_id, namespace_of
from lakewarden.catalog.changes.pipelines import pipelines_in, rule_named, rule_of
from lakewarden.catalog.model import Catalog, Column, IngestRule, SchemaColumn, Table
from lakewarden.client.k3.calls import DEFAULTS, Calls
from lakewarden.client.k3.messages import ColumnAnswer, DeletedAnswer, IngestAnswer, RuleAnswer, TableAnswer
from lakewarden.client.k3.wire import KIND_OF_TYPE, TYPE_OF_KIND, ColumnKind, K3TableStatus, TableSource, int64, member, millis
from lakewarden.delta.reading.history import history
from lakewarden.errors import Corrupt, InvalidArgument, NotFound, StorageRefused, StorageUnavailable
from lakewarden.ingest.pipelines.create import edit_rule, make_pipeline
from lakewarden.ingest.pipelines.run import IngestRequest, ingest
from lakewarden.maintenance.admin.create_table import make_table, new_table
from lakewarden.maintenance.drop import drop_now
from lakewarden.maintenance.planning.drains import TableSize, table_size


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
        """Raises NotFound: the bucket or the table does not exist."""
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
        found = self._blank_or_table(bucket, table, "drop")
        drop_now(self._services.operator(), found.name)
        return {"tableId": _table_id(found), "bucket": bucket, "name": table, "deleted": True}

    def _blank_or_table(self, bucket: str, name: str, act: TableAct) -> Table:
        """A table, also one of a pipeline that has no schema yet. Raises as `_table`."""
        blank = self._catalog(bucket).blanks.get(TableName(bucket, name))
        if blank is None:
            return self._table(bucket, name, act)
        self._door.allow(act, TableOf(blank.name, "SHARED", blank.access_level))
        return blank

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


# Columns of requests and answers.

_FIELDS = ("name", "type", "nullable", "default_expression")


def declared(columns: Sequence[Mapping[str, object]], merge_keys: Sequence[str]) -> list[Column]:
    """The columns of a table to create.

    Raises:
        InvalidArgument: there are none, one has no valid type, or a column cannot be a merge key.
    """
    if not columns:
        raise InvalidArgument("columns is empty: a manual table needs columns; with create_table_pipeline, its template has them")
    found = [_column(each) for each in columns]
    nullable = {column.name: column.nullable for column in found}
    for name in merge_keys:
        if name not in nullable:
            raise InvalidArgument(f"merge_keys names {name!r}, which is not a column; the columns are {', '.join(nullable)}")
        if nullable[name]:
            raise InvalidArgument(f"merge_keys names {name!r}, which is nullable: a key column has nullable = false")
    return found


def _column(given: Mapping[str, object]) -> Column:
    unknown = [name for name in given if name not in _FIELDS]
    if unknown:
        raise InvalidArgument(f"a column has no field {unknown[0]!r}; its fields are {', '.join(_FIELDS)}")
    name, default = given.get("name"), given.get("default_expression") or ""
    if not isinstance(name, str) or not isinstance(default, str):
        raise InvalidArgument(f"a column's name and default_expression are text: {dict(given)!r}")
    kind = member(ColumnKind, f"type of column {name!r}", given.get("type", ColumnKind.UNSPECIFIED))
    if kind not in TYPE_OF_KIND:
        raise InvalidArgument(f"column {name!r} needs a type: one of {', '.join(each.wire for each in TYPE_OF_KIND)}")
    nullable = given.get("nullable", False)
    if not isinstance(nullable, bool):
        raise InvalidArgument(f"column {name!r}: nullable is true or false, not {nullable!r}")
    return Column(name, TYPE_OF_KIND[kind], nullable=nullable, default=default or None)


def shown(column: SchemaColumn) -> ColumnAnswer:
    return {
        "name": column.name,
        "type": KIND_OF_TYPE[column.type.name].wire,
        "nullable": column.nullable,
        "defaultExpression": column.default or "",
    }


class PipelineCalls(Tables, Calls):
    """The calls about pipelines."""

    def create_table_pipeline(
        self,
        bucket: str,
        name: str,
        template: str,
        options: Mapping[str, object] | None = None,
        description: str = "",
        columns: Sequence[object] = (),
    ) -> TableAnswer:
        """Creates a table without columns, its pipeline and its rule. Answers the table.

        Raises:
            NotFound: the bucket or the template does not exist.
            InvalidArgument, AlreadyExists, PermissionDenied, FailedPrecondition: nothing was created.
        """
        self._check_active(self._catalog(bucket), bucket, name, "create")
        if columns:
            raise InvalidArgument(f"create_table_pipeline({name!r}) takes no columns: the template {template!r} owns the schema")
        given = {key.upper(): value for key, value in (options or {}).items()}
        if "SOURCE" in given:
            self._door.allow("manage storages")
        make_pipeline(self._warehouse, TableName(bucket, name), template.lower(), DEFAULTS | given, description)
        return self.get_table(bucket, name)

    def list_rules(self, bucket: str) -> list[RuleAnswer]:
        """Every rule of the bucket's pipelines, in the order of creation."""
        catalog = self._catalog(bucket, "look at what exists")
        return [self._rule(bucket, rule_of(catalog, pipeline)) for pipeline in pipelines_in(catalog, bucket)]

    def get_rule(self, bucket: str, rule_id: str) -> RuleAnswer:
        """Raises NotFound: the bucket has no such rule."""
        return self._rule(bucket, rule_named(self._catalog(bucket, "look at what exists"), rule_id, bucket))

    def update_rule(
        self,
        bucket: str,
        rule_id: str,
        *,
        globs: Sequence[str] | None = None,
        excludes: Sequence[str] | None = None,
        mime_types: Sequence[str] | None = None,
        min_size: int | str | None = None,
        max_size: int | str | None = None,
        enabled: bool | None = None,
    ) -> RuleAnswer:
        """Changes what is given. Answers the rule.

        Args:
            max_size: bytes; the text `NULL` for any.

        Raises:
            NotFound: the bucket has no such rule.
            InvalidArgument: nothing, or a bad value, is given; nothing was changed.
            PermissionDenied, FailedPrecondition: the principal may not, or the bucket's engine is disabled.
        """
        catalog = self._catalog(bucket)
        self._check_active(catalog, bucket, "", "alter")
        rule_named(catalog, rule_id, bucket)
        given: dict[str, object] = {
            "globs": globs,
            "excludes": excludes,
            "mime_types": mime_types,
            "min_size": min_size,
            "max_size": max_size,
            "enabled": enabled,
        }
        changes = {key: value for key, value in given.items() if value is not None}
        return self._rule(bucket, edit_rule(self._warehouse, rule_id, changes))

    def trigger_ingest(self, bucket: str, table: str, object: str, user_metadata: Metadata | None = None) -> IngestAnswer:
        """Takes one object, whether or not it was taken before, and whatever the rule says.

        Its status is KNOWN, without rows, where another ingest finished the batch first; `reason` says so.

        Raises:
            NotFound: the bucket, the table or the object does not exist.
            FailedPrecondition: the table is a manual one, or the bucket's engine is disabled.
            PermissionDenied: the principal may not write.
        """
        name = self._blank_or_table(bucket, table, "write").name
        request = IngestRequest(name, (object,), force=True, anywhere=self._principal.role in ADMINS)
        report = ingest(self._services.operator(), request, principal=self._principal)
        (one, *_) = report.objects
        return {
            "bucket": bucket,
            "table": table,
            "pipelineId": report.pipeline_id,
            "object": one.object,
            "etag": one.etag,
            "status": f"INGEST_STATUS_{one.outcome.upper()}",
            "reason": one.reason,
            "rowsWritten": int64(report.rows),
            "version": int64(report.version or 0),
            "jobId": report.job_id,
        }

    def _rule(self, bucket: str, rule: IngestRule) -> RuleAnswer:
        pipeline = self._warehouse.catalog.recent().pipelines.get(rule.pipeline_id)
        if pipeline is None:
            raise NotFound(f"bucket {bucket!r} has no rule {rule.id!r}: its pipeline was dropped")
        return {
            "ruleId": rule.id,
            "bucket": bucket,
            "pipelineId": rule.pipeline_id,
            "table": pipeline.table.name,
            "globs": list(rule.globs),
            "excludes": list(rule.excludes),
            "mimeTypes": list(rule.mime_types),
            "minSize": int64(rule.min_size),
            "maxSize": "" if rule.max_size is None else int64(rule.max_size),
            "enabled": rule.enabled,
            "createdAt": millis(rule.created_at),
            "updatedAt": millis(rule.updated_at),
        }
