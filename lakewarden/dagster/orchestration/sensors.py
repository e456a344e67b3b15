"""The sensors: due flushes, queued jobs, runs that were cut off, new users."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import dagster as dg

from lakewarden.base.scope import TableName
from lakewarden.base.setting_sections import FlushSettings
from lakewarden.catalog.changes.engines import DISABLED
from lakewarden.catalog.model import Table
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.partition_values import is_key
from lakewarden.dagster.assets.tables import MAX_PARTITIONS
from lakewarden.dagster.jobs.event_log.behind import named_tables
from lakewarden.dagster.jobs.runs import (
    IN_VAIN,
    LIGHT,
    OPERATION,
    SCOPE,
    SEEN_UNTIL,
    SLOT,
    UNDER_WAY,
    awaits_retry,
    ended_at,
    named_by_run,
    of_whole_tables,
    subject_tags,
)
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.cursors import (
    Came,
    newcomers,
    read_cursor,
    read_owed,
    settle,
    waiting,
    without_owed,
    write_cursor,
)
from lakewarden.dagster.orchestration.evaluations import build_sensor
from lakewarden.dagster.orchestration.flushing import LOOK_BACK, FlushBatch, FlushRun, Pace, choose, flush_run
from lakewarden.dagster.orchestration.reloading import reload_or_ask
from lakewarden.dagster.orchestration.runs import cut_off, holders, queue_sensor, under_way

EACH_LOOK = 4
"""Seconds between two ticks that each of the daemon's looks at its sensors allows: it looks every 5 s, and what is due a moment
later than that waits for the next look."""
AT_LEISURE = 30
"""Seconds between two ticks of sensors that no person waits for: an idle tick costs a tenth of a second of the processor, nearly
all of it Dagster's own."""


def build_sensors(
    mount: Mount, tables: Sequence[dg.AssetKey] = (), crowded: Collection[TableName] | None = None
) -> list[dg.SensorDefinition]:
    """Those that start runs of the warehouse's jobs, and the one that says what waiting runs wait for.

    Args:
        tables: the assets that they serve.
        crowded: the tables that had too many users for partitions when the code location was loaded; None: that is not looked at.
    """
    sense_users = partial(users_sensor, crowded=crowded)
    return [
        build_sensor(mount, flush_sensor, "flush_job", seconds=EACH_LOOK, serves=tables),
        build_sensor(mount, queue_sensor, None, seconds=AT_LEISURE),
        build_sensor(mount, queued_sensor, "run_queued_job", seconds=AT_LEISURE),
        build_sensor(mount, cut_off_sensor, "record_job", seconds=AT_LEISURE, serves=tables),
        build_sensor(mount, sense_users, "record_job", seconds=AT_LEISURE, serves=tables),
    ]


_RUNS_SEEN = 500
"""Runs of a day that a tick reads; with more failed ones than this, a longer wait is acceptable."""


_MANY = 100
"""New users whose booking takes long enough to be announced."""

_FEW = 50
"""Users who are looked up one by one; the partitions are read whole for more."""


def flush_sensor(context: dg.SensorEvaluationContext, lake: Lakehouse, mount: Mount) -> dg.SensorResult | dg.SkipReason:
    """Flushes scopes whose FLUSH_POLICY is met: in batches, never an active one, failed ones with growing pauses."""
    now, before = lake.warehouse.clock(), Pace.read(context.cursor)
    if before.rests(now):
        return dg.SkipReason("the last look at the log took long: the next one comes later")
    due = [one.pending for one in lake.due()]
    pace = before.looked(now, lake.warehouse.clock())
    context.update_cursor(pace.text)
    if not due:
        return dg.SkipReason(_idle_reason(lake))
    if pace.gathers(now):
        return dg.SkipReason(f"{len(due)} scopes are due: they share a run with those of the next seconds")
    shared = {str(one.scope.table) for one in due if one.scope.user is None}
    choice = choose(due, _flush_runs(context.instance, mount, now, shared), now)
    if not choice.batches:
        return dg.SkipReason("; ".join(filter(None, [f"{len(due)} scopes are due: {choice}", holders(context.instance)])))
    if not choice.later:
        context.update_cursor(pace.with_request(now).text)
    return dg.SensorResult(run_requests=[_request(mount, batch, lake.warehouse.settings.flush) for batch in choice.batches])


