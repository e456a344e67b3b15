"""`run_queued_job`: what was enqueued is done, and a job that fails fails the run."""

from __future__ import annotations

from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.queue_job import run_queued_job
from tests.dagster.jobs.conftest import RunJob
from tests.fixtures.chat import MESSAGES, write
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER


def test_queued_jobs_are_done(chat: str, run_job: RunJob) -> None:
    write(chat, "ada", 10)
    with Lakehouse.open(chat) as lake:
        flush, compact = lake.enqueue("flush", MESSAGES), lake.enqueue("compact", MESSAGES)
        assert run_job(run_queued_job, {"jobs": [flush.job_id]}).success
        assert lake.pending() == []
        assert [job.job_id for job in lake.waiting_jobs()] == [compact.job_id]
        assert run_job(run_queued_job).success
        assert lake.waiting_jobs() == []


def test_a_job_that_fails_fails_the_run(chat: str, run_job: RunJob) -> None:
    with Lakehouse.open(chat) as lake:
        job = lake.enqueue("flush", MESSAGES)
        lake.drop_table(MESSAGES)
    assert not run_job(run_queued_job).success
    with Lakehouse.open(chat) as lake:
        assert {one.job_id: one.status for one in lake.jobs()}[job.job_id] == "failed"
