"""The job log: one active job a key, states that only one process can make, and what is killed or left behind."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from lakewarden.base.clock import random_id
from lakewarden.base.connection import Location
from lakewarden.catalog.state.job import Job, this_node
from lakewarden.catalog.state.job_log import AlreadyActive, JobLog
from lakewarden.errors import Conflict, InvalidArgument, NotFound, Unsupported
from lakewarden.maintenance.runner import Heartbeat, JobStopped
from lakewarden.storage.open import open_store
from tests.fixtures.clock import Clock
from tests.fixtures.process import ended_node

_LEASE = timedelta(seconds=60)


@pytest.fixture
def jobs(warehouse_uri: str, clock: Clock) -> JobLog:
    return JobLog(open_store(Location(warehouse_uri)), clock, random_id, _LEASE)


def _ask(jobs: JobLog, tables: str = "a.b") -> Job:
    return jobs.enqueue("flush", {"tables": tables})


@pytest.mark.parametrize("begun", [False, True])
def test_the_same_is_asked_for_once_while_it_is_not_over(jobs: JobLog, begun: bool) -> None:
    first = _ask(jobs, "a.b,a.c")
    if begun:
        jobs.beat(jobs.claim(first, "me"), "1 of 2 scopes")
    with pytest.raises(AlreadyActive) as refusal:
        _ask(jobs, "a.c,a.b")
    assert refusal.value.job_id == first.job_id
    assert refusal.value.code == "CONFLICT"
    assert [job.job_id for job in jobs.newest()] == [first.job_id]


def test_something_else_is_another_job(jobs: JobLog) -> None:
    _ask(jobs)
    _ask(jobs, "a.c")
    jobs.enqueue("compact", {"tables": "a.b"})
    jobs.enqueue("flush", {"tables": "a.b", "user": "u"})
    assert len(jobs.newest()) == 4


@pytest.mark.parametrize("status", ["completed", "failed", "skipped", "cancelled"])
def test_one_that_is_over_never_blocks(jobs: JobLog, status: str) -> None:
    for _ in range(5):
        job = jobs.claim(_ask(jobs), "me")
        jobs.finish(job, status, "")  # type: ignore[arg-type]
    assert {job.status for job in jobs.newest()} == {status}


def test_of_many_who_ask_at_once_one_wins(jobs: JobLog) -> None:
    made: list[Job] = []
    refused: list[AlreadyActive] = []
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait()
        try:
            made.append(_ask(jobs))
        except AlreadyActive as error:
            refused.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(refused)) == (1, 7)
    assert [job.job_id for job in jobs.newest()] == [made[0].job_id]


def test_a_claim_without_a_job_holds_for_a_minute(jobs: JobLog, clock: Clock) -> None:
    job = _ask(jobs)
    jobs.store.delete([stored.key for stored in jobs.store.list("jobs")])  # as if it died right before making the job
    with pytest.raises(AlreadyActive, match=job.job_id):
        _ask(jobs)
    clock.forward(61)
    assert _ask(jobs).status == "queued"


def test_a_job_is_claimed_once(jobs: JobLog) -> None:
    queued = _ask(jobs)
    jobs.claim(queued, "me")
    with pytest.raises(Conflict):
        jobs.claim(queued, "you")


def test_progress_shows_while_it_runs(jobs: JobLog, clock: Clock) -> None:
    job = jobs.claim(_ask(jobs), "me")
    for done in range(20):
        clock.forward(2)
        job = jobs.beat(job, f"{done} of 20 scopes")
    (seen,) = jobs.newest()
    assert (seen.status, seen.message, seen.updated_at, seen.node_id) == ("running", "19 of 20 scopes", clock.now, "me")
    assert len(jobs.store.list("jobs")) == 2, "older states are removed"


def test_a_killed_job_is_found_out_at_the_next_heartbeat(jobs: JobLog) -> None:
    job = jobs.beat(jobs.claim(_ask(jobs), "me"), "7 of 9 scopes")
    killed = jobs.kill(job.job_id)
    assert (killed.status, killed.message) == ("cancelled", "cancelled after 7 of 9 scopes")
    with pytest.raises(Conflict):
        jobs.beat(job, "8 of 9 scopes")
    with pytest.raises(Conflict):
        jobs.finish(job, "completed", "")
    assert jobs.find(job.job_id) == killed


def test_only_what_is_there_and_not_over_is_killed(jobs: JobLog) -> None:
    with pytest.raises(NotFound, match="FL-none"):
        jobs.kill("FL-none")
    job = jobs.kill(_ask(jobs).job_id)
    assert job.message == "cancelled before it started"
    with pytest.raises(Unsupported, match="cancelled"):
        jobs.kill(job.job_id)


def test_a_job_of_a_dead_runner_is_taken_over_and_the_dead_one_cannot_go_on(jobs: JobLog, clock: Clock) -> None:
    left = jobs.beat(jobs.claim(_ask(jobs), "dead"), "")
    assert jobs.runnable() == []
    clock.forward(60)
    (waiting,) = jobs.runnable()
    taken = jobs.claim(waiting, "heir")
    assert (taken.status, taken.node_id, taken.retry_count) == ("running", "heir", 1)
    assert jobs.runnable() == []
    for _ in range(5):
        taken = jobs.beat(taken, "")
    with pytest.raises(Conflict):
        jobs.beat(left, "I was only asleep")
    assert jobs.find(left.job_id) == taken


def test_the_same_can_be_asked_for_when_its_runner_has_been_silent_for_the_lease(jobs: JobLog, clock: Clock) -> None:
    left = jobs.beat(jobs.claim(_ask(jobs), "another machine:1"), "")
    clock.forward(59)
    with pytest.raises(AlreadyActive):
        _ask(jobs)
    clock.forward(1)
    again = _ask(jobs)
    assert [job.job_id for job in jobs.runnable()] == [again.job_id]
    ended = jobs.find(left.job_id)
    assert (ended.status, ended.message) == ("failed", "its runner another machine:1 died, and the same was requested again")
    with pytest.raises(Conflict):
        jobs.beat(left, "I was only asleep")


def test_a_runner_that_ended_on_this_machine_is_dead_at_once(jobs: JobLog) -> None:
    alive = jobs.claim(_ask(jobs), this_node())
    with pytest.raises(AlreadyActive):
        _ask(jobs)
    killed = jobs.claim(_ask(jobs, "c.d"), ended_node())
    assert [job.job_id for job in jobs.runnable()] == [killed.job_id]
    assert _ask(jobs, "c.d").status == "queued"
    assert (jobs.find(killed.job_id).status, jobs.find(alive.job_id).status) == ("failed", "running")


def test_queued_ones_come_oldest_first(jobs: JobLog, clock: Clock) -> None:
    first = _ask(jobs, "a.a")
    clock.forward(1)
    second = _ask(jobs, "a.b")
    assert [job.job_id for job in jobs.runnable()] == [first.job_id, second.job_id]
    assert [job.job_id for job in jobs.newest()] == [second.job_id, first.job_id]


def test_what_wants_a_person_is_not_queued(jobs: JobLog) -> None:
    with pytest.raises(InvalidArgument, match="vacuum"):
        jobs.enqueue("vacuum", {})


def test_a_heartbeat_stops_the_work_of_a_killed_job(jobs: JobLog) -> None:
    job = jobs.claim(_ask(jobs), "me")
    with Heartbeat(jobs, job, 0.01) as beat:
        beat.advance(3, 10)
        while jobs.find(job.job_id).message != "3 of 10 scopes":
            pass
        jobs.kill(job.job_id)
        with pytest.raises(JobStopped):  # noqa: PT012  # at one of the next scopes
            while True:
                beat.advance(0, 10)
    assert jobs.find(job.job_id).message == "cancelled after 3 of 10 scopes"


def test_whoever_looks_for_work_does_not_read_what_is_over(jobs: JobLog) -> None:
    done = jobs.finish(jobs.claim(_ask(jobs), "here"), "completed", "1 done")
    waiting = _ask(jobs, "c.d")
    for key in _states(jobs, done):
        jobs.store.put(key, b"unreadable")
    assert [job.job_id for job in jobs.runnable()] == [waiting.job_id]


def test_what_ended_without_saying_so_is_marked_by_the_next_look(jobs: JobLog) -> None:
    done = jobs.finish(jobs.claim(_ask(jobs), "here"), "completed", "1 done")
    marks = [stored.key for stored in jobs.store.list("jobs") if stored.key.endswith("/over")]
    jobs.store.delete(marks)
    assert jobs.runnable() == []
    assert [stored.key for stored in jobs.store.list("jobs") if stored.key.endswith("/over")] == marks
    assert jobs.find(done.job_id) == done


def test_old_jobs_go_when_they_are_over(jobs: JobLog, clock: Clock) -> None:
    jobs.finish(jobs.claim(_ask(jobs), "here"), "completed", "1 done")
    waiting = _ask(jobs, "c.d")
    clock.now += timedelta(days=2)
    young = jobs.finish(jobs.claim(_ask(jobs), "here"), "failed", "no")
    assert jobs.expire(clock.now - timedelta(days=3)) == 0
    assert jobs.expire(clock.now - timedelta(days=1)) == 1
    assert [job.job_id for job in jobs.newest()] == [young.job_id, waiting.job_id]
    assert len(jobs.store.list("jobs")) == 2 + 1 + 1


def _states(jobs: JobLog, job: Job) -> list[str]:
    return [stored.key for stored in jobs.store.list("jobs") if job.job_id in stored.key and not stored.key.endswith("/over")]
