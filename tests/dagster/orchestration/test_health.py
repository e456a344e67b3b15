"""The health assets: numbers of each table, its worst scopes with filled forms, late tables, failed partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value

from lakewarden.base.clock import system_clock
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.health import HEALTH_CHECKS
from lakewarden.dagster.jobs.event_log.sweeping import IdSpellings
from tests.dagster.orchestration.conftest import Load
from tests.fixtures.chat import MESSAGES
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

KEY = dg.AssetKey(["chat", "messages"])
HEALTH = dg.AssetKey(["chat", "messages", "chat.messages-health"])
NUMBERS = {
    "tenants",
    "backlog/scopes",
    "backlog/rows",
    "backlog/bytes",
    "backlog/oldest_seconds",
    "away/scopes",
    "broken/scopes",
    "late/scopes",
    "unknown/scopes",
    "failed_checks/scopes",
    "delta/rows",
    "delta/num_files",
    "delta/bytes",
}


def events_of_a_tick(definitions: dg.Definitions, instance: dg.DagsterInstance) -> Mapping[str, object]:
    """What the look of a sensor left as the newest of each asset and check."""
    sensor = definitions.resolve_sensor_def("health_sensor")
    here = definitions.get_repository_def()
    with dg.build_sensor_context(instance=instance, resources=dict(definitions.resources or {}), repository_def=here) as context:
        sensor.evaluate_tick(context)
    graph = definitions.resolve_asset_graph()
    events = {key.to_user_string(): instance.get_latest_materialization_event(key) for key in graph.get_all_asset_keys()}
    return {
        **{key: event.asset_materialization for key, event in events.items() if event},
        **{
            f"{key.asset_key.to_user_string()} {key.name}": one.event.asset_check_evaluation
            for key, one in checks_shown(definitions, instance).items()
            if one.event
        },
    }


Shown = Mapping[dg.AssetCheckKey, AssetCheckExecutionRecord]


def checks_shown(definitions: dg.Definitions, instance: dg.DagsterInstance) -> Shown:
    """The newest results that a page shows: not those of before the asset's newest event."""
    keys = definitions.resolve_asset_graph().asset_check_keys
    newest = instance.event_log_storage.get_latest_asset_check_execution_by_key([*keys])
    looks = {key: one.targets_latest_materialization(LoadingContextForTest(instance)) for key, one in newest.items()}
    return {key: one for key, one in newest.items() if asyncio.run(looks[key])}


def write_long_ago(uri: str, user: str) -> None:
    then = system_clock() - timedelta(hours=1)
    with Lakehouse.open(uri, clock=lambda: then) as lake:
        lake.table(MESSAGES).write([{"id": 9, "content": "waits"}], user=user)


def with_interval(uri: str) -> None:
    from lakewarden.catalog.evolution import SetOptions

    with Lakehouse.open(uri) as lake:
        lake.alter_table(MESSAGES, SetOptions({"FLUSH_POLICY": "interval:60"}))


def test_a_look_books_numbers_for_each_table_and_the_warehouse(load: Load, chat: str, instance: dg.DagsterInstance) -> None:
    found = events_of_a_tick(load(chat), instance)
    for key in ("chat/messages/chat.messages-health", "chat/rooms/chat.rooms-health", "health"):
        event = found[key]
        assert isinstance(event, dg.AssetMaterialization)
        assert {name for name, value in event.metadata.items() if isinstance(value, dg.IntMetadataValue)} == NUMBERS
        assert event.partition is None, "a partition would be one of many in a plot"
    results = [found[f"health {check}"] for check in HEALTH_CHECKS]
    newest = instance.fetch_materializations(dg.AssetKey("health"), limit=1).records[0]
    for result in results:
        assert isinstance(result, dg.AssetCheckEvaluation)
        assert result.target_materialization_data, "else one in the second of its asset's event is not shown"
        assert result.target_materialization_data.storage_id == newest.storage_id
    messages = found["chat/messages/chat.messages-health"]
    assert isinstance(messages, dg.AssetMaterialization)
    assert (messages.metadata["tenants"].value, messages.metadata["delta/rows"].value) == (3, 6)


def test_a_late_table_is_shown_with_the_scope_and_its_form(load: Load, chat: str, instance: dg.DagsterInstance) -> None:
    with_interval(chat)
    write_long_ago(chat, "ada")
    definitions = load(chat)
    found = events_of_a_tick(definitions, instance)
    late = found["chat/messages/chat.messages-health"]
    assert isinstance(late, dg.AssetMaterialization)
    assert "chat/messages/chat.messages-flushed" not in found, "not materialized, so it grows stale"
    worst = str(late.metadata["worst"].value)
    assert "\n| 1 | [flush](/guess/flush_job/playground/setup?config=" in worst, "a narrow page cuts what is further right"
    assert "| late: rows wait for up to 1 h" in worst
    assert "| chat.messages `ada` |" in worst
    assert IdSpellings("ada", "0" * 32).stand_in(worst)
    check = found["chat/messages flushed_in_time"]
    assert isinstance(check, dg.AssetCheckEvaluation)
    assert (check.passed, check.description) == (False, "1 of 3 scopes are late")
    graph = definitions.resolve_asset_graph()
    assert graph.get(HEALTH).parent_keys == {KEY}
    assert graph.get(dg.AssetKey(["chat", "messages", "chat.messages-flushed"])).parent_keys == {HEALTH}
    assert {graph.get(HEALTH).group_name, graph.get(KEY).group_name} == {"lakewarden_health", "chat"}
    node = graph.get(dg.AssetKey(["chat", "messages", "chat.messages-flushed"]))
    assert node.freshness_policy == dg.FreshnessPolicy.time_window(
        fail_window=timedelta(minutes=16), warn_window=timedelta(minutes=11)
    )


