"""`evict_job`: STREAM rows go, and each scope's partition knows it."""

from __future__ import annotations

import dagster as dg

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.evict import evict_job
from tests.dagster.jobs.conftest import RunJob
from tests.fixtures.chat import MESSAGES, TYPING, add_stream
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

KEY = dg.AssetKey(["chat", "typing"])


def test_evict_books_each_scope_that_had_something(chat: str, instance: dg.DagsterInstance, run_job: RunJob) -> None:
    add_stream(chat, "ada", "bob")
    assert run_job(evict_job).success
    observed = [record.asset_observation for record in instance.fetch_observations(KEY, limit=10).records]
    assert sorted(one.partition or "" for one in observed if one) == ["ada", "bob"]
    assert run_job(evict_job, {"user": "ada", "dry_run": False}).success
    assert run_job(evict_job, {"dry_run": False}).success
    events = [record.asset_materialization for record in instance.fetch_materializations(KEY, limit=10).records]
    assert [event.partition for event in events if event] == ["bob", "ada"]
    assert all("rows_evicted=1" in str(event.metadata["metrics"].value) for event in events if event)
    assert set(instance.get_dynamic_partitions(TYPING)) == {"ada", "bob"}
    with Lakehouse.open(chat) as lake:
        assert lake.evict() == []


def test_a_table_whose_rows_never_expire_is_refused(run_job: RunJob) -> None:
    assert not run_job(evict_job, {"tables": [MESSAGES]}).success
