"""Looks at the health of the warehouse every few minutes, without a run."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.health import LOOK_EVERY, OTHERS, health_events
from lakewarden.dagster.assets.health_changes import checks_of_health, report_checks
from lakewarden.dagster.assets.suite_checks import load_failures
from lakewarden.dagster.assets.suites import Suite
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.evaluations import build_sensor
from lakewarden.maintenance.planning.health import health


def build_health_sensor(mount: Mount, serves: Sequence[dg.AssetKey], suites: Sequence[Suite] = ()) -> dg.SensorDefinition:
    def sense(context: dg.SensorEvaluationContext, lake: Lakehouse, mount: Mount) -> dg.SkipReason:
        return health_sensor(context, lake, mount, suites)

    sense.__name__, sense.__doc__ = health_sensor.__name__, health_sensor.__doc__
    return build_sensor(mount, sense, None, seconds=int(LOOK_EVERY.total_seconds()), serves=serves)


def health_sensor(
    context: dg.SensorEvaluationContext, lake: Lakehouse, mount: Mount, suites: Sequence[Suite] = ()
) -> dg.SkipReason:
    """Books each table's numbers and worst scopes on its health asset, and whether all is well on the checks."""
    found = health(lake.warehouse, files_of=OTHERS)
    unread = load_failures(mount, lake.warehouse.catalog.read(), suites) if suites else []
    for event in health_events(mount, found):
        context.instance.report_runless_asset_event(event)
    report_checks(context.instance, [*checks_of_health(mount, found), *unread])  # behind the events that they are for
    late = [str(one.table) for one in found if one.is_late]
    return dg.SkipReason(f"late: {', '.join(late)}" if late else f"{len(found)} tables are flushed in time")
