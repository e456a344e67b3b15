"""Sensors and schedules of a warehouse, each from a function that looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import FunctionType
from typing import Any

import dagster as dg

from lakewarden.catalog.model import Catalog
from lakewarden.client import Lakehouse
from lakewarden.client.maintain_once import CADENCES
from lakewarden.dagster.internals import UnresolvedAssetJobDefinition
from lakewarden.dagster.lakehouse import lake_of_tick
from lakewarden.dagster.mount import Mount

# What serves a table by itself, where people look for it: on the page of its asset.
_OF_STREAMS = ("evict_job",)
_OF_TABLES = ("compact_job", "optimize_job", "vacuum_job", "check_job")


class ServingSensor(dg.SensorDefinition):
    """A sensor of a job that also names the assets which it serves, so that their pages list it.

    Dagster's own sensors name a job or assets, not both: assets then run as assets. So this one answers as a sensor with a job
    of assets does when it is shown, and only then.
    """

    def __init__(self, serves: Sequence[dg.AssetKey], **definition: Any) -> None:
        super().__init__(**definition)
        self._serves = dg.AssetSelection.assets(*serves) if serves else None

    @property
    def has_anonymous_job(self) -> bool:
        return self._serves is not None

    @property
    def job(self) -> UnresolvedAssetJobDefinition:
        return dg.define_asset_job(self.name, selection=self._serves)


def with_automation(
    mount: Mount, catalog: Catalog, specs: Iterable[dg.AssetSpec], schedules: Iterable[dg.ScheduleDefinition]
) -> list[dg.AssetSpec]:
    """The specs with the schedules that serve each table in the description: Dagster lists those of asset jobs only."""
    cron = {schedule.job_name: f"{schedule.name}, `{schedule.cron_schedule}`" for schedule in schedules}

    def of(spec: dg.AssetSpec) -> dg.AssetSpec:
        table = mount.table_of(spec.key)
        jobs = _OF_STREAMS if table and catalog.tables[table].type == "STREAM" else _OF_TABLES
        served = (f"[{name}](/guess/{name}) ({cron[name]})" for name in (mount.named(job) for job in jobs) if name in cron)
        return spec.replace_attributes(description=f"{spec.description}\n\nBy itself: {', '.join(served)}.")

    return [of(spec) for spec in specs]


Sense = Callable[[dg.SensorEvaluationContext, Lakehouse, Mount], dg.SensorResult | dg.SkipReason]
Schedule = Callable[[dg.ScheduleEvaluationContext, Lakehouse, Mount], dg.RunRequest | dg.SkipReason]


def _function(evaluates: Sense | Schedule) -> FunctionType:
    found = evaluates.func if isinstance(evaluates, partial) else evaluates
    assert isinstance(found, FunctionType)
    return found


def build_sensor(
    mount: Mount,
    sense: Sense,
    job: str | None,
    *,
    seconds: int,
    serves: Sequence[dg.AssetKey] = (),
    name: str = "",
    said: str = "",
) -> dg.SensorDefinition:
    """A sensor that is named and described as the function, also within a `partial`, and starts runs of the warehouse's job.

    Args:
        serves: the assets on whose pages it stands.
        name: of a sensor that a table has; the warehouse's own are named as their functions.
        said: the description of such a one.
    """
    shown = _function(sense)

    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        return sense(context, lake_of_tick(context, mount), mount)

    return ServingSensor(
        serves,
        name=name or mount.named(shown.__name__),
        evaluation_fn=evaluate,
        job_name=job and mount.named(job),
        description=said or shown.__doc__,
        minimum_interval_seconds=seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )


def build_schedule(mount: Mount, look: Schedule, *, running: bool = True) -> dg.ScheduleDefinition:
    """A schedule that is named and described as the function, also within a `partial`. Its name's first word is that of the job
    which it starts, and `CADENCES` has its times.

    Args:
        running: whether it runs from the start.
    """
    shown = _function(look)
    name = shown.__name__

    @dg.schedule(
        name=mount.named(name),
        job_name=mount.named(f"{name.partition('_')[0]}_job"),
        cron_schedule=CADENCES[name].cron,
        description=shown.__doc__,
        default_status=dg.DefaultScheduleStatus.RUNNING if running else dg.DefaultScheduleStatus.STOPPED,
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        return look(context, lake_of_tick(context, mount), mount)

    return schedule
