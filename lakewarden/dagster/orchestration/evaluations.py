"""Sensors and schedules of a warehouse, each from a function that looks at it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import dagster as dg

from lakewarden.client import Lakehouse
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.serving import ServingSensor
from lakewarden.dagster.resources.ticks import lake_of_tick

Sense = Callable[[dg.SensorEvaluationContext, Lakehouse, Mount], dg.SensorResult | dg.SkipReason]
Schedule = Callable[[dg.ScheduleEvaluationContext, Lakehouse, Mount], dg.RunRequest | dg.SkipReason]


def build_sensor(
    mount: Mount,
    sense: Sense,
    job: str | None,
    *,
    seconds: int,
    serves: Sequence[dg.AssetKey] = (),
    name: str = "",
) -> dg.SensorDefinition:
    """A sensor that is named and described as the function, and starts runs of the warehouse's job.

    Args:
        serves: the assets on whose pages it stands.
        name: of a sensor that a table has; the warehouse's own are named as their functions.
    """

    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        return sense(context, lake_of_tick(context, mount), mount)

    return ServingSensor(
        serves,
        name=name or mount.named(sense.__name__),
        evaluation_fn=evaluate,
        job_name=job and mount.named(job),
        description=sense.__doc__,
        minimum_interval_seconds=seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )


def build_schedule(mount: Mount, look: Schedule, job: str, cron: str, *, running: bool = True) -> dg.ScheduleDefinition:
    """A schedule that is named and described as the function, and starts runs of the warehouse's job.

    Args:
        running: whether it runs from the start.
    """

    @dg.schedule(
        name=mount.named(look.__name__),
        job_name=mount.named(job),
        cron_schedule=cron,
        description=look.__doc__,
        default_status=dg.DefaultScheduleStatus.RUNNING if running else dg.DefaultScheduleStatus.STOPPED,
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        return look(context, lake_of_tick(context, mount), mount)

    return schedule
