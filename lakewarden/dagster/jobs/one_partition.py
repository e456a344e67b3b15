"""Jobs for each large table whose partitions are those of its asset: they optimize or compact the selected one alone.

No `from __future__ import annotations`: Dagster reads the config class from the annotation.
"""

from collections.abc import Mapping, Sequence

import dagster as dg
from pydantic import Field

from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Catalog
from lakewarden.dagster.assets.links import COMPACT, OPTIMIZE
from lakewarden.dagster.assets.partition_values import has_values, key_of
from lakewarden.dagster.jobs.event_log.book import book
from lakewarden.dagster.jobs.runs import SPARK, TABLE, job_of_table, job_tags, warehouse_op
from lakewarden.dagster.lakehouse import WarehouseRun
from lakewarden.dagster.mount import Mount
from lakewarden.delta.parquet.files import by_partition
from lakewarden.delta.scope import open_scope
from lakewarden.errors import InvalidArgument, NotFound
from lakewarden.tables.predicate import condition_of


class OptimizePartitionConfig(dg.Config):
    """How to optimize the partition that the form selects. Where that is not worth its bytes, the run shows why."""

    zorder: list[str] = Field([], description="Columns to cluster by (Z-order); empty means bin-packing only.")


@warehouse_op("Optimize one partition, and book it.", name=OPTIMIZE, kind="spark")
def optimize_partition(run: WarehouseRun, config: OptimizePartitionConfig) -> None:
    table, where = _selected(run)
    book(run, run.lake.optimize(table, zorder=config.zorder, where=where, look=True))


@warehouse_op("Compact one partition, and book it.", name=COMPACT, kind="spark")
def compact_partition(run: WarehouseRun) -> None:
    table, where = _selected(run)
    book(run, run.lake.compact(table, where=where, look=True))


def _selected(run: WarehouseRun) -> tuple[str, str]:
    """The name of the run's table, and the condition that is true for its partition alone.

    Raises:
        InvalidArgument: the form selects no partition.
        NotFound: the table has no such partition now.
    """
    context, lake = run.context, run.lake
    table = lake.table(context.job_def.tags[TABLE]).table
    if not context.has_partition_key:
        raise InvalidArgument(f"{table.name}: select a partition in the form; optimize_job and compact_job take the whole table")
    key = context.partition_key
    opened = open_scope(lake.warehouse.target(lake.warehouse.catalog.read(), Scope(table.name)))
    for partition in by_partition(opened.files()) if opened else ():
        if key_of(partition) == key:
            return str(table.name), condition_of([partition])
    raise NotFound(f"{table.name} has no partition {key} now")


def build_partition_jobs(
    mount: Mount, specs: Sequence[dg.AssetSpec], catalog: Catalog, resources: Mapping[str, object]
) -> list[dg.JobDefinition]:
    """Two for each large table whose asset has partitions."""
    named = ((spec, mount.table_of(spec.key)) for spec in specs if spec.partitions_def)
    found = ((spec, catalog.tables[name]) for spec, name in named if name)
    large = [(spec, table) for spec, table in found if has_values(table)]
    return [
        job_of_table(op, mount, table.name, resources, tags, f"{what} of {table.name}.", spec.partitions_def)
        for spec, table in large
        for op, tags, what in _JOBS
    ]


_JOBS = (
    (optimize_partition, job_tags("optimize", -5, SPARK), "Packs the files of one partition"),
    (compact_partition, job_tags("compact", 0, SPARK), "Folds the newest small files of one partition"),
)
