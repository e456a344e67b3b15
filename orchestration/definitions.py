"""The code location that `workspace.yaml` names: a warehouse, with the assets and jobs of this deployment.

`build_definitions` makes all that the warehouse brings: its tables as assets, the operations as jobs, sensors, schedules, checks.
What is merged with it here is one's own. Copy this directory with `assets/`, `jobs/` and `resources/`, and change those.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import dagster as dg

from assets.daily_summary import FLIGHTS, build_daily_summary
from jobs.offboarding import offboard_job
from jobs.onboarding import onboard_job
from lakewarden.dagster import SparkResource, build_definitions
from resources.environments import environment_of


def _deployment(environ: Mapping[str, str]) -> dg.Definitions:
    spark = SparkResource(spark_config=dict(environment_of(environ).spark))
    warehouse = build_definitions(spark=spark, jobs=[onboard_job, offboard_job])
    has_flights = FLIGHTS in {spec.key for spec in warehouse.resolve_all_asset_specs()}
    return dg.Definitions.merge(
        warehouse,
        build_daily_summary() if has_flights else dg.Definitions(),
        dg.Definitions(executor=dg.in_process_executor),  # of assets' runs: a step in a process of its own may start its own JVM
    )


defs = _deployment(os.environ)
"""The only one in this module: Dagster's code server takes no other."""
