"""The job log: what was asked for and what came of it. Append-only: a job's next state is a new object, made conditionally.

Keys begin with the inverted moment of the request, so that a listing shows the newest first, and reading the last fifty
jobs costs fifty reads however many there were.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Literal, get_args

from lakewarden.clock import Clock, NewId, to_millis
from lakewarden.errors import Conflict, Corrupt, InvalidArgument, NotFound, Unsupported
from lakewarden.operations.job import new_job_id
from lakewarden.report import Operation, ScopeReport
from lakewarden.storage.objects import AlreadyThere, ObjectStore

JobStatus = Literal["queued", "running", "completed", "failed", "cancelled", "skipped"]
Queueable = Literal["flush", "compact", "optimize"]

_ROOT = "jobs"
_MOMENTS = ("created_at", "started_at", "finished_at")
_LAST_MILLIS = 10**14
"""Milliseconds from which a moment is counted backwards: the year 5138."""


@dataclass(frozen=True)
class Job:
    """One requested operation over one or more scopes. `parameters` are what was asked for, as text."""

    job_id: str
    job_type: Operation
    status: JobStatus
    created_at: datetime
    parameters: dict[str, str] = field(default_factory=dict)
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    step: int = 0
    """How many states it had before this one."""


@dataclass(frozen=True)
class JobLog:
    """The jobs of one warehouse."""

    store: ObjectStore
    clock: Clock
    new_id: NewId

    def enqueue(self, operation: Queueable, parameters: dict[str, str]) -> Job:
        """Asks for a job that somebody else runs.

        Raises:
            InvalidArgument: an operation that wants a person (vacuum, restore), or none at all.
        """
        if operation not in get_args(Queueable):
            raise InvalidArgument(f"{operation!r} can't be queued; {', '.join(get_args(Queueable))} can")
        now = self.clock()
        return self._keep(Job(new_job_id(operation, self.clock, self.new_id), operation, "queued", now, parameters))

    def record(
        self, operation: Operation, job_id: str, started_at: datetime, parameters: dict[str, str], reports: Sequence[ScopeReport]
    ) -> Job:
        """Notes a job that was run at once, when it is over."""
        return self.keep(operation, job_id, started_at, parameters, *outcome_of(reports))

    def keep(
        self, operation: Operation, job_id: str, started_at: datetime, parameters: dict[str, str], status: JobStatus, message: str
    ) -> Job:
        """The same, in words of the caller's own."""
        return self._keep(Job(job_id, operation, status, started_at, parameters, message, started_at, self.clock()))

    def claim(self, job: Job) -> Job:
        """Takes a queued job for this process.

        Raises:
            Conflict: somebody else was faster.
        """
        return self._keep(replace(job, status="running", started_at=self.clock(), step=job.step + 1))

    def finish(self, job: Job, status: JobStatus, message: str) -> Job:
        return self._keep(replace(job, status=status, message=message, finished_at=self.clock(), step=job.step + 1))

    def kill(self, job_id: str) -> Job:
        """Cancels a job that has not begun.

        Raises:
            NotFound: no such job.
            Unsupported: it runs, or is over.
        """
        job = next((job for job in self.newest() if job.job_id == job_id), None)
        if job is None:
            raise NotFound(f"there is no job {job_id!r}")
        if job.status != "queued":
            raise Unsupported(f"job {job_id} is {job.status}: only one that is queued can be cancelled")
        return self.finish(job, "cancelled", "cancelled before it began")

    def newest(self, limit: int | None = None) -> list[Job]:
        """The last jobs as they stand now, newest first."""
        keys: dict[str, str] = {}
        for entry in self.store.list(_ROOT):
            keys[entry.key.rsplit("/", 1)[0]] = entry.key  # listed in order, so the last state stays
        return [_decode(key, self.store.get(key)) for key in sorted(keys.values())[:limit]]

    def hide_user(self, user: str, mark: str) -> int:
        """Puts the keyed hash in place of a user's id wherever a job names it; in how many states one did."""
        hidden = 0
        for entry in self.store.list(_ROOT):
            job = _decode(entry.key, self.store.get(entry.key))
            if (other := _without(job, user, mark)) != job:
                self.store.put(entry.key, _encode(other))
                hidden += 1
        return hidden

    def _keep(self, job: Job) -> Job:
        try:
            self.store.create(_key(job), _encode(job))
        except AlreadyThere as error:
            raise Conflict(f"job {job.job_id} was taken by somebody else meanwhile") from error
        return job


def outcome_of(reports: Sequence[ScopeReport]) -> tuple[JobStatus, str]:
    """A job's status, and its reports in one line."""
    counts = Counter(report.outcome for report in reports)
    message = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "nothing to do"
    first = next((report for report in reports if report.fault), None)
    if first is not None:
        return "failed", f"{message}; {first.scope}: {first.reason}"
    return ("completed" if counts["done"] else "skipped"), message


def _key(job: Job) -> str:
    return f"{_ROOT}/{_LAST_MILLIS - to_millis(job.created_at):014d}-{job.job_id}/{job.step:04d}"


def _without(job: Job, user: str, mark: str) -> Job:
    parameters = {name: mark if name == "user" and value == user else value for name, value in job.parameters.items()}
    return replace(job, parameters=parameters, message=job.message.replace(f"[{user}]", f"[{mark}]"))


def _encode(job: Job) -> bytes:
    content = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(job).items()}
    return json.dumps(content, ensure_ascii=False).encode()


def _decode(key: str, text: bytes) -> Job:
    try:
        content = json.loads(text)
        moments = {name: content[name] and datetime.fromisoformat(content[name]) for name in _MOMENTS}
        return Job(**{**content, **moments})
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"the job {key} can't be read: {text[:80]!r}") from error
