"""Looks at the health of the warehouse every few minutes, without a run."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from lakewarden.dagster.assets.checks import evaluation_of, lateness
from lakewarden.dagster.assets.health import LOOK_EVERY, OTHERS, health_checks, health_events
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.evaluated import build_sensor
from lakewarden.lakehouse import Lakehouse
from lakewarden.planning.health import health


def build_health_sensor(mount: Mount, serves: Sequence[dg.AssetKey]) -> dg.SensorDefinition:
    return build_sensor(mount, health_sensor, None, seconds=int(LOOK_EVERY.total_seconds()), serves=serves)


def health_sensor(_context: dg.SensorEvaluationContext, lake: Lakehouse, mount: Mount) -> dg.SensorResult:
    """Books each table's numbers and worst scopes on its health asset, and whether all is well on the checks."""
    found = health(lake.warehouse, files_of=OTHERS)
    results = [*(lateness(mount, one) for one in found), *(health_checks(mount, found) if found else [])]
    checks = [evaluation_of(result) for result in results]
    late = [str(one.table) for one in found if one.is_late]
    said = f"late: {', '.join(late)}" if late else f"{len(found)} tables are flushed in time"
    return dg.SensorResult(asset_events=[*health_events(mount, found), *checks], skip_reason=dg.SkipReason(said))
