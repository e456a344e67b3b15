"""Runs queued jobs with a heartbeat, retries those that may succeed, and takes over jobs whose runner died."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType

from lakewarden.base.setting_sections import JobsSettings
from lakewarden.catalog.heartbeat import BeatThread
from lakewarden.catalog.report import Fault
from lakewarden.catalog.state.job import Job, JobStatus, WorkByTable, outcome_of, this_node
from lakewarden.catalog.state.job_log import JobLog
from lakewarden.errors import Conflict, StorageUnavailable, Terminal
from lakewarden.maintenance.operator import Operator
from lakewarden.storage.meter import metered
from lakewarden.tables.fanout import fault_of


class JobStopped(Terminal):
    """The job is no longer this process's: it was killed, or another took it over."""

    code = "CONFLICT"


class Heartbeat:
    """While it is entered, a thread writes the job's next state at a fixed interval in seconds.

    It has its own thread because one large scope may take longer than a runner may be silent.
    """

    def __init__(self, jobs: JobLog, job: Job, seconds: float) -> None:
        self._jobs = jobs
        self._lock = threading.Lock()
        self._lost = threading.Event()
        self._thread = BeatThread(f"heartbeat of {job.job_id}", self._beat, seconds)
        self._unsure = False
        """Whether the last beat had no answer: its state may be there."""
        self._done = self._total = 0
        self.job = job
        """The last state that this process wrote; to be read after the heartbeat."""

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._thread.end()
        with suppress(StorageUnavailable):  # what ends the job says so
            self._look_again()

    def _look_again(self) -> None:
        """Whether the last beat is there, if it had no answer."""
        if not self._unsure:
            return
        job, after = self.job, self._jobs.find(self.job.job_id)
        is_own = (after.node_id, after.status, after.retry_count) == (job.node_id, job.status, job.retry_count)
        self.job, self._unsure = after if is_own and after.step == job.step + 1 else job, False

    def advance(self, done: int, total: int) -> None:
        """Counts finished scopes (`engine.Progress`).

        Raises:
            Stopped: the job is no longer this process's, so no further scope is started.
        """
        with self._lock:
            self._done, self._total = (self._done + done, total) if total == self._total else (done, total)
        if self._lost.is_set():
            raise JobStopped(f"job {self.job.job_id} was killed or taken over after {self._progress()}")

    def _progress(self) -> str:
        return f"{self._done} of {self._total} scopes"

    def _beat(self) -> bool:
        """Where none gets through, the job counts as abandoned."""
        self._look_again()
        self._unsure = True
        try:
            self.job, self._unsure = self._jobs.beat(self.job, self._progress() if self._total else ""), False
        except Conflict:
            self._unsure = False
            self._lost.set()
            return False
        return True


@dataclass(frozen=True)
class _Ending:
    """How one attempt at a job ended."""

    status: JobStatus
    message: str
    fault: Fault | None = None
    """What it failed for, the first of several."""
    transient: bool = False
    """Whether another attempt may succeed."""
    trace: str | None = None
    work: WorkByTable = field(default_factory=dict)


@dataclass(frozen=True)
class Runner:
    """Runs the jobs of one warehouse in this process, one after another."""

    operator: Operator
    pause: Callable[[float], None] = time.sleep
    faults: dict[str, Fault] = field(default_factory=dict)
    """By job id, what the jobs that it ran failed for."""

    def waiting(self) -> list[Job]:
        """Jobs that no runner has, or whose runner seems dead; oldest first."""
        return self.operator.jobs.runnable()

    def run_waiting(self, only: Collection[str] | None = None) -> list[Job]:
        """Runs the waiting jobs (`only`: these ids), oldest first; one that fails does not hold up the others."""
        ran = (self._taken(job) for job in self.waiting() if only is None or job.job_id in only)
        return [self._run(job) for job in ran if job is not None]

    def run(self, job: Job) -> Job:
        """Runs one queued job; returns it as it ended.

        Raises:
            Conflict: another runner took the job first.
        """
        return self._run(self.operator.jobs.claim(job, this_node()))

    @property
    def _settings(self) -> JobsSettings:
        return self.operator.warehouse.settings.jobs

    def _taken(self, job: Job) -> Job | None:
        try:
            return self.operator.jobs.claim(job, this_node())
        except Conflict:
            return None  # another runner's

    def _run(self, job: Job) -> Job:
        """Retries until the job ends or has used its attempts; a killed job is left as it is."""
        jobs = self.operator.jobs
        try:
            while job.retry_count <= self._settings.max_retries:
                job, ending = self._try(job)
                if not ending.transient or job.retry_count == self._settings.max_retries:
                    if ending.fault is not None:
                        self.faults[job.job_id] = ending.fault
                    return jobs.finish(job, ending.status, ending.message, ending.trace, ending.work)
                job = jobs.retry(job, ending.message)
                self.pause(self._settings.retry_backoff_ms / 1000 * 2 ** (job.retry_count - 1))
                job = jobs.claim(job, this_node())
            return jobs.finish(job, "failed", f"given up after {job.retry_count - 1} retries: its runner died")
        except (JobStopped, Conflict):
            return jobs.find(job.job_id)

    def _try(self, job: Job) -> tuple[Job, _Ending]:
        beat = Heartbeat(self.operator.jobs, job, self._settings.heartbeat_seconds)
        with beat:
            ending = self._work(job, replace(self.operator, engine=self.operator.engine.watched(beat.advance)))
        return beat.job, ending

    def _work(self, job: Job, operator: Operator) -> _Ending:
        """The one broad `except` of a runner: a job that fails through a bug must not stay `running` for ever."""
        try:
            with metered() as spent:
                reports = operator.run_job(job)
        except JobStopped:
            raise
        except Exception as error:  # noqa: BLE001  # kept with the job, as INTERNAL where it is not of our family
            fault = fault_of(error)
            trace = "".join(traceback.format_exception(error)) if fault.code == "INTERNAL" else None
            return _Ending("failed", f"{fault.code}: {fault.message}", fault, fault.transient, trace)
        status, message = outcome_of(reports)
        faults = [report.fault for report in reports if report.fault]
        work = operator.work_of(reports, spent)
        return _Ending(status, message, next(iter(faults), None), any(fault.transient for fault in faults), work=work)
