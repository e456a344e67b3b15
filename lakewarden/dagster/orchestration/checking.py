"""Starts checks: a few scopes behind each flush, in groups, and every night those that were checked longest ago.

Built from the catalog: without a table there is nothing to check, and no job for it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import dagster as dg

from lakewarden.catalog.model import Table
from lakewarden.catalog.state.fleet_days import ScheduleStanding, keep_schedules
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.checks import check_step, data_checks
from lakewarden.dagster.assets.health import LOOK_EVERY, OTHERS, health_events
from lakewarden.dagster.assets.health_changes import checks_of_health, report_checks
from lakewarden.dagster.assets.looks import failing
from lakewarden.dagster.assets.suite_checks import checks_of, expect_step, load_failures
from lakewarden.dagster.assets.suites import Suite
from lakewarden.dagster.assets.tables import is_crowded
from lakewarden.dagster.internals import InstigatorState, InstigatorTick, TickStatus
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.evaluations import build_schedule, build_sensor
from lakewarden.dagster.orchestration.runs import under_way
from lakewarden.maintenance.planning.health import health
from lakewarden.tables.warehouse import cold_tables

SAMPLE = 50
"""Scopes of a table that are checked behind a flush: a run of seconds, however many were flushed."""


def build_check_sensor(mount: Mount, tables: Sequence[dg.AssetKey] = (), suites: Sequence[Suite] = ()) -> dg.SensorDefinition:
    return build_sensor(mount, partial(check_sensor, suites=suites), "check_job", seconds=60, serves=tables)


def build_check_schedule(mount: Mount, suites: Sequence[Suite] = ()) -> dg.ScheduleDefinition:
    return build_schedule(mount, partial(check_nightly, suites=suites))


def check_sensor(
    context: dg.SensorEvaluationContext, lake: Lakehouse, mount: Mount, suites: Sequence[Suite] = ()
) -> dg.SensorResult | dg.SkipReason:
    """Checks some of the scopes that flushes and other operations touched, in one run. The cursor is the newest event."""
    if under_way(context.instance, mount, "check"):
        return dg.SkipReason("checks are under way")
    seen = int(context.cursor or 0)
    tables = {mount.asset_key(table.name): table for table in cold_tables(lake.warehouse.catalog.read())}
    newest = {key: at for key, at in _newest(context.instance, list(tables)).items() if at > seen}
    if not newest:
        return dg.SkipReason("nothing was flushed since the last checks")
    touched = [(tables[key], _touched(context.instance, lake, mount, tables[key], seen)) for key in newest]
    context.update_cursor(str(max(newest.values())))
    sample = random.Random(seen)  # no secret: which of many scopes are looked at
    chosen = [
        (table, {"users": _with_failing(lake, table, sample.sample(found, min(SAMPLE, len(found))))}) for table, found in touched
    ]
    return dg.SensorResult(run_requests=[_request(mount, chosen, suites)])


def _with_failing(lake: Lakehouse, table: Table, users: list[str]) -> list[str]:
    """The users whose failures stand, half as many as a run checks, before the others."""
    if not users or not lake.warehouse.failed_checks.of(table.id):
        return users
    registered = {lake.warehouse.erasures.mark(user): user for user in lake.warehouse.registry.users(table.id)}
    first = [registered[mark] for mark in failing(lake, table, registered, SAMPLE // 2)]
    return list(dict.fromkeys([*first, *users]))


def check_nightly(
    _context: dg.ScheduleEvaluationContext, lake: Lakehouse, mount: Mount, suites: Sequence[Suite] = ()
) -> dg.RunRequest:
    """Checks `maintenance.looks_per_run` scopes of each table: those that failed, then those checked longest ago."""
    most = lake.warehouse.settings.maintenance.looks_per_run
    return _request(mount, [(table, {"scopes": most}) for table in cold_tables(lake.warehouse.catalog.read())], suites)


def _request(mount: Mount, configs: Sequence[tuple[Table, Mapping[str, object]]], suites: Sequence[Suite]) -> dg.RunRequest:
    """One run over these tables and their suites, with the config of each."""
    of_table = {suite.table: suite for suite in suites if checks_of(suite)}
    keys = [
        dg.AssetCheckKey(mount.asset_key(table.name), check)
        for table, _ in configs
        for check in (*data_checks(table), *(checks_of(of_table[table.name]) if table.name in of_table else ()))
    ]
    steps = {check_step(mount, table.name): {"config": dict(config)} for table, config in configs}
    steps |= {expect_step(mount, table.name): {"config": dict(config)} for table, config in configs if table.name in of_table}
    return dg.RunRequest(asset_check_keys=keys, run_config={"ops": steps})


def _newest(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey]) -> dict[dg.AssetKey, int]:
    """The storage id of each asset's newest materialization."""
    records = instance.get_asset_records(keys)
    newest = ((record.asset_entry.asset_key, record.asset_entry.last_materialization_record) for record in records)
    return {key: record.storage_id for key, record in newest if record is not None}


def _touched(instance: dg.DagsterInstance, lake: Lakehouse, mount: Mount, table: Table, seen: int) -> list[str]:
    """The users with a newer event; empty where the table has no partitions: then those whose turn it is are checked."""
    if table.type == "SHARED" or is_crowded(lake.warehouse, table):
        return []
    key, kind = mount.asset_key(table.name), dg.DagsterEventType.ASSET_MATERIALIZATION
    return sorted(instance.event_log_storage.get_latest_storage_id_by_partition(key, kind, after_cursor=seen or None))


# Looks at the health of the warehouse every few minutes, without a run.
def build_health_sensor(mount: Mount, serves: Sequence[dg.AssetKey], suites: Sequence[Suite] = ()) -> dg.SensorDefinition:
    sense = partial(health_sensor, suites=suites)
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
    if lake.book_fleet(found):
        keep_standings(context, lake)
    late = [str(one.table) for one in found if one.is_late]
    return dg.SkipReason(f"late: {', '.join(late)}" if late else f"{len(found)} tables are flushed in time")


# Which schedules and sensors of a warehouse are on, and when each last did something: kept for the page of the fleet.
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
