"""Queued jobs as they are run: killed between scopes, tried again, and picked up after a crash."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.setting_sections import FlushSettings, JobsSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.job import Job
from lakewarden.catalog.state.job_log import JobLog
from lakewarden.errors import StorageUnavailable
from lakewarden.maintenance.engine import WorkEngine
from lakewarden.maintenance.operator import Operator
from lakewarden.maintenance.runner import Runner
from lakewarden.sql.results import StartedJobs
from tests.fixtures.lakes import NOTES, eventual, lake_fixture, make_notes
from tests.fixtures.patience import PATIENCE
from tests.fixtures.process import ended_node

_START = datetime(2026, 11, 21, 8, tzinfo=UTC)
_QUICK = Settings(jobs=JobsSettings(heartbeat_seconds=0.01), flush=FlushSettings(in_process_below=10_000))


lake = lake_fixture(make_notes, settings=_QUICK)


def _write(lake: Lakehouse, users: int) -> None:
    rows = [{"id": 1, "text": "t", "tenant": f"u{number}"} for number in range(users)]
    lake.table(NOTES).write(rows, user_column="tenant")


def _operator(lake: Lakehouse, kind: type[Operator] = Operator) -> Operator:
    warehouse = lake.warehouse
    jobs = JobLog(warehouse.state, warehouse.clock, warehouse.new_id)
    return kind(warehouse, WorkEngine(warehouse.settings, lambda done, total: None, None), jobs)


class _Flaky(Operator):
    """Fails as a store does, twice; then works."""

    failures = 2

    def run_job(self, job: Job) -> list[ScopeReport]:
        if type(self).failures:
            type(self).failures -= 1
            raise StorageUnavailable("the store is away for a moment")
        return super().run_job(job)


class _Slow(Operator):
    """Works until so many beats of its job were made."""

    beats = 0

    def run_job(self, job: Job) -> list[ScopeReport]:
        began, enough = time.monotonic(), self.beats + 3
        while self.beats < enough:
            assert time.monotonic() - began < PATIENCE
            time.sleep(0.005)
        return super().run_job(job)


class _Broken(Operator):
    def run_job(self, job: Job) -> list[ScopeReport]:
        raise KeyError(job.job_id)


@pytest.mark.slow
def test_a_killed_job_stops_between_scopes_and_the_next_one_does_the_rest(lake: Lakehouse) -> None:
    _write(lake, 300)
    job = lake.enqueue("flush", NOTES)
    killed: list[Job] = []

    def kill_after_some(_done: int, total: int) -> None:
        if total == 300 and not killed:
            killed.append(lake.kill_job(job.job_id))

    with Lakehouse.open(lake.warehouse.uri, settings=_QUICK, progress=kill_after_some) as runner:
        (ran,) = runner.run_jobs()
    assert (ran.status, ran.message) == ("cancelled", killed[0].message)
    flushed = sum(1 for number in range(300) if eventual(lake.table(NOTES), f"u{number}"))
    assert 0 < flushed < 300
    assert len(lake.pending()) > 0
    lake.enqueue("flush", NOTES)
    assert [job.status for job in lake.run_jobs()] == ["completed"]
    assert lake.pending() == []
    assert all(eventual(lake.table(NOTES), f"u{number}") == {1: "t"} for number in range(300))


def test_a_fault_that_may_go_away_is_tried_again_with_pauses_that_grow(lake: Lakehouse) -> None:
    _write(lake, 2)
    lake.enqueue("flush", NOTES)
    pauses: list[float] = []
    (job,) = Runner(_operator(lake, _Flaky), pauses.append).run_waiting()
    assert (job.status, job.retry_count, pauses) == ("completed", 2, [0.1, 0.2])
    assert lake.pending() == []


@pytest.mark.parametrize("each", [1, 2], ids=["of all", "of some"])
def test_a_beat_whose_answer_was_lost_is_its_runners_own(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch, each: int) -> None:
    _write(lake, 1)
    lake.enqueue("flush", NOTES)
    beat = JobLog.beat

    def loses(jobs: JobLog, job: Job, message: str) -> Job:
        made = beat(jobs, job, message)
        _Slow.beats += 1
        if _Slow.beats % each == 0:
            raise StorageUnavailable("the answer was lost")
        return made

    monkeypatch.setattr(JobLog, "beat", loses)
    monkeypatch.setattr(_Slow, "beats", 0)
    (ran,) = Runner(_operator(lake, _Slow)).run_waiting()
    assert ran.status == "completed"


def test_it_is_given_up_after_so_many_tries(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Flaky, "failures", 99)
    _write(lake, 1)
    lake.enqueue("flush", NOTES)
    pauses: list[float] = []
    (job,) = Runner(_operator(lake, _Flaky), pauses.append).run_waiting()
    assert (job.status, job.retry_count, pauses) == ("failed", 3, [0.1, 0.2, 0.4])
    assert job.message == "STORAGE_UNAVAILABLE: the store is away for a moment"
    assert len(lake.pending()) == 1


@pytest.mark.slow
@pytest.mark.disk
def test_a_scope_that_cannot_be_flushed_fails_the_job_at_once_and_the_next_one_runs(lake: Lakehouse) -> None:
    _write(lake, 2)
    lake.flush(NOTES)
    shutil.rmtree(Path(lake.warehouse.uri) / "data" / "chat" / "notes" / "u0" / "_delta_log")
    (Path(lake.warehouse.uri) / "data" / "chat" / "notes" / "u0" / "_delta_log").write_text("no directory")
    _write(lake, 2)
    lake.enqueue("flush", NOTES)
    lake.enqueue("compact", NOTES, user="u1")
    first, second = lake.run_jobs()
    assert (first.status, second.status) == ("failed", "skipped")
    assert [pending.user for pending in lake.pending()] == ["u0"]


def test_a_fault_of_ours_ends_the_job_and_says_where(lake: Lakehouse) -> None:
    lake.enqueue("flush", NOTES)
    (job,) = Runner(_operator(lake, _Broken), lambda seconds: None).run_waiting()
    assert job.status == "failed"
    assert job.message.startswith("INTERNAL: KeyError")
    assert "run_job" in (job.exception_trace or "")


def test_a_crashed_runner_s_job_is_picked_up(warehouse_uri: str) -> None:
    now = [_START]
    with Lakehouse.open(warehouse_uri, settings=_QUICK, clock=lambda: now[0]) as lake:
        make_notes(lake)
        _write(lake, 3)
        queued = lake.enqueue("flush", NOTES)
        _operator(lake).jobs.claim(queued, "a machine that lost its power")
        assert lake.run_jobs() == []
        now[0] += timedelta(seconds=60)
        (job,) = lake.run_jobs()
        assert (job.job_id, job.status, job.message) == (queued.job_id, "completed", "3 done")
        assert job.node_id != "a machine that lost its power"


def test_a_flush_goes_on_where_the_process_of_the_last_one_was_killed(lake: Lakehouse) -> None:
    _write(lake, 3)
    lost = _operator(lake).jobs.claim(lake.enqueue("flush", NOTES), ended_node())
    (done,) = lake.sql(f"STORAGE FLUSH TABLE {NOTES}")
    assert isinstance(done, StartedJobs)
    assert {job.job_id: job.status for job in lake.jobs()} == {lost.job_id: "failed", done.job_ids[0]: "completed"}
    assert lake.pending() == []


def test_of_a_flush_of_all_no_job_waits_for_a_process_that_may_die(lake: Lakehouse) -> None:
    lake.create_table("chat.others", columns=[Column("id", "BIGINT")], primary_key=["id"])
    lake.table("chat.others").write([{"id": 1}])
    _write(lake, 1)
    waiting: list[str] = []

    def look(_done: int, _total: int) -> None:
        waiting.extend(job.job_id for job in lake.waiting_jobs())

    with Lakehouse.open(lake.warehouse.uri, settings=_QUICK, progress=look) as asking:
        (done,) = asking.sql("STORAGE FLUSH ALL IN chat")
    assert isinstance(done, StartedJobs)
    assert (len(done.job_ids), waiting) == (2, [])


def test_a_job_that_kills_its_runners_is_given_up(warehouse_uri: str) -> None:
    now = [_START]
    with Lakehouse.open(warehouse_uri, settings=_QUICK, clock=lambda: now[0]) as lake:
        make_notes(lake)
        job = _operator(lake).jobs.claim(lake.enqueue("flush", NOTES), "dies")
        for _ in range(3):
            now[0] += timedelta(seconds=60)
            job = _operator(lake).jobs.claim(job, "dies too")
        now[0] += timedelta(seconds=60)
        (ended,) = lake.run_jobs()
        assert (ended.status, ended.message) == ("failed", "given up after 3 retries: its runner died")


def test_nothing_to_do_is_skipped(lake: Lakehouse) -> None:
    lake.enqueue("flush", NOTES)
    assert [(job.status, job.message) for job in lake.run_jobs()] == [("skipped", "nothing to do")]
