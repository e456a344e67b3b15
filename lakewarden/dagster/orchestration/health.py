"""Looks at the health of the warehouse every few minutes, without a run."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from lakewarden.dagster.assets.checks import evaluation_of, lateness
from lakewarden.dagster.assets.expected import load_failures
from lakewarden.dagster.assets.health import LOOK_EVERY, OTHERS, health_checks, health_events
from lakewarden.dagster.assets.suites import Suite
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.evaluated import build_sensor
from lakewarden.lakehouse import Lakehouse
from lakewarden.planning.health import health


def build_health_sensor(mount: Mount, serves: Sequence[dg.AssetKey], suites: Sequence[Suite] = ()) -> dg.SensorDefinition:
    def sense(context: dg.SensorEvaluationContext, lake: Lakehouse, mount: Mount) -> dg.SensorResult:
        return health_sensor(context, lake, mount, suites)

    sense.__name__, sense.__doc__ = health_sensor.__name__, health_sensor.__doc__
    return build_sensor(mount, sense, None, seconds=int(LOOK_EVERY.total_seconds()), serves=serves)


def health_sensor(
    _context: dg.SensorEvaluationContext, lake: Lakehouse, mount: Mount, suites: Sequence[Suite] = ()
) -> dg.SensorResult:
    """Books each table's numbers and worst scopes on its health asset, and whether all is well on the checks."""
    found = health(lake.warehouse, files_of=OTHERS)
    unread = load_failures(mount, lake.warehouse.catalog.read(), suites) if suites else []
    results = [*(lateness(mount, one) for one in found), *(health_checks(mount, found) if found else []), *unread]
    checks = [evaluation_of(result) for result in results]
    late = [str(one.table) for one in found if one.is_late]
    said = f"late: {', '.join(late)}" if late else f"{len(found)} tables are flushed in time"
    return dg.SensorResult(asset_events=[*health_events(mount, found), *checks], skip_reason=dg.SkipReason(said))
