"""`ingest_job`, and *Materialize* of a rule: takes objects from a pipeline's source into its table, each once.

No `from __future__ import annotations`: Dagster reads the config class from the annotation.
"""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from lakewarden.base.quantities import in_units
from lakewarden.base.scope import TableName
from lakewarden.catalog.changes.pipelines import live_pipelines
from lakewarden.catalog.model import Catalog, Pipeline
from lakewarden.dagster.assets.health_changes import book_health, report_checks
from lakewarden.dagster.assets.metadata import Metadata, Row, table_value
from lakewarden.dagster.assets.rules import rejects_of, rule_spec
from lakewarden.dagster.jobs.event_log.batches import BOOKED
from lakewarden.dagster.jobs.event_log.behind import BookingRun, book_behind
from lakewarden.dagster.jobs.runs import OPERATION, RETRIES, declined, job_of, job_tags, subject_tags, tag_run, warehouse_op
from lakewarden.dagster.lakehouse import LAKE, WarehouseRun
from lakewarden.dagster.mount import INGEST, Mount
from lakewarden.ingest.pipelines.rejects import rejects_name
from lakewarden.ingest.pipelines.report import IngestReport

_SHOWN = 50
"""Objects in an event: it must stay small, and the rows say where they came from."""


class IngestConfig(dg.Config):
    """What to take into the table of a pipeline. With `table` alone: what is new in its source and matches its rule.

    An object is taken once, by its key and ETag. One that cannot be read goes to the table of rejects, with the error.
    """

    table: str = Field(description="The pipeline's table, as namespace.table.")
    objects: list[str] = Field(
        [],
        description="Exactly these objects, by their keys below the source, as [2026/11/a.csv]: also those that the rule does not"
        " match, and those that were taken before, whose earlier rows are then replaced.",
    )
    only_new: bool = Field(
        False, description="Of these objects, only those that match the rule and were not taken yet; the sensor sets it."
    )


@warehouse_op("Ingest the objects, and book the rule, its table and its rejects.")
def ingest(run: WarehouseRun, config: IngestConfig) -> None:
    _ingest(run, config)


ingest_job = job_of(ingest, job_tags(INGEST, 10), "Takes uploaded objects into the table of a pipeline, each once.")


def build_rule_assets(mount: Mount, catalog: Catalog) -> list[dg.AssetsDefinition]:
    """An executable asset for each rule: *Materialize* ingests what is new."""
    return [_executable(mount, catalog, pipeline) for pipeline in live_pipelines(catalog)]


def _executable(mount: Mount, catalog: Catalog, pipeline: Pipeline) -> dg.AssetsDefinition:
    spec = rule_spec(mount, catalog, pipeline)
    config = IngestConfig(table=str(pipeline.table), objects=[], only_new=False)

    @dg.multi_asset(
        name=mount.table_named("ingest", pipeline.table),
        description=spec.description,
        specs=[spec],
        required_resource_keys={mount.named(LAKE)},
        pool=mount.pools.tables,
        retry_policy=RETRIES,
    )
    def materialize_rule(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
        tag_run(context.op_execution_context, {OPERATION: INGEST, **mount.tags, **subject_tags({"table": config.table})})
        with declined(context.op_execution_context):
            _ingest(WarehouseRun.of(context, mount), config)
        yield dg.MaterializeResult(metadata=BOOKED)

    return materialize_rule


def _ingest(run: WarehouseRun, config: IngestConfig) -> None:
    context, lake, mount = run.context, run.lake, run.mount
    report = lake.ingest(config.table, config.objects or None, force=bool(config.objects) and not config.only_new)
    name = TableName.parse(config.table)
    context.log_event(dg.AssetMaterialization(mount.rule_key(name), description=_description(report), metadata=_metadata(report)))
    written = [table for table in lake.tables(name.namespace) if table.name in (name, rejects_name(name))]
    book_behind(run, written, by=BookingRun(report.job_id))
    book_health(run, {table.name for table in written})
    report_checks(context.instance, [rejects_of(mount, lake, name)])
    context.add_output_metadata(_metadata(report))


def _description(report: IngestReport) -> str:
    counted = f"ingest: {report.ingested:,} objects, {report.rows:,} rows"
    counted += f", {in_units(report.bytes)}" if report.bytes else ""
    rejected = f", {report.rejected:,} rejected" if report.rejected else ""
    return counted + rejected


def _metadata(report: IngestReport) -> Metadata:
    """The same numbers on every event: Dagster plots them."""
    shown: list[Row] = [
        {"object": one.object, "outcome": one.outcome, "rows": one.rows, "reason": one.reason} for one in report.objects[:_SHOWN]
    ]
    return {
        "objects/ingested": report.ingested,
        "objects/rejected": report.rejected,
        "objects/left": report.left,
        "rows": report.rows,
        "bytes": report.bytes,
        **({"objects": table_value(shown)} if shown else {}),
    }
