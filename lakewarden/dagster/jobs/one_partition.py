"""Jobs for each large table whose partitions are those of its asset: they optimize or compact the selected one alone.

No `from __future__ import annotations`: Dagster reads the config class from the annotation.
"""

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg
from pydantic import Field

from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Catalog, Table
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.links import COMPACT, OPTIMIZE, compact_job_name, optimize_job_name
from lakewarden.dagster.assets.partition_values import has_values, key_of
from lakewarden.dagster.jobs.event_log.book import book
from lakewarden.dagster.jobs.runs import RETRIES, SPARK, TABLE, declined, job_tags
from lakewarden.dagster.mount import Mount
from lakewarden.delta.parquet.files import by_partition
from lakewarden.delta.scope import open_scope
from lakewarden.errors import InvalidArgument, NotFound
from lakewarden.tables.predicate import condition_of


class OptimizePartitionConfig(dg.Config):
    """How to optimize the partition that the form selects. Where that is not worth its bytes, the run shows why."""

    zorder: list[str] = Field([], description="Columns to cluster by (Z-order); empty means bin-packing only.")


@dg.op(name=OPTIMIZE, retry_policy=RETRIES, tags={"kind": "spark"}, description="Optimize one partition, and book it.")
def optimize_partition(
    context: dg.OpExecutionContext,
    config: OptimizePartitionConfig,
    lake: dg.ResourceParam[Lakehouse],
    mount: dg.ResourceParam[Mount],
) -> None:
    with declined(context):
        table, where = _selected(context, lake)
        book(context, lake, mount, lake.optimize(table, zorder=config.zorder, where=where, look=True))


@dg.op(name=COMPACT, retry_policy=RETRIES, tags={"kind": "spark"}, description="Compact one partition, and book it.")
def compact_partition(context: dg.OpExecutionContext, lake: dg.ResourceParam[Lakehouse], mount: dg.ResourceParam[Mount]) -> None:
    with declined(context):
        table, where = _selected(context, lake)
        book(context, lake, mount, lake.compact(table, where=where, look=True))


def _selected(context: dg.OpExecutionContext, lake: Lakehouse) -> tuple[str, str]:
    """The name of the run's table, and the condition that is true for its partition alone.

    Raises:
        InvalidArgument: the form selects no partition.
        NotFound: the table has no such partition now.
    """
    table = lake.table(context.job_def.tags[TABLE]).table
    if not context.has_partition_key:
        raise InvalidArgument(f"{table.name}: select a partition in the form; optimize_job and compact_job take the whole table")
    key = context.partition_key
    opened = open_scope(lake.warehouse.target(lake.warehouse.catalog.read(), Scope(table.name)))
    for partition in by_partition(opened.files()) if opened else ():
        if key_of(partition) == key:
            return str(table.name), condition_of([partition])
    raise NotFound(f"{table.name} has no partition {key} now")


@dg.graph
def optimize_one_partition() -> None:
    optimize_partition()


@dg.graph
def compact_one_partition() -> None:
    compact_partition()


def build_partition_jobs(
    mount: Mount, specs: Sequence[dg.AssetSpec], catalog: Catalog, resources: Mapping[str, object]
) -> list[dg.JobDefinition]:
    """Two for each large table whose asset has partitions."""
    named = ((spec, mount.table_of(spec.key)) for spec in specs if spec.partitions_def)
    found = ((spec, catalog.tables[name]) for spec, name in named if name)
    large = [(spec, table) for spec, table in found if has_values(table)]
    return [job for spec, table in large for job in _jobs(mount, table, spec.partitions_def, resources)]


def _jobs(
    mount: Mount, table: Table, partitions: dg.PartitionsDefinition[str] | None, resources: Mapping[str, object]
) -> Iterator[dg.JobDefinition]:
    graphs = (
        (optimize_one_partition, optimize_job_name, "Packs the files of one partition", job_tags("optimize", -5, SPARK)),
        (compact_one_partition, compact_job_name, "Folds the newest small files of one partition", job_tags("compact", 0, SPARK)),
    )
    for graph, name, what, tags in graphs:
        yield graph.to_job(
            name=name(mount, table.name),
            description=f"{what} of {table.name}.",
            resource_defs=resources,
            executor_def=dg.in_process_executor,
            tags={**tags, **mount.tags, TABLE: str(table.name)},
            partitions_def=partitions,
        )
