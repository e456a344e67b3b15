"""`prune_job`: removes old events of scopes from Dagster's own storage; the warehouse is not touched."""

from dataclasses import asdict, replace
from datetime import timedelta

import dagster as dg
from pydantic import Field

from lakewarden.dagster.assets.health import flushed_key, health_key
from lakewarden.dagster.jobs.event_log.events import strangers
from lakewarden.dagster.jobs.runs import job_of, job_tags, warehouse_op
from lakewarden.dagster.lakehouse import WarehouseRun


class PruneConfig(dg.Config):
    """How much of the past Dagster's pages keep. Restores come from the warehouse, so they lose nothing.

    Partitions of users whom a table does not have are removed, too.
    """

    events: int = Field(20, description="The newest events of each kind that every partition keeps, however old.")
    hours: float = Field(24.0, description="Hours that every event stays.")


@warehouse_op("Remove old events of scopes from Dagster's storage.")
def prune(run: WarehouseRun, config: PruneConfig) -> None:
    from lakewarden.dagster.jobs.event_log import pruning  # the tables of Dagster's storage, which only this job needs
    from lakewarden.dagster.jobs.event_log.sweeping import InstanceStorages

    context, lake, mount = run.context, run.lake, run.mount
    storages = InstanceStorages.of(context.instance)
    if storages is None:
        context.log.warning("Dagster's storage is not one that single events can be removed from: nothing is pruned")
        return
    tables = [table.name for table in lake.tables()]
    healths = [*(health_key(mount, name) for name in (*tables, None)), *(flushed_key(mount, name) for name in tables)]
    keys = [*map(mount.asset_key, tables), *healths]
    pruned = pruning.prune(storages, keys, lake.warehouse.clock() - timedelta(hours=config.hours), max(config.events, 1))
    removed = 0
    for table in lake.tables():
        users = strangers(context.instance, mount, lake, table)
        pruning.remove_partitions(context.instance, storages, mount.asset_key(table.name), mount.dotted(table.name), users)
        removed += len(users)
    context.add_output_metadata(asdict(replace(pruned, partitions=removed)))


prune_job = job_of(
    prune, job_tags("prune", -10), "Removes old events of scopes from Dagster's own storage; the warehouse is not touched."
)
