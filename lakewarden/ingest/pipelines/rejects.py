"""The table `<table>_rejects` of a pipeline: the objects that it could not take, each with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.scope import TableName
from lakewarden.catalog.changes.pipelines import pipeline_of
from lakewarden.catalog.model import Column, Pipeline, Table
from lakewarden.catalog.names import check_table
from lakewarden.delta.reading.bounds import Bound
from lakewarden.errors import AlreadyExists, InvalidArgument
from lakewarden.maintenance.admin.create_table import make_table
from lakewarden.maintenance.open_table import open_table
from lakewarden.tables.direct.identities import REJECTS
from lakewarden.tables.direct.value import Edit, WriteIdentity
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
    """Raises:
    InvalidArgument: the table's name is too long for it.
    """
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
        there = make_table(warehouse, own, "SHARED", COLUMNS, (), {})
    lacking = [column.name for column in COLUMNS if there.schema.column(column.name) is None]
    if lacking or there.type != "SHARED" or there.schema.keyed:
        raise AlreadyExists(f"there is a table {own} already, which is not one of rejects: rename it, or choose another name")
    return there


def note_rejects(
    warehouse: Warehouse,
    pipeline: Pipeline,
    rejects: Sequence[RejectedObject],
    retaken: Sequence[str],
    once: WriteIdentity,
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
        gone = pc.indices_nonzero(pc.is_in(there.column("object"), value_set=keys)).cast(pa.int64())
        return Edit(gone, there.slice(0, 0).select(schema.names))

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
    return {
        "object": reject.object,
        "etag": reject.etag,
        "error": reject.error,
        "at": reject.at,
        "size": reject.size,
        "pipeline_id": pipeline.id,
        "job_id": job_id,
    }
