"""Which schedules and sensors of a warehouse are on, and when each last did something: kept for the page of the fleet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import dagster as dg

from lakewarden.catalog.state.fleet_days import ScheduleStanding, keep_schedules
from lakewarden.client import Lakehouse
from lakewarden.dagster.internals import InstigatorState, InstigatorTick, TickStatus

_DID = [TickStatus.SUCCESS, TickStatus.FAILURE]


def keep_standings(context: dg.SensorEvaluationContext, lake: Lakehouse) -> None:
    """Keeps those of the code location that the sensor is in; replaces what was kept before."""
    warehouse = lake.warehouse
    keep_schedules(warehouse.state, "dagster", list(_standings(context)), warehouse.clock())


def _standings(context: dg.SensorEvaluationContext) -> Iterator[ScheduleStanding]:
    repository = context.repository_def
    if repository is None:
        return
    states = {state.name: state for state in context.instance.all_instigator_state()}
    for schedule in repository.schedule_defs:
        runs = schedule.default_status == dg.DefaultScheduleStatus.RUNNING
        yield _standing(context.instance, states, schedule.name, "schedule", _cron(schedule), runs)
    for sensor in repository.sensor_defs:
        runs = sensor.default_status == dg.DefaultSensorStatus.RUNNING
        every = f"{sensor.minimum_interval_seconds or 30} s"
        yield _standing(context.instance, states, sensor.name, "sensor", every, runs)


def _cron(schedule: dg.ScheduleDefinition) -> str:
    found = schedule.cron_schedule
    return found if isinstance(found, str) else ", ".join(found)


def _standing(
    instance: dg.DagsterInstance, states: Mapping[str, InstigatorState], name: str, kind: str, every: str, runs: bool
) -> ScheduleStanding:
    """`runs`: whether it is on by default."""
    state = states.get(name)
    if state is None:
        return ScheduleStanding(name, kind, every, on=runs)
    ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=1, statuses=_DID)
    last = next(iter(ticks), None)
    at, did = (0, "") if last is None else (int(last.timestamp * 1000), _did(last))
    return ScheduleStanding(name, kind, every, on=state.is_running, last_at=at, last=did)


def _did(tick: InstigatorTick) -> str:
    if tick.status == TickStatus.FAILURE:
        return "failed"
    count = len(tick.run_ids)
    return f"started {count} {'run' if count == 1 else 'runs'}" if count else "done"
