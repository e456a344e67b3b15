"""The sensors over a real warehouse and a real instance of Dagster."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.event_log import EventLogStorage
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG as RANGE_END
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_START_TAG as RANGE_START

from lakewarden.base.scope import TableName
from lakewarden.catalog.state.scope_registry import ScopeRegistry
from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.queue_job import record_job, run_queued_job
from lakewarden.dagster.jobs.runs import OPERATION, SCOPE, SCOPES, TABLE, USER
from lakewarden.dagster.lakehouse import resources_of
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration import sensors
from lakewarden.dagster.orchestration.cursors import _memory
from lakewarden.dagster.orchestration.flushing import APART, Pace, choose
from lakewarden.dagster.orchestration.reloading import VARIABLE as URL
from lakewarden.dagster.orchestration.reloading import build_catalog_sensor
from lakewarden.dagster.orchestration.sensors import build_sensors
from lakewarden.storage.local import LocalObjects
from tests.fixtures.chat import MESSAGES, USERS, write
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER


def tick(
    name: str, uri: str, instance: dg.DagsterInstance, cursor: str | None = None, loaded: int = 0
) -> tuple[list[dg.RunRequest], str, str | None]:
    """One evaluation: the runs that it asks for, why it skips, its cursor."""
    mount = Mount(uri)
    (sensor,) = (one for one in [*build_sensors(mount), build_catalog_sensor(mount, loaded)] if one.name == name)
    with dg.build_sensor_context(instance=instance, cursor=cursor) as context:
        data = sensor.evaluate_tick(context)
    return list(data.run_requests or []), data.skip_message or "", data.cursor


def add_run(uri: str, instance: dg.DagsterInstance, request: dg.RunRequest, status: dg.DagsterRunStatus) -> None:
    """A run as the daemon would have made it."""
    instance.create_run_for_job(
        flush_job, run_config=request.run_config, tags={OPERATION: "flush", **Mount(uri).tags, **request.tags}, status=status
    )


def test_nothing_due_is_said(chat: str, instance: dg.DagsterInstance) -> None:
    requests, why, _ = tick("flush_sensor", chat, instance)
    assert (requests, why) == ([], "no scope is due")


def test_scopes_of_a_disabled_engine_are_not_flushed(chat: str, instance: dg.DagsterInstance) -> None:
    write(chat, "ada", 10, 11)
    with Lakehouse.open(chat) as lake:
        lake.disable_engine("chat")
        requests, why, _ = tick("flush_sensor", chat, instance)
        assert (requests, why) == ([], "engine disabled: chat; 1 scopes wait")
        lake.enable_engine("chat")
        assert len(tick("flush_sensor", chat, instance)[0]) == 1


def test_due_scopes_are_flushed_by_the_run_that_is_asked_for(chat: str, instance: dg.DagsterInstance) -> None:
    write(chat, "ada", 10, 11)
    write(chat, "bob", 10)  # below the policy's two rows
    (request,), _, _ = tick("flush_sensor", chat, instance)
    assert request.run_config == {"ops": {"flush": {"config": {"scopes": {MESSAGES: ["ada"]}}}}}
    assert request.tags[SCOPE] == f"{MESSAGES}[ada]"
    resources = resources_of(Mount(chat))
    done = flush_job.execute_in_process(run_config=request.run_config, tags=request.tags, instance=instance, resources=resources)
    assert done.success
    assert tick("flush_sensor", chat, instance)[1] == "no scope is due"


def test_what_becomes_due_shortly_behind_a_request_shares_the_next_one(chat: str, instance: dg.DagsterInstance) -> None:
    write(chat, "ada", 10, 11)
    requests, _, cursor = tick("flush_sensor", chat, instance)
    assert len(requests) == 1, "the first is due at once"
    write(chat, "bob", 10, 11)
    assert tick("flush_sensor", chat, instance, cursor)[:2] == (
        [],
        "2 scopes are due: they share a run with those of the next seconds",
    )
    later = Pace(requested=datetime.now(UTC) - APART).text
    (request,), _, _ = tick("flush_sensor", chat, instance, later)
    assert request.run_config["ops"]["flush"]["config"]["scopes"] == {MESSAGES: ["ada", "bob"]}


def test_batches_left_for_the_next_tick_do_not_wait(
    chat: str, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensors, "choose", partial(choose, scopes_per_run=1, runs_per_tick=1))
    for user in ("ada", "bob"):
        write(chat, user, 10, 11)
    (request,), _, cursor = tick("flush_sensor", chat, instance)
    add_run(chat, instance, request, dg.DagsterRunStatus.STARTED)
    assert len(tick("flush_sensor", chat, instance, cursor)[0]) == 1


def test_a_sensor_rests_behind_a_long_look(chat: str, instance: dg.DagsterInstance) -> None:
    now = datetime.now(UTC)
    write(chat, "ada", 10, 11)
    cursor = Pace().looked(now - timedelta(seconds=20), now).text
    assert tick("flush_sensor", chat, instance, cursor)[1] == "the last look at the log took long: the next one comes later"
    ended = Pace().looked(now - timedelta(seconds=80), now - timedelta(seconds=61)).text
    assert len(tick("flush_sensor", chat, instance, ended)[0]) == 1
    assert Pace().looked(now, now + timedelta(milliseconds=900)) == Pace(), "a short look needs no rest"
    assert len(tick("flush_sensor", chat, instance, "of another release")[0]) == 1


def test_an_idle_tick_makes_two_requests(chat: str, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    tick("flush_sensor", chat, instance)
    found: list[tuple[str, str]] = []
    for name in ("get", "get_dated", "get_range", "has", "list", "keys", "keys_after", "put", "create", "delete"):

        def noted(self: LocalObjects, key: str, *rest: object, name: str = name, plain: Any = getattr(LocalObjects, name)) -> Any:
            found.append((name, key))
            return plain(self, key, *rest)

        monkeypatch.setattr(LocalObjects, name, noted)
    (sensor,) = (one for one in build_sensors(Mount(chat)) if one.name == "flush_sensor")
    with dg.build_sensor_context() as context:  # Dagster's storage is not opened for it, which costs thirty times the tick
        assert sensor.evaluate_tick(context).skip_message == "no scope is due"
    assert found == [("list", "catalog"), ("keys", "log")]


def test_the_same_work_has_the_same_key_until_there_is_more_of_it(chat: str, instance: dg.DagsterInstance) -> None:
    write(chat, "ada", 10, 11)
    keys = [tick("flush_sensor", chat, instance)[0][0].run_key for _ in range(2)]
    write(chat, "ada", 12)
    keys.append(tick("flush_sensor", chat, instance)[0][0].run_key)
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTED])
def test_a_scope_in_a_run_is_not_submitted_again(chat: str, instance: dg.DagsterInstance, status: dg.DagsterRunStatus) -> None:
    write(chat, "ada", 10, 11)
    (request,), _, _ = tick("flush_sensor", chat, instance)
    add_run(chat, instance, request, status)
    requests, why, _ = tick("flush_sensor", chat, instance)
    assert requests == []
    assert why.startswith("1 scopes are due: 1 under way")
    write(chat, "bob", 10, 11)
    (other,), _, _ = tick("flush_sensor", chat, instance)
    assert other.run_config["ops"]["flush"]["config"]["scopes"] == {MESSAGES: ["bob"]}


@pytest.mark.parametrize("named", [{"dagster/partition": "ada"}, {RANGE_START: "ada", RANGE_END: "bob"}])
def test_a_scope_that_is_being_materialized_is_not_submitted(
    chat: str, instance: dg.DagsterInstance, named: dict[str, str]
) -> None:
    instance.add_dynamic_partitions(MESSAGES, list(USERS))
    for user in ("ada", "eve"):
        write(chat, user, 10, 11)
    key, tags = dg.AssetKey(["chat", "messages"]), {OPERATION: "flush", **Mount(chat).tags, **named}
    run = dg.DagsterRun("__ASSET_JOB", asset_selection=frozenset({key}), tags=tags, status=dg.DagsterRunStatus.STARTED)
    instance.run_storage.add_run(run)
    (request,), _, _ = tick("flush_sensor", chat, instance)
    assert request.run_config["ops"]["flush"]["config"]["scopes"] == {MESSAGES: ["eve"]}
    assert {TABLE: MESSAGES, USER: "eve", SCOPES: "1"}.items() <= request.tags.items()


def test_a_failed_run_is_tried_again_but_not_at_once(chat: str, instance: dg.DagsterInstance) -> None:
    write(chat, "ada", 10, 11)
    (request,), _, _ = tick("flush_sensor", chat, instance)
    add_run(chat, instance, request, dg.DagsterRunStatus.FAILURE)
    assert tick("flush_sensor", chat, instance)[:2] == ([], "1 scopes are due: 1 waiting after a failure")


def test_users_become_partitions_and_what_dagster_missed_is_recorded(chat: str, instance: dg.DagsterInstance) -> None:
    (request,), _, cursor = tick("users_sensor", chat, instance)
    assert set(instance.get_dynamic_partitions(MESSAGES)) == set(USERS)
    assert set(request.run_config["ops"]["record"]["config"]["tables"]) == {MESSAGES, "chat.rooms"}
    assert tick("users_sensor", chat, instance, cursor)[:2] == ([], "no new users in 2 tables")
    write(chat, "zoe", 1)
    with Lakehouse.open(chat) as lake:
        lake.flush()
    (request,), _, _ = tick("users_sensor", chat, instance, cursor)
    assert request.run_config["ops"]["record"]["config"]["tables"] == [MESSAGES]
    assert "zoe" in instance.get_dynamic_partitions(MESSAGES)


def test_a_table_that_crosses_the_number_of_partitions_is_loaded_anew(
    chat: str, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up: the location is reloaded, so that the asset has no partitions. Down: all users are partitions again."""
    asked = list[object]()

    def reload(context: dg.SensorEvaluationContext) -> str:
        asked.append(context)
        return "done"

    monkeypatch.setattr(sensors, "reload_or_ask", reload)
    monkeypatch.setattr(sensors, "MAX_PARTITIONS", 4)

    def at(cursor: str | None, crowded: Collection[TableName]) -> tuple[str | None, int]:
        asked.clear()
        (sensor,) = (one for one in build_sensors(Mount(chat), crowded=crowded) if one.name == "users_sensor")
        with dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources_of(Mount(chat))) as context:
            return sensor.evaluate_tick(context).cursor, len(asked)

    messages = TableName.parse(MESSAGES)
    cursor, reloads = at(None, ())
    assert reloads == 0
    with Lakehouse.open(chat) as lake:
        registry, table_id = lake.warehouse.registry, lake.table(MESSAGES).table.id
        registry.add(table_id, ["kim", "zoe"])
        cursor, reloads = at(cursor, ())
        assert reloads == 1
        cursor, reloads = at(cursor, {messages})
        assert reloads == 0, "it is loaded so"
        registry.discard(table_id, "ada")
        cursor, reloads = at(cursor, {messages})
        assert reloads == 1
    assert {"bob", "eve", "kim", "zoe"} <= set(instance.get_dynamic_partitions(MESSAGES))