def _idle_reason(lake: Lakehouse) -> str:
    """Why no scope is flushed now."""
    namespaces = lake.warehouse.catalog.recent().namespaces.values()  # without a request: the look before has read it
    disabled = [one.name for one in namespaces if not one.engine.active]
    held = lake.maintenance.status.held() if disabled else []
    return f"{DISABLED}: {', '.join(disabled)}; {len(held)} scopes wait" if held else "no scope is due"


def _request(mount: Mount, batch: FlushBatch, settings: FlushSettings) -> dg.RunRequest:
    config = {"scopes": batch.users}
    return dg.RunRequest(
        run_key=batch.key,
        run_config={"ops": {"flush": {"config": config}}},
        tags={
            SEEN_UNTIL: batch.seen_until.isoformat(),
            **subject_tags(config),
            **_single(mount, batch),
            **_slot(batch, settings),
        },
    )


def _slot(batch: FlushBatch, settings: FlushSettings) -> dict[str, str]:
    """Few scopes with little in the log are flushed without a JVM, so they do not wait for one."""
    small = all(one.bytes < settings.large_scope_bytes for one in batch.pending)
    return {SLOT: LIGHT} if small and len(batch.pending) < settings.in_process_below else {}


def _single(mount: Mount, batch: FlushBatch) -> dict[str, str]:
    """A run of one scope is limited to one at a time by the queue (dagster.yaml, tag_concurrency_limits)."""
    single = len(batch.pending) == 1 and is_key(batch.pending[0].user or "")
    return {SCOPE: mount.dotted(batch.pending[0].scope)} if single else {}


def _flush_runs(instance: dg.DagsterInstance, mount: Mount, now: datetime, shared: Collection[str]) -> list[FlushRun]:
    """The active runs that flush, however they were started, and those that failed recently."""
    of_flush = {OPERATION: "flush", **mount.tags}
    active = instance.get_run_records(dg.RunsFilter(tags=of_flush, statuses=UNDER_WAY), limit=_RUNS_SEEN)
    failed = instance.get_run_records(
        dg.RunsFilter(tags=of_flush, statuses=IN_VAIN, updated_after=now - LOOK_BACK), limit=_RUNS_SEEN
    )
    return [_run(instance, mount, record, now, shared) for record in [*active, *failed]]


def _run(instance: dg.DagsterInstance, mount: Mount, record: dg.RunRecord, now: datetime, shared: Collection[str]) -> FlushRun:
    run = record.dagster_run
    seen = run.tags.get(SEEN_UNTIL)
    seen_until = datetime.fromisoformat(seen) if seen else record.create_timestamp.replace(tzinfo=UTC)
    ended = ended_at(record)
    at_work = not run.is_finished or awaits_retry(run, ended, now)  # a flush in between would book newer commits first
    return flush_run(of_whole_tables(named_by_run(instance, mount, run), shared), seen_until, None if at_work else ended)


def queued_sensor(context: dg.SensorEvaluationContext, lake: Lakehouse, mount: Mount) -> dg.SensorResult | dg.SkipReason:
    """Runs the jobs that were enqueued in the warehouse, and those whose runner died."""
    waiting = lake.waiting_jobs()
    if not waiting:
        return dg.SkipReason("no job is queued")
    if under_way(context.instance, mount, "queued"):
        return dg.SkipReason(f"{len(waiting)} jobs are queued, and a run is under way")
    return dg.SensorResult(run_requests=[dg.RunRequest()])


