"""Erasing one user leaves the others' events, runs and ticks as they are, on SQLite and on Postgres."""

from __future__ import annotations

import json

import dagster as dg
import pytest
import sqlalchemy as db
from dagster._core.storage.event_log.schema import SqlEventLogStorageMetadata
from dagster._core.storage.runs.schema import RunStorageSqlMetadata
from dagster._core.storage.schedules.schema import ScheduleStorageSqlMetadata

from lakewarden.catalog.model import Column
from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.erase import erase_job
from lakewarden.dagster.jobs.event_log import sweeping
from lakewarden.dagster.jobs.event_log.sweeping import IdSpellings
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.queue_job import record_job
from lakewarden.dagster.mount import Mount
from tests.dagster.jobs.conftest import RunJob, runner
from tests.dagster.jobs.test_erase import KEY, USER, ask
from tests.fixtures.chat import MESSAGES, write
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

MARK = "0" * 32


@pytest.fixture
def instance(shipped_instance: dg.DagsterInstance) -> dg.DagsterInstance:
    return shipped_instance


@pytest.fixture
def flushed_together(chat: str, instance: dg.DagsterInstance) -> RunJob:
    """One run flushed the user with another; each has an event of it, and one from before."""
    run_job = runner(chat, instance)
    for user in (USER, "ada"):
        write(chat, user, 20, 21)
    assert run_job(record_job).success
    assert run_job(flush_job, {"scopes": {MESSAGES: [USER, "ada"]}}).success
    return run_job


def events(instance: dg.DagsterInstance) -> list[tuple[str | None, str, str, object]]:
    """Every event of the asset: of whom, in which run, what it says, and its version."""
    found = [(record, record.asset_materialization) for record in instance.fetch_materializations(KEY, limit=100).records]
    return [
        (event.partition, record.run_id, event.description or "", event.metadata["delta/version"].value)
        for record, event in found
        if event
    ]


def test_the_others_events_stay_as_they_are(chat: str, instance: dg.DagsterInstance, flushed_together: RunJob) -> None:
    before = events(instance)
    assert {partition for partition, *_ in before} == {USER, "ada", "bob", "eve"}
    assert flushed_together(erase_job, {"request": ask(chat), "dry_run": False}).success
    assert events(instance) == [event for event in before if event[0] != USER]
    (newest,) = instance.get_asset_records([KEY])
    assert newest.asset_entry.last_materialization_record is not None
    assert newest.asset_entry.last_materialization_record.partition_key in {"ada", "bob", "eve"}


def test_a_run_with_others_stays_without_the_id(chat: str, instance: dg.DagsterInstance, flushed_together: RunJob) -> None:
    (before,) = instance.get_runs(dg.RunsFilter(job_name="flush_job"))
    logged = len(instance.all_logs(before.run_id))
    config = {"ops": {"record": {"config": {"tables": [MESSAGES], "user": USER}}}}
    tags = Mount("/another/warehouse").tags
    other = instance.create_run_for_job(record_job, run_config=config, tags=tags, status=dg.DagsterRunStatus.SUCCESS)
    request = ask(chat)
    assert flushed_together(erase_job, {"request": request, "dry_run": False}).success
    (after,) = instance.get_runs(dg.RunsFilter(job_name="flush_job"))
    assert after.run_config == {"ops": {"flush": {"config": {"scopes": {MESSAGES: [request, "ada"]}}}}}
    assert (after.run_id, after.status, after.tags) == (before.run_id, before.status, before.tags)
    assert len(instance.all_logs(after.run_id)) == logged - 1, "the user's event alone"
    kept = instance.get_run_by_id(other.run_id)
    assert kept is not None, "a user of that name in another warehouse is another user"
    assert kept.run_config == config


def test_a_run_of_the_user_alone_goes(chat: str, instance: dg.DagsterInstance, flushed_together: RunJob) -> None:
    write(chat, USER, 30)
    assert flushed_together(flush_job, {"tables": [MESSAGES], "user": USER}).success
    assert instance.get_runs_count(dg.RunsFilter(job_name="flush_job")) == 2
    assert flushed_together(erase_job, {"request": ask(chat), "dry_run": False}).success
    assert instance.get_runs_count(dg.RunsFilter(job_name="flush_job")) == 1


def test_another_storage_is_wiped_and_booked_again_and_says_so(
    chat: str, instance: dg.DagsterInstance, flushed_together: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "TESTED", "1.12.")
    result = flushed_together(erase_job, {"request": ask(chat), "dry_run": False})
    assert result.success
    assert {partition for partition, *_ in events(instance)} == {"ada", "bob", "eve"}
    assert all(says.endswith("booked afterwards") for _, _, says, _ in events(instance))
    (output,) = [event for event in result.all_node_events if event.is_successful_output]
    assert output.step_output_data.metadata["dagster/others_wiped"].value is True


