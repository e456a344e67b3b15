"""All definitions of one warehouse: its tables as assets, the operations as jobs, and the sensors and schedules.

Also loads without a warehouse, then without assets.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import dagster as dg

from lakewarden.catalog.model import Catalog
from lakewarden.clock import random_id, system_clock
from lakewarden.connection import Location
from lakewarden.dagster.assets.checks import build_table_checks
from lakewarden.dagster.assets.tables import build_table_specs
from lakewarden.dagster.jobs.check import build_check_job
from lakewarden.dagster.jobs.compact import compact_job
from lakewarden.dagster.jobs.erase import erase_job
from lakewarden.dagster.jobs.evict import evict_job
from lakewarden.dagster.jobs.export import export_job
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.materialize import build_table_assets
from lakewarden.dagster.jobs.mounted import mounted
from lakewarden.dagster.jobs.move import move_job
from lakewarden.dagster.jobs.optimize import optimize_job
from lakewarden.dagster.jobs.prune import prune_job
from lakewarden.dagster.jobs.queued import run_queued_job
from lakewarden.dagster.jobs.record import record_job
from lakewarden.dagster.jobs.restore import restore_job
from lakewarden.dagster.jobs.restore_table import build_restore_jobs
from lakewarden.dagster.jobs.vacuum import vacuum_job
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.checking import build_check_schedule, build_check_sensor
from lakewarden.dagster.orchestration.reloading import build_catalog_sensor
from lakewarden.dagster.orchestration.schedules import build_schedules
from lakewarden.dagster.orchestration.sensors import build_sensors
from lakewarden.dagster.resources.lakehouse import resources_of, shared_resources
from lakewarden.dagster.resources.spark import SparkResource
from lakewarden.errors import InvalidArgument
from lakewarden.settings import load_settings
from lakewarden.storage.location import canonical
from lakewarden.storage.open import open_store
from lakewarden.warehouse import STATE, Warehouse

VARIABLE = "LAKEWARDEN_WAREHOUSE"
DEFAULT = "./warehouse"

JOBS = (
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
)


def build_definitions(
    warehouse: str | None = None, *, key_prefix: Sequence[str] = (), group: str | None = None, spark: SparkResource | None = None
) -> dg.Definitions:
    """See `lakewarden.dagster.build_definitions`."""
    configured = warehouse or _of_environment()
    mount = Mount(canonical(_at_load(configured)), tuple(key_prefix), group)
    opened = _open(mount.uri)
    catalog = opened.catalog.read() if opened else Catalog()
    checks = build_table_checks(mount, catalog)
    resources = resources_of(mount, configured, spark)
    return dg.Definitions(
        assets=build_table_assets(mount, build_table_specs(mount, opened, catalog), catalog) if opened else [],
        asset_checks=checks,
        jobs=[
            *(mounted(job, mount, resources) for job in JOBS),
            *build_restore_jobs(mount, catalog, resources),
            *([build_check_job(mount, checks)] if checks else []),
        ],
        schedules=[*build_schedules(mount), *([build_check_schedule(mount)] if checks else [])],
        sensors=[
            *build_sensors(mount),
            build_catalog_sensor(mount, catalog.version),
            *([build_check_sensor(mount)] if checks else []),
        ],
        resources=shared_resources(mount, resources),
    )


def _of_environment() -> str:
    """The variable's name rather than its value, so that the pages show it."""
    return dg.EnvVar(VARIABLE) if VARIABLE in os.environ else DEFAULT


def _at_load(warehouse: str) -> str:
    """Raises:
    InvalidArgument: the environment variable is not set.
    """
    if not isinstance(warehouse, dg.EnvVar):
        return warehouse
    found = warehouse.get_value()
    if found is None:
        raise InvalidArgument(f"the environment variable {warehouse.env_var_name} names a warehouse, and is not set")
    return found


def _open(uri: str) -> Warehouse | None:
    """The warehouse; None if it does not exist yet. Never creates it."""
    if not open_store(Location(uri).below(STATE)).list(""):
        return None
    return Warehouse.open(uri, load_settings(os.environ), system_clock, random_id)
