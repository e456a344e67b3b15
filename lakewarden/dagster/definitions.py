"""The code location: the warehouse's tables as assets, the operations as jobs, and the sensors and schedules.

Also loads without a warehouse, then without assets.
"""

from __future__ import annotations

import dagster as dg

from lakewarden.catalog.model import Catalog
from lakewarden.dagster.assets.checks import build_table_checks
from lakewarden.dagster.assets.tables import build_table_specs
from lakewarden.dagster.jobs.check import build_check_job
from lakewarden.dagster.jobs.compact import compact_job
from lakewarden.dagster.jobs.erase import erase_job
from lakewarden.dagster.jobs.evict import evict_job
from lakewarden.dagster.jobs.export import export_job
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.move import move_job
from lakewarden.dagster.jobs.optimize import optimize_job
from lakewarden.dagster.jobs.prune import prune_job
from lakewarden.dagster.jobs.queued import run_queued_job
from lakewarden.dagster.jobs.record import record_job
from lakewarden.dagster.jobs.restore import restore_job
from lakewarden.dagster.jobs.vacuum import vacuum_job
from lakewarden.dagster.orchestration.checking import build_check_schedule, build_check_sensor
from lakewarden.dagster.orchestration.reloading import build_catalog_sensor
from lakewarden.dagster.orchestration.schedules import schedules
from lakewarden.dagster.orchestration.sensors import cut_off_sensor, flush_sensor, queued_sensor, users_sensor
from lakewarden.dagster.resources.lakehouse import LakehouseResource, configured_warehouse, warehouse_at_load
from lakewarden.dagster.resources.spark import SparkResource

_spark = SparkResource()


def build_definitions() -> dg.Definitions:
    warehouse = warehouse_at_load()
    catalog = warehouse.catalog.read() if warehouse else Catalog()
    checks = build_table_checks(catalog)
    check_job = build_check_job() if checks else None
    return dg.Definitions(
        assets=build_table_specs(warehouse, catalog) if warehouse else [],
        asset_checks=checks,
        jobs=[
            flush_job,
            evict_job,
            compact_job,
            optimize_job,
            vacuum_job,
            restore_job,
            record_job,
            export_job,
            move_job,
            erase_job,
            run_queued_job,
            prune_job,
            *([check_job] if check_job else []),
        ],
        schedules=[*schedules, *([build_check_schedule(check_job)] if check_job else [])],
        sensors=[
            flush_sensor,
            queued_sensor,
            cut_off_sensor,
            users_sensor,
            build_catalog_sensor(catalog.version),
            *([build_check_sensor(check_job)] if check_job else []),
        ],
        resources={"spark": _spark, "lake": LakehouseResource(warehouse=configured_warehouse(), spark=_spark)},
    )