def test_a_quiet_table_stays_fresh(load: Load, chat: str, instance: dg.DagsterInstance) -> None:
    with_interval(chat)
    assert isinstance(events_of_a_tick(load(chat), instance)["chat/messages/chat.messages-flushed"], dg.AssetMaterialization)


def test_an_erased_id_is_found_in_a_link() -> None:
    names = IdSpellings("u_42", "0" * 32)
    assert "u_42" not in names.without('{"md_str": "[flush](/guess/flush_job?config=%20%20-%20u_42%0A)"}')
    assert "example" not in IdSpellings("ada@example.org", "0" * 32).without('{"md_str": "-%20ada%40example.org%0A"}')


def test_each_run_books_its_tables_once(load: Load, chat: str, instance: dg.DagsterInstance) -> None:
    with_interval(chat)
    with Lakehouse.open(chat) as lake:
        for user in ("ada", "bob"):
            lake.table(MESSAGES).write([{"id": 9, "content": "new"}], user=user)
    assert load(chat).resolve_job_def("flush_job").execute_in_process(instance=instance).success
    assert unsynced(load(chat), instance) == set(), "each run books them after their table"
    (event,) = instance.fetch_materializations(HEALTH, limit=9).records
    assert event.asset_materialization is not None
    assert event.asset_materialization.metadata["delta/rows"].value == 8


def unsynced(definitions: dg.Definitions, instance: dg.DagsterInstance) -> set[str]:
    """The assets of health of which the lineage says that their table has changed since."""
    graph = definitions.resolve_asset_graph()
    stale = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    keys = {key for key in graph.get_all_asset_keys() if key.path[-1].endswith(("-health", "-flushed"))}
    return {key.to_user_string() for key in keys if stale.get_status(key) is StaleStatus.STALE}


def test_what_is_booked_afterwards_leaves_no_health_unsynced(load: Load, chat: str, instance: dg.DagsterInstance) -> None:
    with_interval(chat)
    definitions = load(chat)
    events_of_a_tick(definitions, instance)
    assert definitions.resolve_job_def("record_job").execute_in_process(instance=instance).success
    assert unsynced(definitions, instance) == set()


def test_what_booking_finds_broken_is_so_for_partitions_health_and_status(
    load: Load, chat: str, instance: dg.DagsterInstance
) -> None:
    events_of_a_tick(load(chat), instance)
    for user in ("ada", "eve"):
        Path(chat, f"data/chat/messages/{user}/_delta_log/00000000000000000001.json").write_text("{")
    definitions = load(chat)
    assert not definitions.resolve_job_def("record_job").execute_in_process(instance=instance, raise_on_error=False).success
    shown = checks_shown(definitions, instance)[dg.AssetCheckKey(dg.AssetKey("health"), "nothing_broken")]
    assert shown.evaluation is not None
    assert (shown.evaluation.passed, shown.evaluation.description) == (False, "broken: 2 of chat.messages")
    with Lakehouse.open(chat) as lake:
        broken = [(one.user, one.code, one.command) for one in lake.status() if one.code]
    assert broken == [(user, "CORRUPT", f"lakewarden repair {MESSAGES} --user {user}") for user in ("ada", "eve")]


def test_a_failed_scope_turns_its_partition_red_until_it_is_done(load: Load, chat: str, instance: dg.DagsterInstance) -> None:
    torn = {path: path.read_bytes() for path in Path(chat, "data/chat/messages/ada/_delta_log").glob("*.json")}
    with Lakehouse.open(chat) as lake:
        for user in ("ada", "bob"):
            lake.table(MESSAGES).write([{"id": 9, "content": "new"}], user=user)
    for path in torn:
        path.write_text("{")
    definitions = load(chat)
    flush = definitions.resolve_job_def("flush_job")

    def failed() -> set[str]:
        node = definitions.resolve_asset_graph().get(KEY)
        assert node.partitions_def is not None
        status = get_and_update_asset_status_cache_value(instance, KEY, node.partitions_def)
        assert status is not None
        return set(status.deserialize_failed_partition_subsets(node.partitions_def).get_partition_keys())

    assert not flush.execute_in_process(instance=instance, raise_on_error=False).success
    assert failed() == {"ada"}
    for path, content in torn.items():
        path.write_bytes(content)
    assert flush.execute_in_process(instance=instance).success
    assert failed() == set()


def test_a_look_keeps_a_day_of_each_table_and_which_schedules_are_on(
    load: Load, chat: str, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWARDEN_FLEET_URL", "http://127.0.0.1:3001/fleet")
    found = events_of_a_tick(load(chat), instance)["health"]
    assert isinstance(found, dg.AssetMaterialization)
    assert found.metadata["page"].value == "[the fleet](http://127.0.0.1:3001/fleet)"
    with Lakehouse.open(chat) as lake:
        fleet = lake.fleet()
        assert len(lake.warehouse.state.list("fleet")) == len(fleet.tables) + 1
    standings = {one.name: (one.kind, one.every, one.on, one.last_at) for one in fleet.schedules}
    assert standings["compact_hourly"] == ("schedule", "17 * * * *", True, 0)
    assert standings["flush_sensor"] == ("sensor", "4 s", True, 0)
    figures = {
        "tenants": "scopes",
        "backlog/rows": "pending_rows",
        "backlog/bytes": "pending_bytes",
        "broken/scopes": "broken_scopes",
        "late/scopes": "late_scopes",
        "failed_checks/scopes": "failed_scopes",
        "delta/rows": "rows",
        "delta/num_files": "files",
        "delta/bytes": "bytes",
    }
    assert {name: found.metadata[name].value for name in figures} == {name: fleet.total(each) for name, each in figures.items()}
