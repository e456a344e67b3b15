"""`lake.pipelines`: tables that uploaded objects fill; and `lake.load`: files of other systems, loaded into tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakewarden.base.commit_metadata import Metadata, attaches
from lakewarden.base.scope import TableName
from lakewarden.catalog.changes.pipelines import pipeline_of, pipelines_in, rule_of
from lakewarden.catalog.evolution import anew
from lakewarden.catalog.model import IngestRule, Pipeline
from lakewarden.client.catalog import CatalogCalls
from lakewarden.client.maintenance import MaintenanceCalls
from lakewarden.client.parts import Noun

if TYPE_CHECKING:
    from lakewarden.ingest.load_run import OnReject
    from lakewarden.ingest.load_sources import LoadReport
    from lakewarden.ingest.pipelines.rejects import RejectedObject
    from lakewarden.ingest.pipelines.report import IngestReport
    from lakewarden.log.once import Resume
    from lakewarden.storage.sources import SourceObject
    from lakewarden.tables.client import TableClient


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


class Loads(Noun):
    """`lake.loads`."""

    @attaches
    def load(
        self,
        table: str,
        paths: str | Sequence[str],
        *,
        format: str | None = None,
        user: str | None = None,
        user_column: str | None = None,
        on_reject: OnReject = "refuse",
        once: str | None = None,
        resume: Resume | None = None,
        metadata: Metadata | None = None,
    ) -> LoadReport:
        """Loads files into a table: CSV with a header, JSON lines, or Parquet; lines also compressed by gzip.

        A SHARED table gets all rows in one Delta commit: appended where it has no primary key, else by key, where a later row of
        the files replaces an earlier one. Rows of users go into the write log: those of one `user` all become visible at once,
        those of a `user_column` in several steps. What a load that was refused, or died, leaves is not visible, and is removed
        in time. By key it can be repeated; without a key too if it has a name (`once`).

        Args:
            paths: files, directories or patterns, on a disk or in a bucket.
            format: `csv`, `json` or `parquet`; by default what the ending of each name says.
            user: whose rows they are (USER and STREAM tables).
            user_column: instead of `user`, the column that names each row's user; it is not stored.
            on_reject: what rows that do not fit do: `refuse` the load when all files are read, `stop` it at the first, or `skip`.
            once: names the load, for a table without a key: repeated under its name, it adds nothing if the table has it.
            resume: where a repair left uncertain whether it has: `repeat` loads, `skip` does not.
            metadata: a JSON object that the commit with the rows will carry.

        Raises:
            NotFound: a path matches no file; or the table does not exist.
            InvalidArgument: a file is empty or unreadable, its columns are not the table's, or an option is wrong.
            RowsRejected: rows do not fit; nothing was loaded.
            PartlyAppended: rows of a `user_column` were written in part; the error names users who have all of theirs.
            Unsupported: `once`, and the table is written by key.
        """
        from lakewarden.ingest.load_run import Load, LoadRequest  # imports Arrow

        named = (paths,) if isinstance(paths, str) else tuple(paths)
        bound = self._parts.warehouse.settings.load.in_process_bytes
        request = LoadRequest(named, format, user, user_column, on_reject, once, resume)

        def loaded() -> tuple[TableClient, LoadReport]:
            client = CatalogCalls(self._parts).table(table)
            return client, Load(client, request, lambda work, items: self._parts.engine.run_large(work, items, bound)).run()

        client, report = anew(loaded)
        if client.table.type != "SHARED" or not client.table.schema.keyed:
            return report
        flushed = next(iter(MaintenanceCalls(self._parts).flush(table)), None)
        if flushed is None:  # the files have no rows, and none is pending
            return report
        if flushed.fault is not None:
            what = f"the {report.rows} rows are in the write log of {table}, and could not be flushed"
            raise flushed.fault.hinders(what)
        return replace(report, version=flushed.version)