def cut_off_sensor(context: dg.SensorEvaluationContext, lake: Lakehouse, mount: Mount) -> dg.SensorResult | dg.SkipReason:
    """Books what canceled and killed runs had committed, unless a retry does. The cursor is the time of the last such run,
    and what is not booked yet."""
    now, before = lake.warehouse.clock(), without_owed(context.cursor)
    ended = cut_off(context.instance, mount, datetime.fromisoformat(before) if before else now - LOOK_BACK, _RUNS_SEEN)
    until = max(record.update_timestamp for record in ended).replace(tzinfo=UTC).isoformat() if ended else before
    named_by = [named_by_run(context.instance, mount, record.dagster_run) for record in ended]
    named = {str(table.name) for run_config in named_by for table in named_tables(lake, run_config)}
    owed, requests = settle(context.instance, mount, read_owed(context.cursor), named, now)
    context.update_cursor(" ".join(filter(None, [until, *map(str, owed)])))
    return dg.SensorResult(run_requests=requests) if requests else dg.SkipReason("no run was cut off" + waiting(owed))


def users_sensor(
    context: dg.SensorEvaluationContext, lake: Lakehouse, mount: Mount, crowded: Collection[TableName] | None = None
) -> dg.SensorResult | dg.SkipReason:
    """Registers new users as partitions, all at once, and books their state if they have no events yet.

    The cursor lists the tables seen so far, since a table seen for the first time may have state from before this Dagster, and
    what is not booked yet.
    """
    tables = lake.tables()
    before = read_cursor(without_owed(context.cursor))
    came = {table: newcomers(lake.warehouse, table, before.get(table.id)) for table in tables}
    for table in tables:
        if (seen := before.get(table.id)) and seen.users > MAX_PARTITIONS >= came[table].seen.users:
            came[table] = replace(came[table], users=lake.warehouse.registry.users(table.id))
    grown = {table.name: count for table in tables if (count := _register(context.instance, mount, table, came[table]))}
    fresh = [table for table in tables if table.id not in before]
    if crowded is not None and (moved := {name for name, many in _crowds(came).items() if many != (name in crowded)}):
        context.log.info("crossed %d users: %s; %s", MAX_PARTITIONS, ", ".join(map(str, sorted(moved))), reload_or_ask(context))
    names = [str(table.name) for table in tables if table in fresh or table.name in grown]
    owed, requests = settle(context.instance, mount, read_owed(context.cursor), names, lake.warehouse.clock())
    context.update_cursor(" ".join(filter(None, [write_cursor(one.seen for one in came.values()), *map(str, owed)])))
    if not requests:
        return dg.SkipReason(f"no new users in {len(tables)} tables{waiting(owed)}")
    added = ", ".join(f"{count} of {name}" for name, count in grown.items()) or "none"
    context.log.info("new users: %s; new tables: %d", added, len(fresh))
    return dg.SensorResult(run_requests=requests, asset_events=_announced(mount, grown))


def _announced(mount: Mount, grown: Mapping[TableName, int]) -> list[dg.AssetObservation]:
    """A line on the overview of each table whose many users have empty pages until `record_job` has booked them."""
    return [
        dg.AssetObservation(mount.asset_key(name), description=f"{count:,} users are being booked: their pages fill meanwhile")
        for name, count in grown.items()
        if count >= _MANY
    ]


def _crowds(came: Mapping[Table, Came]) -> dict[TableName, bool]:
    """Whether each of the tables has too many users for partitions now."""
    return {table.name: found.seen.users > MAX_PARTITIONS for table, found in came.items() if table.type != "SHARED"}


def _register(instance: dg.DagsterInstance, mount: Mount, table: Table, came: Came) -> int:
    """Adds the users that are not partitions yet, in one statement: 20,000 take half a second, one by one two minutes."""
    if not came.users or came.seen.users > MAX_PARTITIONS:
        return 0
    name = mount.dotted(table.name)
    users = frozenset(filter(is_key, came.users))
    missing = users - _registered(instance, name, users)
    if missing:
        instance.add_dynamic_partitions(name, sorted(missing))
    return len(missing)


def _registered(instance: dg.DagsterInstance, name: str, users: frozenset[str]) -> set[str]:
    """The partitions; of few users only those of theirs."""
    if len(users) > _FEW:
        return set(instance.get_dynamic_partitions(name))
    return {user for user in users if instance.has_dynamic_partition(name, user)}
