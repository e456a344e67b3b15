"""What *Materialize* does: each table as an asset that runs.

A run of an asset books the same events as `flush_job`, by the same call, so Dagster must not add its own. The flush sensor keeps
to `flush_job`: Dagster plans an asset's run partition by partition.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.event_log.batches import BOOKED
from lakewarden.dagster.jobs.event_log.book import book
from lakewarden.dagster.jobs.event_log.histories import book_selected, book_unchanged
from lakewarden.dagster.jobs.flush import FlushConfig, flush_by
from lakewarden.dagster.jobs.runs import OPERATION, RETRIES, declined, named_by, subject_tags, tag_run
from lakewarden.dagster.lakehouse import LAKE, SPARK, WarehouseRun
from lakewarden.dagster.mount import Mount

PARTITIONS_PER_RUN = 500
"""Partitions of a backfill's run. Each costs some milliseconds of planning, and each run some seconds to start."""


def build_table_assets(mount: Mount, specs: Sequence[dg.AssetSpec], catalog: Catalog) -> list[dg.AssetsDefinition]:
    """An executable asset for each spec of a table."""
    named = ((spec, mount.table_of(spec.key)) for spec in specs)
    return [_executable(mount, spec, catalog.tables[name]) for spec, name in named if name]


def _executable(mount: Mount, spec: dg.AssetSpec, table: Table) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name=mount.table_named("materialize", table.name),
        required_resource_keys={mount.named(LAKE), mount.named(SPARK)},
        description=spec.description,
        specs=[spec],
        backfill_policy=dg.BackfillPolicy.multi_run(PARTITIONS_PER_RUN) if spec.partitions_def else None,
        pool=mount.pools.tables,
        retry_policy=RETRIES,
    )
    def materialize(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
        _materialize(WarehouseRun.of(context, mount), table)
        yield dg.MaterializeResult(metadata=BOOKED)

    return materialize


def _materialize(run: WarehouseRun, table: Table) -> None:
    """Flushes (of a STREAM table: evicts) the run's partitions, or the whole table, and books each of the scopes once.

    A flush of a large table is one commit for all of its partitions, whichever the run selects.
    """
    context, lake, mount = run.context, run.lake, run.mount
    operation: Operation = "evict" if table.type == "STREAM" else "flush"
    named = {"tables": [str(table.name)]} if table.type == "SHARED" else named_by(run)
    tag_run(context, {OPERATION: operation, **mount.tags, **subject_tags(named)})
    with declined(context):
        config = FlushConfig.model_validate(named)
        reports = flush_by(lake, config) if operation == "flush" else _evict(lake, table.name, config)
        reported = {report.scope for report in reports if report.outcome != "skipped"}  # another flush may have been first
        wanted = [Scope(table.name)] if table.type == "SHARED" else config.exact()
        book_unchanged(run, [scope for scope in wanted if scope not in reported], operation)
        book(run, reports)
        if table.type == "SHARED":
            book_selected(run, table)


def _evict(lake: Lakehouse, name: TableName, config: FlushConfig) -> list[ScopeReport]:
    users = [scope.user for scope in config.exact()]
    return [report for user in users or [None] for report in lake.evict(str(name), user=user)]
