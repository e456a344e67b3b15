"""Red means broken: what marks a partition as failed, what does not, and what clears its page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value

from lakewarden.catalog.report import Fault
from lakewarden.dagster.jobs.event_log.events import is_of_the_scope
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.prune import prune_job
from lakewarden.dagster.jobs.restore import restore_job
from lakewarden.dagster.jobs.vacuum import vacuum_job
from tests.dagster.jobs.conftest import RunJob
from tests.dagster.jobs.test_jobs import failure
from tests.fixtures.chat import MESSAGES, USERS, write
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

KEY = dg.AssetKey(["chat", "messages"])
PARTITIONS = dg.DynamicPartitionsDefinition(name=MESSAGES)


def red(instance: dg.DagsterInstance) -> set[str]:
    """The partitions with a red dot."""
    status = get_and_update_asset_status_cache_value(instance, KEY, PARTITIONS)
    return set(status.deserialize_failed_partition_subsets(PARTITIONS).get_partition_keys()) if status else set()


def banner(instance: dg.DagsterInstance, user: str) -> bool:
    """Whether a partition's page says that a run failed: that of its newest plan, unless its newest event is of the same run."""
    planned = instance.get_latest_planned_materialization_info(KEY, user)
    wanted = dg.AssetRecordsFilter(KEY, asset_partitions=[user])
    newest = instance.fetch_materializations(wanted, limit=1).records
    run = instance.get_run_by_id(planned.run_id) if planned else None
    return run is not None and run.status is dg.DagsterRunStatus.FAILURE and not (newest and newest[0].run_id == run.run_id)


@pytest.mark.parametrize(
    ("job", "config", "code"),
    [
        (restore_job, {"table": MESSAGES, "user": "ada", "target": {"version": {"version": 999}}}, "NOT_FOUND"),
        (restore_job, {"table": MESSAGES, "user": "nobody", "target": {"version": {"version": 0}}}, "NOT_FOUND"),
        (
            restore_job,
            {"table": MESSAGES, "user": "ada", "target": {"version": {"version": 999}}, "dry_run": False},
            "NOT_FOUND",
        ),
        (
            restore_job,
            {"table": MESSAGES, "user": "nobody", "target": {"version": {"version": 0}}, "dry_run": False},
            "NOT_FOUND",
        ),
    ],
)
def test_who_asks_for_the_impossible_marks_nobody(
    instance: dg.DagsterInstance, run_job: RunJob, job: dg.JobDefinition, config: Mapping[str, object], code: str
) -> None:
    instance.add_dynamic_partitions(MESSAGES, list(USERS))
    assert failure(run_job(job, config))[1]["code"].value == code
    assert not red(instance)
    assert set(instance.get_dynamic_partitions(MESSAGES)) == set(USERS), "nobody is registered who has no scope"


def test_a_preview_of_a_broken_scope_marks_nobody(chat: str, instance: dg.DagsterInstance, run_job: RunJob) -> None:
    tear(chat, "ada")
    assert not run_job(vacuum_job, {"tables": [MESSAGES], "look": True}).success
    assert not red(instance)


def test_what_heals_a_scope_clears_its_dot_and_its_page(chat: str, instance: dg.DagsterInstance, run_job: RunJob) -> None:
    for user in ("ada", "bob"):
        write(chat, user, 9)
    ada, bob = tear(chat, "ada"), tear(chat, "bob")
    assert not run_job(flush_job).success
    assert (red(instance), banner(instance, "ada")) == ({"ada", "bob"}, True)
    mend(ada)
    write(chat, "ada", 10)
    assert not run_job(flush_job).success, "the run fails for bob"
    assert (red(instance), banner(instance, "ada"), banner(instance, "bob")) == ({"bob"}, False, True)
    mend(bob)
    for user in ("ada", "bob"):
        write(chat, user, 11)
    assert run_job(flush_job).success
    assert (red(instance), banner(instance, "ada"), banner(instance, "bob")) == (set(), False, False)


def mend(torn: Mapping[Path, bytes]) -> None:
    for path, content in torn.items():
        path.write_bytes(content)


def tear(chat: str, user: str) -> dict[Path, bytes]:
    torn = {path: path.read_bytes() for path in Path(chat, f"data/chat/messages/{user}/_delta_log").glob("*.json")}
    for path in torn:
        path.write_text("{")
    return torn


def test_a_partition_without_a_scope_is_removed(instance: dg.DagsterInstance, run_job: RunJob, chat: str) -> None:
    write(chat, "kim", 1)  # has rows in the log alone
    instance.add_dynamic_partitions(MESSAGES, [*USERS, "kim", "nobody"])
    instance.report_runless_asset_event(dg.AssetMaterialization(KEY, partition="nobody"))
    assert run_job(prune_job).success
    assert set(instance.get_dynamic_partitions(MESSAGES)) == {*USERS, "kim"}
    assert "nobody" not in instance.get_materialized_partitions(KEY)


@pytest.mark.parametrize("code", ["CORRUPT", "CONSTRAINT_VIOLATION", "INTERNAL", "STORAGE_UNAVAILABLE"])
def test_what_a_retry_may_help_is_no_fault_of_the_scope(code: str) -> None:
    assert is_of_the_scope(Fault(code, "", transient=False))
    assert not is_of_the_scope(Fault(code, "", transient=True))
    assert not is_of_the_scope(Fault("CONFLICT", "", transient=False))
