"""The uploads that count as taken and whose rows a repair did not bring back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import pyarrow.compute as pc

from lakewarden.catalog.changes.pipelines import table_of
from lakewarden.catalog.model import OBJECT, Catalog, Pipeline, Table
from lakewarden.catalog.state.ledger import Ledger
from lakewarden.delta.reading.rows import read_files
from lakewarden.delta.scope import open_scope
from lakewarden.errors import LakewardenError
from lakewarden.ingest.pipelines.rejects import standing_rejects
from lakewarden.ingest.pipelines.source import source_of
from lakewarden.log.once import ANY
from lakewarden.maintenance.repair.report import RepairReport, UncertainWriter
from lakewarden.tables.direct.identities import PipelineMemory, memories_of
from lakewarden.tables.warehouse import Warehouse

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
    there = _objects_in(warehouse, catalog, table) | {one.object for one in standing_rejects(warehouse, table.name)}
    uploads = list(source_of(warehouse, catalog, pipeline).uploads())
    ledger = Ledger(warehouse.state, pipeline.id)
    known = ledger.known(ledger.look(), [one.key for one in uploads])
    for one in uploads:
        before = known.get(one.key)
        if before is not None and before.is_of(one.etag) and _is_uncertain(own, before.number) and one.key not in there:
            yield one.key


def _is_uncertain(memory: PipelineMemory, number: int) -> bool:
    return number > (memory.last_certain or 0)


def _objects_in(warehouse: Warehouse, catalog: Catalog, table: Table) -> set[str]:
    """The objects whose rows are in the table."""
    opened = open_scope(warehouse.target_of(catalog, table, None))
    if opened is None or table.schema.column(OBJECT) is None:
        return set()
    rows = read_files(opened, opened.files(), table.schemas, [OBJECT])
    return {str(key) for key in pc.unique(rows.column(OBJECT)).to_pylist()}
