"""The table `<table>_rejects` of a pipeline: the objects that it could not take, each with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.scope import TableName
from lakewarden.catalog.changes.pipelines import pipeline_of, table_of
from lakewarden.catalog.model import OBJECT, Catalog, Column, Pipeline, Table
from lakewarden.catalog.names import check_table
from lakewarden.catalog.state.ledger import Ledger
from lakewarden.delta.reading.bounds import Bound
from lakewarden.delta.reading.rows import FileGroup
from lakewarden.delta.scope import open_scope
from lakewarden.errors import AlreadyExists, InvalidArgument, LakewardenError
from lakewarden.ingest.pipelines.source import source_of
from lakewarden.log.once import ANY, WriterBatch
from lakewarden.maintenance.admin.create_table import make_table, new_table
from lakewarden.maintenance.open_table import open_table
from lakewarden.maintenance.repair.report import RepairReport, UncertainWriter
from lakewarden.tables.direct.identities import REJECTS, memories_of
from lakewarden.tables.direct.value import Edit
from lakewarden.tables.warehouse import Warehouse, find_table

COLUMNS = (
    Column("object", "TEXT", nullable=False),
    Column("etag", "TEXT"),
    Column("error", "TEXT", nullable=False),
    Column("at", "TIMESTAMP", nullable=False),
    Column("size", "BIGINT"),
    Column("pipeline_id", "TEXT"),
    Column("job_id", "TEXT"),
)


@dataclass(frozen=True)
class RejectedObject:
    """An object that could not be taken."""

    object: str
    etag: str
    error: str
    at: datetime
    size: int


def rejects_name(table: TableName) -> TableName:
    """Raises InvalidArgument: the table's name is too long for it."""
    try:
        return TableName(table.namespace, check_table(f"{table.name}{REJECTS}"))
    except InvalidArgument as error:
        raise InvalidArgument(f"{table}: its rejects would be in {table.name}{REJECTS}: {error.message}") from error


def rejects_table(warehouse: Warehouse, name: TableName) -> Table:
    """Returns the table of rejects, which is made if it does not exist.

    Raises:
        AlreadyExists: another table has its name.
    """
    own = rejects_name(name)
    there = warehouse.catalog.read().tables.get(own)
    if there is None or there.dropping:
        there = make_table(warehouse, new_table(warehouse, own, "SHARED", COLUMNS, (), {}))
    lacking = [column.name for column in COLUMNS if there.schema.column(column.name) is None]
    if lacking or there.type != "SHARED" or there.schema.keyed:
        raise AlreadyExists(f"there is a table {own} already, which is not one of rejects: rename it, or choose another name")
    return there


def note_rejects(
    warehouse: Warehouse,
    pipeline: Pipeline,
    rejects: Sequence[RejectedObject],
    retaken: Sequence[str],
    once: WriterBatch,
    job_id: str,
) -> None:
    """Adds the rejects of one attempt, once, and removes earlier ones of the objects that it took again.

    Args:
        retaken: keys that were known before.
    """
    client = open_table(warehouse, rejects_table(warehouse, pipeline.table))
    direct, schema = replace(client.direct, job_id=job_id), client.table.schema
    rows = client.completed([_row(one, pipeline, job_id) for one in rejects], user=None) if rejects else None
    added = [] if rows is None else [rows]
    if not retaken:
        if rows is not None:
            direct.append(added, once=once)
        return
    keys = pa.array(sorted(retaken), pa.string())

    def decide(there: pa.Table) -> Edit:
        return Edit.without(there, pc.is_in(there.column("object"), value_set=keys), schema.names)

    bound = Bound("object", min(retaken), max(retaken))
    direct.edit(decide, operation="MERGE", predicate="objects taken again", bounds=[bound], added=added, once=once)


def standing_rejects(warehouse: Warehouse, table: TableName) -> list[RejectedObject]:
    """The objects that the table's pipeline could not take when it read them last, the newest first.

    Raises:
        NotFound: the table, or that of its rejects, does not exist.
        FailedPrecondition: it is a manual table.
    """
    catalog = warehouse.catalog.read()
    pipeline = pipeline_of(catalog, table)
    rows = open_table(warehouse, find_table(catalog, rejects_name(table))).read()
    rows = rows.filter(pc.equal(rows.column("pipeline_id"), pa.scalar(pipeline.id)))
    found = rows.select(["object", "etag", "error", "at", "size"]).sort_by([("at", "descending"), ("object", "ascending")])
    return [RejectedObject(**row) for row in found.to_pylist()]


def _row(reject: RejectedObject, pipeline: Pipeline, job_id: str) -> dict[str, object]:
    return {**vars(reject), "pipeline_id": pipeline.id, "job_id": job_id}


# The uploads that count as taken and whose rows a repair did not bring back.
SHOWN = 1_000
"""Uploads that a report names, at most."""


def with_uploads(warehouse: Warehouse, found: Sequence[RepairReport]) -> list[RepairReport]:
    """The reports of a repair, with the uploads of the pipelines that it left uncertain."""
    catalog = warehouse.catalog.read()
    pipelines = {one.table: one for one in catalog.pipelines.values()}
    return [_with_uploads(warehouse, catalog, pipelines.get(one.scope.table), one) for one in found]


def _with_uploads(warehouse: Warehouse, catalog: Catalog, pipeline: Pipeline | None, one: RepairReport) -> RepairReport:
    writers = {writer.name: writer for writer in one.writers_uncertain}
    if pipeline is None or one.outcome != "done" or one.subject != "scope" or not writers.keys() & {pipeline.id, ANY}:
        return one
    try:
        uploads = tuple(islice(gone_uploads(warehouse, catalog, pipeline), SHOWN))
    except LakewardenError:
        return one  # the source is away: its ingest says so
    number = (writers.get(pipeline.id) or writers[ANY]).number or Ledger(warehouse.state, pipeline.id).look().settled
    own = UncertainWriter(pipeline.id, number, uploads)
    return replace(one, writers_uncertain=tuple((writers | {pipeline.id: own}).values()))


def gone_uploads(warehouse: Warehouse, catalog: Catalog, pipeline: Pipeline) -> Iterator[str]:
    """The keys of those that are still in the source.

    Raises:
        LakewardenError: the source or the table cannot be read.
    """
    table = table_of(catalog, pipeline)
    memories = memories_of(warehouse, catalog, pipeline)
    own = next((each for each in memories.uncertain if each.table.id == pipeline.table_id), None)
    if table is None or own is None:
        return
    certain = own.last_certain or 0
    there = _objects_in(warehouse, catalog, table) | {one.object for one in standing_rejects(warehouse, table.name)}
    uploads = list(source_of(warehouse, catalog, pipeline).uploads())
    ledger = Ledger(warehouse.state, pipeline.id)
    known = ledger.known(ledger.look(), [one.key for one in uploads])
    for one in uploads:
        before = known.get(one.key)
        if before is not None and before.is_of(one.etag) and before.number > certain and one.key not in there:
            yield one.key


def _objects_in(warehouse: Warehouse, catalog: Catalog, table: Table) -> set[str]:
    """The objects whose rows are in the table."""
    opened = open_scope(warehouse.target_of(catalog, table, None))
    if opened is None or table.schema.column(OBJECT) is None:
        return set()
    rows = FileGroup.of(opened, opened.files(), table.schemas, [OBJECT]).read()
    return {str(key) for key in pc.unique(rows.column(OBJECT)).to_pylist()}
