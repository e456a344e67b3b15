"""The code location that `workspace.yaml` names: a warehouse, with the assets and jobs of this deployment.

`build_definitions` makes all that the warehouse brings: its tables as assets, the operations as jobs, sensors, schedules, checks.
What is merged with it here is one's own. Copy this directory with `assets/`, `jobs/` and `resources/`, and change those.
"""

from __future__ import annotations

import os

import dagster as dg

from assets.daily_summary import FLIGHTS, build_daily_summary
from jobs.offboarding import offboard_job
from jobs.onboarding import onboard_job
from lakewarden.dagster import SparkResource, build_definitions
from resources.environments import environment_of

_environment = environment_of(os.environ)
_warehouse = build_definitions(spark=SparkResource(spark_config=dict(_environment.spark)), jobs=[onboard_job, offboard_job])

defs = dg.Definitions.merge(
    _warehouse,
    build_daily_summary() if FLIGHTS in {spec.key for spec in _warehouse.resolve_all_asset_specs()} else dg.Definitions(),
    dg.Definitions(executor=dg.in_process_executor),  # of assets' runs: a step in a process of its own may start its own JVM
)