@pytest.mark.parametrize("user", ["flush", "1", "chat"])
def test_an_id_that_is_a_word_of_dagsters_breaks_nothing(user: str) -> None:
    names = IdSpellings(user, MARK)
    event = {
        "__class__": "EventLogEntry",
        "pipeline_name": user,
        "step_key": user,
        "user_message": f"flushed {user}",
        "dagster_event": {"__class__": "DagsterEvent", "asset_key": {"__class__": "AssetKey", "path": [user, "messages"]}},
    }
    assert json.loads(names.without(json.dumps(event))) == {**event, "user_message": f"flushed {MARK}"}


def test_an_id_is_found_however_json_spells_it() -> None:
    names = IdSpellings("zoé", MARK)
    stored = json.dumps({"user_message": 'of "zoé"', "path": "zoé"})
    assert any(each in stored for each in names.searched)
    assert json.loads(names.without(stored)) == {"user_message": f'of "{MARK}"', "path": "zoé"}


_WITHOUT_USERS = {
    "asset_check_executions": {"asset_key", "check_name", "run_id", "execution_status"},
    "asset_daemon_asset_evaluations": {"asset_key"},
    "asset_event_tags": {"asset_key", "key", "value"},
    "asset_keys": {"asset_key", "last_materialization", "last_run_id", "asset_details", "tags", "cached_status_data"},
    "backfill_tags": {"backfill_id", "key"},
    "bulk_actions": {"key", "status", "action_type", "selector_id", "job_name"},
    "concurrency_limits": {"concurrency_key"},
    "concurrency_slots": {"concurrency_key", "run_id", "step_key"},
    "daemon_heartbeats": {"daemon_type", "daemon_id", "body"},
    "dynamic_partitions": {"partitions_def_name", "partition"},
    "event_logs": {"run_id", "event", "dagster_event_type", "step_key", "asset_key", "partition"},
    "instance_info": {"run_storage_id"},
    "instigators": {"selector_id", "repository_selector_id", "status", "instigator_type"},
    "job_ticks": {"job_origin_id", "selector_id", "status", "type"},
    "jobs": {"job_origin_id", "selector_id", "repository_origin_id", "status", "job_type"},
    "kvs": {"key", "value"},
    "pending_steps": {"concurrency_key", "run_id", "step_key"},
    "run_tags": {"run_id", "key"},
    "runs": {"run_id", "snapshot_id", "pipeline_name", "mode", "status", "partition_set", "backfill_id"},
    "secondary_indexes": {"name"},
    "snapshots": {"snapshot_id", "snapshot_type"},
}
"""Text columns that hold no user, or that the sweep handles by rows: a new one of Dagster's has to be judged, and added here."""


def test_every_text_column_of_dagsters_is_swept_or_known_to_hold_no_user() -> None:
    found: dict[str, set[str]] = {}
    for metadata in (SqlEventLogStorageMetadata, RunStorageSqlMetadata, ScheduleStorageSqlMetadata):
        for table in metadata.tables.values():
            texts = {column.name for column in table.columns if isinstance(column.type, db.String | db.types.NullType)}
            found.setdefault(table.name, set()).update(texts)
    for column in (*sweeping.OF_RUNS, *sweeping.OF_SCHEDULES, *sweeping.OF_CHECKS):
        found[column.table.name].discard(column.name)
    assert found == _WITHOUT_USERS
    assert dg.__version__.startswith(sweeping.TESTED)


def test_partial_erasures_leave_the_users_other_tables(chat: str, instance: dg.DagsterInstance) -> None:
    run_job = runner(chat, instance)
    with Lakehouse.open(chat) as lake:
        lake.create_table("chat.notes", type="USER", columns=[Column("id", "BIGINT")], primary_key=["id"])
        lake.table("chat.notes").write([{"id": 1}], user=USER)
        lake.flush()
    write(chat, USER, 1, 2)
    assert run_job(record_job).success
    assert run_job(flush_job).success
    with Lakehouse.open(chat) as lake:
        request = lake.request_erasure(USER, tables=[MESSAGES], asked_by="a test")
    assert run_job(erase_job, {"request": request, "dry_run": False}).success
    assert instance.get_materialized_partitions(KEY) == {"ada", "bob", "eve"}
    assert instance.get_materialized_partitions(dg.AssetKey(["chat", "notes"])) == {USER}