def test_a_cursor_moves_behind_a_booking_that_succeeded(chat: str, instance: dg.DagsterInstance) -> None:
    def ran(request: dg.RunRequest, status: dg.DagsterRunStatus) -> None:
        instance.create_run_for_job(
            record_job, run_config=request.run_config, tags={OPERATION: "record", **Mount(chat).tags}, status=status
        )

    (request,), _, cursor = tick("users_sensor", chat, instance)
    ran(request, dg.DagsterRunStatus.STARTED)
    requests, _, cursor = tick("users_sensor", chat, instance, cursor)
    assert requests == [], "it is under way"
    instance.report_run_failed(instance.get_runs()[0])
    (again,), _, cursor = tick("users_sensor", chat, instance, cursor)
    assert again.run_config == request.run_config
    ran(again, dg.DagsterRunStatus.FAILURE)
    requests, why, cursor = tick("users_sensor", chat, instance, cursor)
    assert (requests, "wait to be booked" in why) == ([], True), "later ones wait"
    ran(again, dg.DagsterRunStatus.SUCCESS)
    requests, why, cursor = tick("users_sensor", chat, instance, cursor)
    assert (requests, why, cursor and "@" in cursor) == ([], "no new users in 2 tables", False)


def test_twenty_thousand_users_are_registered_at_once(
    chat: str, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one statement they take half a second, one by one two minutes."""
    storage, sizes = type(instance.event_log_storage), []
    add = storage.add_dynamic_partitions

    def counted(self: EventLogStorage, partitions_def_name: str, partition_keys: Sequence[str]) -> None:
        sizes.append(len(partition_keys))
        add(self, partitions_def_name, partition_keys)

    monkeypatch.setattr(storage, "add_dynamic_partitions", counted)
    with Lakehouse.open(chat) as lake:
        table = lake.table(MESSAGES).table
        lake.warehouse.registry.add(table.id, [f"user {i}" for i in range(20_000)])
    tick("users_sensor", chat, instance)
    assert sizes == [20_003]
    assert len(instance.get_dynamic_partitions(MESSAGES)) == 20_003


def test_a_tick_reads_only_what_came(chat: str, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, cursor = tick("users_sensor", chat, instance)
    with monkeypatch.context() as quiet:
        quiet.setattr(ScopeRegistry, "everything", None)
        quiet.setattr(type(instance.event_log_storage), "get_dynamic_partitions", None)
        with Lakehouse.open(chat) as lake:
            registry, table_id = lake.warehouse.registry, lake.table(MESSAGES).table.id
            registry.add(table_id, ["zoe", "ada"])
            _, _, cursor = tick("users_sensor", chat, instance, cursor)
            registry.discard(table_id, "ada")
            _, _, cursor = tick("users_sensor", chat, instance, cursor)
        assert cursor
        assert f":{len(USERS)}" in cursor, "zoe came, and ada went"
        quiet.setattr(ScopeRegistry, "added", None)
        assert tick("users_sensor", chat, instance, cursor)[:2] == ([], "no new users in 2 tables")
    assert set(instance.get_dynamic_partitions(MESSAGES)) == {*USERS, "zoe"}


def test_after_a_restart_and_with_an_older_cursor_all_users_are_compared(chat: str, instance: dg.DagsterInstance) -> None:
    _, _, cursor = tick("users_sensor", chat, instance)
    write(chat, "zoe", 1)
    with Lakehouse.open(chat) as lake:
        lake.flush()
        of_earlier_releases = " ".join(table.id for table in lake.tables())
    _memory.cache_clear()
    (request,), _, _ = tick("users_sensor", chat, instance, cursor)
    assert request.run_config["ops"]["record"]["config"]["tables"] == [MESSAGES]
    assert "zoe" in instance.get_dynamic_partitions(MESSAGES)
    instance.delete_dynamic_partition(MESSAGES, "zoe")
    tick("users_sensor", chat, instance, of_earlier_releases)
    assert "zoe" in instance.get_dynamic_partitions(MESSAGES)


def test_a_moved_catalog_is_told_where_nobody_can_reload(
    chat: str, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(URL, raising=False)
    with Lakehouse.open(chat) as lake:
        version = lake.warehouse.catalog.read().version
    assert "as loaded" in tick("catalog_sensor", chat, instance, loaded=version)[1]
    why = tick("catalog_sensor", chat, instance, loaded=version - 1)[1]
    assert f"from version {version - 1} to {version}" in why
    assert URL in why


def test_queued_jobs_are_run_one_run_at_a_time(chat: str, instance: dg.DagsterInstance) -> None:
    assert tick("queued_sensor", chat, instance)[:2] == ([], "no job is queued")
    with Lakehouse.open(chat) as lake:
        lake.enqueue("flush", MESSAGES)
    (request,), _, _ = tick("queued_sensor", chat, instance)
    assert request.run_config == {}
    instance.create_run_for_job(
        run_queued_job, tags={OPERATION: "queued", **Mount(chat).tags}, status=dg.DagsterRunStatus.STARTED
    )
    assert tick("queued_sensor", chat, instance)[:2] == ([], "1 jobs are queued, and a run is under way")
