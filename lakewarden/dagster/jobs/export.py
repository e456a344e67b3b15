"""`export_job`: copies all data of one user, as Delta tables."""

from collections.abc import Iterable

import dagster as dg
from pydantic import Field

from lakewarden.base.quantities import in_units
from lakewarden.base.scope import Scope, TableName
from lakewarden.dagster.assets.metadata import Metadata
from lakewarden.dagster.assets.partition_values import is_key
from lakewarden.dagster.assets.tables import is_crowded
from lakewarden.dagster.jobs.event_log.batches import log_events
from lakewarden.dagster.jobs.event_log.events import register_users
from lakewarden.dagster.jobs.forms import option_values, takes_options
from lakewarden.dagster.jobs.runs import job_of, job_tags, warehouse_op
from lakewarden.dagster.lakehouse import WarehouseRun
from lakewarden.maintenance.export.contents import Export


@takes_options("export")
class ExportConfig(dg.Config):
    """Which user to export, and where to. Repeat it with the same place to continue an interrupted export."""

    user: str = Field(description="The user's id. An erasure of the user removes this run from Dagster, too.")
    to: str = Field(description="A directory or URI, empty or with an earlier export of the same user. No credentials in it.")


@warehouse_op("Export the user, and book one event for each table.")
def export(run: WarehouseRun, config: ExportConfig) -> None:
    _book(run, run.lake.export(**option_values(config, "export")))


def _book(run: WarehouseRun, made: Export) -> None:
    context, lake, mount = run.context, run.lake, run.mount
    scopes = {Scope(TableName.parse(table.name), made.exported_user): table for table in made.tables}
    crowded = {scope.table for scope in scopes if is_crowded(lake.warehouse, lake.table(str(scope.table)).table)}
    register_users(context.instance, mount, (scope for scope in scopes if scope.table not in crowded))
    for scope, table in scopes.items():
        observation = dg.AssetObservation(
            mount.asset_key(scope.table),
            partition=scope.user if scope.table not in crowded and is_key(scope.user or "") else None,
            description="export: done",
            metadata={
                "operation": "export",
                "delta/version": table.version,
                "dagster/partition_row_count": table.rows,
                "path": f"{made.uri}/{table.path}",
            },
        )
        log_events(context, [observation])
    context.add_output_metadata(_summary(made, scopes))


def _summary(made: Export, scopes: Iterable[Scope]) -> Metadata:
    return {
        "place": made.uri,
        "exported_at": made.exported_at,
        "tables": len(list(scopes)),
        "files": len(made.files),
        "bytes": (size := sum(file.size for file in made.files)),
        "size": in_units(size),
    }


export_job = job_of(export, job_tags("export", 10), "Copies all data of a user to another place.")
