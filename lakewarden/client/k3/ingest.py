"""Pipelines, their rules, and ingests (K3-22 to K3-26, K3-119 to K3-125)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakewarden.base.commit_metadata import Metadata
from lakewarden.base.scope import TableName
from lakewarden.catalog.access import ADMINS
from lakewarden.catalog.changes.pipelines import pipelines_in, rule_named, rule_of
from lakewarden.catalog.model import IngestRule
from lakewarden.client.k3.calls import Calls
from lakewarden.client.k3.messages import IngestAnswer, RuleAnswer, TableAnswer
from lakewarden.client.k3.tables import DEFAULTS, Tables
from lakewarden.client.k3.wire import int64, millis
from lakewarden.errors import InvalidArgument, NotFound
from lakewarden.ingest.pipelines.create import edit_rule, make_pipeline
from lakewarden.ingest.pipelines.run import IngestRequest, ingest


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
        """Raises:
        NotFound: the bucket has no such rule.
        """
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

        Raises:
            NotFound: the bucket, the table or the object does not exist.
            FailedPrecondition: the table is a manual one, or the bucket's engine is disabled.
            PermissionDenied: the principal may not write.
        """
        name = self._blank_or_table(bucket, table)
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

    def _blank_or_table(self, bucket: str, name: str) -> TableName:
        blank = self._catalog(bucket).blanks.get(TableName(bucket, name))
        if blank is None:
            return self._table(bucket, name, "write").name
        self._door.allow("write", self._blank_gate(blank))
        return blank.name

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
