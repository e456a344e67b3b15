"""What one scope, one user or one fault while booking does to all others: nothing.

No `from __future__ import annotations`: Dagster reads the annotation of an op.
"""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import DagsterEventType
from dagster._core.storage.event_log.base import EventLogStorage
from sqlalchemy.exc import OperationalError

from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.erase import erase_job
from lakewarden.dagster.jobs.event_log.book import book
from lakewarden.dagster.jobs.export import export_job
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.queue_job import record_job
from lakewarden.dagster.lakehouse import WarehouseRun
from lakewarden.dagster.mount import Mount
from tests.dagster.jobs.conftest import RunJob, runner
from tests.dagster.jobs.event_log.test_behind import versions
from tests.dagster.jobs.test_jobs import failure, materialized
from tests.dagster.orchestration.test_sensors import tick
from tests.fixtures.bucket import path_of
from tests.fixtures.chat import MESSAGES, USERS, write
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER


def corrupt(chat: str, user: str) -> None:
    (path_of(chat) / f"data/chat/messages/{user}/_delta_log/00000000000000000001.json").write_text("no JSON")


def test_one_scope_that_cannot_be_read_keeps_no_other_from_its_page(
    chat: str, instance: dg.DagsterInstance, run_job: RunJob
) -> None:
    corrupt(chat, "bob")
    result = run_job(record_job)
    assert not result.success
    assert sorted(event.partition or "" for event in materialized(instance)) == ["ada", "eve"]
    description, _ = failure(result)
    assert description.startswith("1 of 4 scopes failed; the first, chat.messages[bob]: CORRUPT")


def locked(monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance, stored: int, times: int) -> None:
    """The storage fails so many times, behind so many events of scopes."""
    storage, left = type(instance.event_log_storage), [stored]
    store = storage.store_event

    def store_or_fail(self: EventLogStorage, event: dg.EventLogEntry) -> None:
        if event.dagster_event_type is DagsterEventType.ASSET_MATERIALIZATION:
            left[0] -= 1
            if -times <= left[0] < 0:
                raise OperationalError("INSERT", None, Exception("database is locked"))
        store(self, event)

    monkeypatch.setattr(storage, "store_event", store_or_fail)


@pytest.mark.parametrize("stored", [0, 1, 2])
@pytest.mark.parametrize("times", [1, 3])
def test_a_fault_while_booking_is_made_good_by_the_steps_retry(
    chat: str, instance: dg.DagsterInstance, run_job: RunJob, monkeypatch: pytest.MonkeyPatch, stored: int, times: int
) -> None:
    assert run_job(record_job).success
    for user in USERS:
        write(chat, user, 10, 11)
    locked(monkeypatch, instance, stored, times)
    assert run_job(flush_job).success
    assert {user: versions(instance, user) for user in USERS} == {user: [1, 2] for user in USERS}, "each commit once"


@pytest.mark.parametrize("storage", ["instance", "postgres_instance"])
def test_a_user_who_is_no_partition_keeps_no_other_from_its_page(chat: str, storage: str, request: pytest.FixtureRequest) -> None:
    instance = request.getfixturevalue(storage)
    run_job = runner(chat, instance)
    for user in ("nul\0in it", "x" * 256, "ü" * 256, *USERS):
        write(chat, user, 10, 11)
    assert run_job(flush_job).success
    assert run_job(record_job).success
    assert {event.partition for event in materialized(instance)} == {"x" * 256, "ü" * 256, *USERS}


@pytest.mark.parametrize("storage", ["instance", "postgres_instance"])
def test_a_user_who_is_no_partition_is_exported_and_erased_as_any_other(
    chat: str, storage: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    instance, user = request.getfixturevalue(storage), "nul\0in it"
    run_job = runner(chat, instance)
    write(chat, user, 10, 11)
    assert run_job(flush_job).success
    assert run_job(export_job, {"user": user, "to": str(tmp_path / "export")}).success
    with Lakehouse.open(chat) as lake:
        erasure = lake.request_erasure(user, asked_by="a test")
    assert run_job(erase_job, {"request": erasure, "dry_run": False}).success
    assert [run.job_name for run in instance.get_runs()] == ["erase_job", "flush_job"], "the run that names the user is gone"


def test_what_a_run_could_not_book_at_all_is_booked_by_the_sensors_run(
    chat: str, instance: dg.DagsterInstance, run_job: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_job(record_job).success
    write(chat, "ada", 10, 11)
    with monkeypatch.context() as patched:
        locked(patched, instance, 0, 100)
        failed = run_job(flush_job)
    assert not failed.success
    instance.add_run_tags(failed.run_id, {**Mount(chat).tags, "dagster/failure_reason": "STEP_FAILURE"})
    (request,), _, _ = tick("cut_off_sensor", chat, instance)
    assert run_job(record_job, request.run_config["ops"]["record"]["config"]).success
    assert versions(instance, "ada") == [1, 2]


REPORTS: dict[str, Callable[[Lakehouse], list[ScopeReport]]] = {
    "compact": lambda lake: lake.compact(MESSAGES),
    "optimize": lambda lake: lake.optimize(MESSAGES),
    "vacuum": lambda lake: lake.vacuum(MESSAGES),
    "flush of a corrupt scope": lambda lake: lake.flush(MESSAGES, user="bob"),
}


@pytest.mark.parametrize("what", REPORTS)
def test_a_crowded_table_with_nothing_done_ends_as_any_other(chat: str, instance: dg.DagsterInstance, what: str) -> None:
    @dg.op
    def do_and_book(context: dg.OpExecutionContext) -> None:
        with Lakehouse.open(chat) as lake:
            book(WarehouseRun(context, lake, Mount(chat)), REPORTS[what](lake), max_partitions=2)

    @dg.job
    def crowd_job() -> None:
        do_and_book()

    if "corrupt" in what:
        write(chat, "bob", 10, 11)
        corrupt(chat, "bob")
    result = crowd_job.execute_in_process(instance=instance, raise_on_error=False)
    assert result.success == ("corrupt" not in what)
    if not result.success:
        assert "CORRUPT" in failure(result)[0]


def test_what_was_deleted_in_dagster_is_booked_again(chat: str, instance: dg.DagsterInstance, run_job: RunJob) -> None:
    write(chat, "ada", 10, 11)
    assert run_job(record_job).success
    instance.delete_run(instance.get_runs()[0].run_id)
    assert materialized(instance) == []
    assert run_job(record_job).success
    assert sorted(event.partition or "" for event in materialized(instance)) == sorted(USERS)
