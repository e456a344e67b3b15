"""What `record_job` books beside runs that are at work: each commit once."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
import pytest

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.event_log import behind
from lakewarden.dagster.jobs.event_log.histories import Now, look
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.queue_job import record_job
from lakewarden.dagster.lakehouse import ids_of
from tests.dagster.jobs.conftest import RunJob
from tests.dagster.jobs.test_jobs import materialized
from tests.fixtures.chat import MESSAGES, write
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

ONLY = {"tables": [MESSAGES]}


def versions(instance: dg.DagsterInstance, user: str) -> Sequence[object]:
    """The versions of the user's events, oldest first."""
    return [event.metadata["delta/version"].value for event in materialized(instance) if event.partition == user][::-1]


def test_what_a_run_committed_and_has_not_booked_yet_is_left_to_it(
    chat: str, instance: dg.DagsterInstance, run_job: RunJob
) -> None:
    assert run_job(record_job, ONLY).success
    run = instance.create_run_for_job(flush_job, status=dg.DagsterRunStatus.STARTED)
    write(chat, "ada", 10, 11)
    with Lakehouse.open(chat, new_id=ids_of(run.run_id)) as lake:
        lake.flush()
    write(chat, "bob", 10, 11)
    with Lakehouse.open(chat) as lake:
        lake.flush()
    assert run_job(record_job, ONLY).success
    assert versions(instance, "ada") == [1], "the run will book it"
    assert versions(instance, "bob") == [1, 2], "another program's, which no run books"
    instance.report_run_failed(run)
    assert run_job(record_job, ONLY).success
    assert versions(instance, "ada") == [1, 2]


def test_what_a_run_books_while_scopes_are_looked_at_is_not_booked_again(
    chat: str, instance: dg.DagsterInstance, run_job: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_job(record_job, ONLY).success
    write(chat, "ada", 10, 11)

    def flushed_meanwhile(lake: Lakehouse) -> Now:
        """After the events were read, and before the tables are."""
        assert run_job(flush_job).success
        return look(lake)

    monkeypatch.setattr(behind, "look", flushed_meanwhile)
    assert run_job(record_job, ONLY).success
    assert versions(instance, "ada") == [1, 2]
    job = str(materialized(instance)[0].metadata["parameters"].value)
    (flushed,) = (run for run in instance.get_runs() if run.job_name == "flush_job")
    assert job.endswith(flushed.run_id[:8]), "the job's id names the run"
