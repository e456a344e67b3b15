"""What `prune_job` removes from Dagster's storage, and what its pages keep."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy as db
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._serdes import serialize_value

from lakewarden.client import Lakehouse
from lakewarden.dagster.alive import last_beat
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.prune import prune_job
from tests.dagster.jobs.conftest import RunJob, runner
from tests.fixtures.chat import MESSAGES, write
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

KEY = dg.AssetKey(["chat", "messages"])
THEIRS = dg.AssetKey(["theirs"])


@pytest.fixture
def instance(shipped_instance: dg.DagsterInstance) -> dg.DagsterInstance:
    return shipped_instance


@pytest.fixture
def flushed(chat: str, instance: dg.DagsterInstance) -> RunJob:
    """Three events of one user, one of another, and as many of an asset that is not of this warehouse."""
    run_job = runner(chat, instance)
    for round_ in range(3):
        write(chat, "ada", 10 + round_)
        if round_ == 0:
            write(chat, "bob", 10)
        assert run_job(flush_job, {"tables": [MESSAGES]}).success
        instance.report_runless_asset_event(dg.AssetMaterialization(THEIRS, partition="ada"))
    return run_job


def events(instance: dg.DagsterInstance, key: dg.AssetKey = KEY) -> Counter[str | None]:
    return Counter(record.partition_key for record in instance.fetch_materializations(key, limit=100).records)


def test_each_partition_keeps_its_newest_events(flushed: RunJob, instance: dg.DagsterInstance) -> None:
    assert events(instance) == {"ada": 3, "bob": 1}
    newest = instance.get_latest_materialization_event(KEY)
    assert flushed(prune_job, {"events": 2, "hours": 0.0}).success
    assert events(instance) == {"ada": 2, "bob": 1}
    assert instance.get_latest_materialization_event(KEY) == newest
    assert events(instance, THEIRS) == {"ada": 3}
    assert instance.get_materialized_partitions(KEY) == {"ada", "bob"}


def test_young_events_stay(flushed: RunJob, instance: dg.DagsterInstance) -> None:
    assert flushed(prune_job, {"events": 1, "hours": 1.0}).success
    assert events(instance) == {"ada": 3, "bob": 1}


def test_beats_of_ended_runs_go_and_those_of_others_stay(flushed: RunJob, instance: dg.DagsterInstance) -> None:
    ended = instance.get_runs(dg.RunsFilter(job_name="flush_job"))[0].run_id
    assert last_beat(instance, ended) is not None
    assert flushed(prune_job, {"hours": 0.0}).success
    assert last_beat(instance, ended) is None
    (own,) = instance.get_runs(dg.RunsFilter(job_name="prune_job"))
    assert last_beat(instance, own.run_id) is not None


def test_a_runs_own_copy_goes_and_its_other_events_stay(flushed: RunJob, instance: dg.DagsterInstance) -> None:
    (run, *_) = instance.get_runs(dg.RunsFilter(job_name="flush_job"))
    before = [entry.dagster_event_type for entry in instance.all_logs(run.run_id)]
    assert flushed(prune_job, {"events": 20, "hours": 0.0}).success
    after = [entry.dagster_event_type for entry in instance.all_logs(run.run_id)]
    kept = [kind for kind in before if kind is not dg.DagsterEventType.ASSET_MATERIALIZATION]
    assert [kind for kind in after if kind is not dg.DagsterEventType.ASSET_MATERIALIZATION] == kept
    assert events(instance) == {"ada": 3, "bob": 1}, "the assets' own events"


@pytest.mark.night
@pytest.mark.parametrize("shipped_instance", ["sqlite"], indirect=True)
def test_the_database_of_a_run_shrinks(chat: str, instance: dg.DagsterInstance) -> None:
    storage = instance.event_log_storage
    assert isinstance(storage, SqliteEventLogStorage), "Postgres has no database of a run"
    run_job = runner(chat, instance)
    with Lakehouse.open(chat) as lake:
        lake.table(MESSAGES).write([{"id": 1, "content": "new", "user": f"u_{n}"} for n in range(100)], user_column="user")
    assert run_job(flush_job, {"tables": [MESSAGES]}).success
    (run,) = instance.get_runs(dg.RunsFilter(job_name="flush_job"))
    shard = Path(storage.path_for_shard(run.run_id))
    before = shard.stat().st_size
    assert run_job(prune_job, {"events": 20, "hours": 0.0}).success
    assert before - shard.stat().st_size > 100 * 300


@pytest.mark.usefixtures("flushed")
def test_an_event_of_a_flush_is_small(instance: dg.DagsterInstance) -> None:
    records = instance.fetch_materializations(KEY, limit=100).records
    assert max(len(serialize_value(record.event_log_entry)) for record in records) < 4_096, "it was 7 KB"
    if instance.event_log_storage.__class__.__name__ == "PostgresEventLogStorage":
        stored = "SELECT max(pg_column_size(event)) FROM event_logs WHERE partition IS NOT NULL AND asset_key LIKE '%messages%'"
        with instance.event_log_storage.index_connection() as connection:  # type: ignore[attr-defined]
            assert connection.execute(db.text(stored)).scalar_one() < 1_536, "with its indexes below two kilobytes"
