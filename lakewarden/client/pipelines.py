"""`lake.pipelines`: tables that uploaded objects fill."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lakewarden.base.commit_metadata import Metadata, attaches
from lakewarden.base.scope import TableName
from lakewarden.catalog.changes.pipelines import pipeline_of, pipelines_in, rule_of
from lakewarden.catalog.model import IngestRule, Pipeline
from lakewarden.client.parts import Noun

if TYPE_CHECKING:
    from lakewarden.ingest.pipelines.rejects import RejectedObject
    from lakewarden.ingest.pipelines.report import IngestReport
    from lakewarden.log.once import Resume
    from lakewarden.storage.sources import SourceObject


class IngestCalls(Noun):
    """The calls of `lake.pipelines` that `Lakehouse` has, too."""

    @attaches
    def ingest(
        self,
        table: str,
        objects: str | Sequence[str] | None = None,
        *,
        force: bool | None = None,
        limit: int | None = None,
        resume: Resume | None = None,
        job_id: str | None = None,
        metadata: Metadata | None = None,
    ) -> IngestReport:
        """Takes objects into the table of a pipeline: what is new in its source by its rule, or the objects that are named.

        Args:
            objects: keys below the source, absolute paths or URIs, or patterns of them.
            force: whether to take objects that the ledger has with this ETag, or that the rule does not take; by default, those
                that are named.
            limit: the most objects to take, where none are named.
            resume: how to go on where a repair left uncertain what was taken: `repeat` takes it again in place of its rows,
                `skip` counts it as taken.
            job_id: of a job that the caller records.
            metadata: a JSON object that the commits with the rows will carry.

        Raises:
            NotFound: the table, or a named object, does not exist.
            FailedPrecondition: a manual table; or its rule, or the engine of its namespace, is disabled; or a repair left
                uncertain what was taken.
            Corrupt: its ledger lacks something: repair it.
            Conflict, StorageUnavailable: try again: what was taken is not taken twice.
        """
        from lakewarden.ingest.pipelines.run import (
            IngestRequest,
            ingest,  # imports Arrow
        )

        named = (objects,) if isinstance(objects, str) else None if objects is None else tuple(objects)
        forced = force if force is not None else bool(named)
        request = IngestRequest(TableName.parse(table), named or None, force=forced, anywhere=True, limit=limit, resume=resume)
        return ingest(self._parts.operator, request, job_id)


class Pipelines(IngestCalls):
    """`lake.pipelines`."""

    def all(self) -> list[Pipeline]:
        """Every pipeline, in the order of creation."""
        return pipelines_in(self._parts.warehouse.catalog.read())

    def rules(self) -> list[IngestRule]:
        """Every rule, in the order of creation."""
        return list(self._parts.warehouse.catalog.read().rules.values())

    def create(self, table: str, template: str, options: Mapping[str, object] | None = None) -> Pipeline:
        """Creates a SHARED table that the template fills: docs/pipelines.md.

        Raises:
            NotFound: no such template or namespace.
            InvalidArgument, AlreadyExists, InUse: nothing was created.
        """
        from lakewarden.ingest.pipelines.create import make_pipeline  # imports Arrow

        return make_pipeline(self._parts.warehouse, TableName.parse(table), template, options or {})

    def edit_rule(self, rule_id: str, options: Mapping[str, object]) -> IngestRule:
        """Changes a rule: GLOBS, EXCLUDES, MIME_TYPES, MIN_SIZE, MAX_SIZE, ENABLED.

        Raises:
            NotFound: no such rule.
            InvalidArgument: an unknown option, or a bad value; nothing was changed.
        """
        from lakewarden.ingest.pipelines.create import edit_rule  # imports Arrow

        return edit_rule(self._parts.warehouse, rule_id, options)

    def drop(self, pipeline_id: str) -> None:
        """Removes a pipeline with its rule and ledger; its table stays, as a manual one.

        Raises:
            NotFound: no such pipeline.
            FailedPrecondition: its table has no schema yet.
        """
        from lakewarden.ingest.pipelines.create import remove_pipeline  # imports Arrow

        remove_pipeline(self._parts.warehouse, pipeline_id)

    def listing(self, table: str, after: str = "") -> Iterator[SourceObject]:
        """The objects of the source whose keys come after that key, in the order of their keys, as they are listed."""
        from lakewarden.ingest.pipelines.source import source_of  # imports the clients of buckets

        catalog = self._parts.warehouse.catalog.read()
        return source_of(self._parts.warehouse, catalog, pipeline_of(catalog, TableName.parse(table))).uploads(after)

    def untaken(self, table: str, listed: Iterable[SourceObject]) -> list[SourceObject]:
        """Those that the rule takes, and that the ledger does not have with this ETag."""
        from lakewarden.ingest.pipelines.rules import untaken  # imports Arrow

        catalog = self._parts.warehouse.catalog.read()
        pipeline = pipeline_of(catalog, TableName.parse(table))
        return untaken(self._parts.ledger(pipeline.id), rule_of(catalog, pipeline), list(listed))

    def standing_rejects(self, table: str) -> Sequence[RejectedObject]:
        """The objects that could not be taken when they were read last, the newest first."""
        from lakewarden.ingest.pipelines.rejects import standing_rejects  # imports Arrow

        return standing_rejects(self._parts.warehouse, TableName.parse(table))
