"""The job log: requested operations and their outcomes. Append-only: a job's next state is a new object, created if absent.

Keys begin with the inverted moment of the request, so that a listing shows the newest first, and reading the last fifty
jobs costs fifty reads however many there are. A process that creates a state has read the one before it: a runner whose job was
killed, or taken over because it seemed dead, finds the next state taken at its next heartbeat, and stops.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

import msgspec

from lakewarden.base.attempts import Attempts
from lakewarden.base.clock import Clock, NewId, is_ahead
from lakewarden.catalog.operations import QUEUEABLE, Operation
from lakewarden.catalog.state.erasures import Erasures
from lakewarden.catalog.state.job import (
    NO_WORK,
    Job,
    JobStatus,
    WorkByTable,
    decode,
    has_ended,
    idempotency_key,
    named_in,
    new_job_id,
    unread_job,
    without_user,
)
from lakewarden.catalog.state.records import backwards, changed, content, first_of, newest, rewrite, rewrite_all
from lakewarden.errors import Conflict, Corrupt, InUse, InvalidArgument, NotFound, Unsupported
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore, StoredObject
from lakewarden.storage.sums import kept_as

# Allows at most one active job per idempotency key: the process that creates the key's next claim may enqueue its job.
#
# `active-jobs/<digest of the key>/<n>` names the n-th job that claimed the key. A claim is valid as long as its job is active.
# A paused process can create a pruned number again, so a claim counts only if there is no newer one.

_CLAIMS = "active-jobs"
_KEPT_CLAIMS = 2
_GRACE = timedelta(seconds=60)
"""How long a claim counts whose job does not exist yet: its process is about to create the job, or died."""


class AlreadyActive(InUse):
    """The same was requested before, and is not finished."""

    def __init__(self, key: str, job_id: str) -> None:
        super().__init__(f"already queued or running: job {job_id} has the same idempotency key {key!r}")
        self.job_id = job_id


@dataclass(frozen=True)
class _Claim:
    """By a job; not of the key, which may name a user."""

    job_id: str
    at: datetime


def claim_key(store: ObjectStore, key: str, job_id: str, now: datetime, is_active: Callable[[str], bool | None]) -> None:
    """Claims the key for a job that will be created.

    Args:
        is_active: whether a job is unfinished; None when the job does not exist.

    Raises:
        AlreadyActive: another job has the key.
    """
    prefix = f"{_CLAIMS}/{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    number, last = _newest(store, prefix)
    if last is not None and _holds(last, now, is_active):
        raise AlreadyActive(key, last.job_id)
    with suppress(AlreadyThere):  # by another process, or by a retry of this request: the newest claim decides
        store.create(f"{prefix}/{number + 1:012d}", msgspec.json.encode(_Claim(job_id, now)))
    # By a listing behind the creation: a number that was pruned may be free again, and then this claim is not the newest.
    _, won = _newest(store, prefix)
    if won is None or won.job_id != job_id:
        raise AlreadyActive(key, "of another caller" if won is None else won.job_id)
    store.delete([stored.key for stored in store.list(prefix)][:-_KEPT_CLAIMS])


def _newest(store: ObjectStore, prefix: str) -> tuple[int, _Claim | None]:
    """The newest claim, and its number; 0 where there is none."""
    while keys := store.keys(prefix):
        with suppress(Missing):  # pruned since the listing, so there are newer ones
            claim = kept_as(_Claim, store.get(keys[-1]), f"{keys[-1]} can't be read as a claim of a job")
            return int(keys[-1].rpartition("/")[2]), claim
    return 0, None


def _holds(claim: _Claim, now: datetime, is_active: Callable[[str], bool | None]) -> bool:
    active = is_active(claim.job_id)
    # The claim comes before the job; a process that died in between holds the key for a minute only.
    return now - claim.at < _GRACE and not is_ahead(claim.at, now) if active is None else active


_ROOT = "jobs"
_OVER = "over"
"""An object beside the states of a finished job: a runner that looks for work need not read those. It is empty, or the only
state of a job that was recorded when it had finished."""
_KEPT = 2
"""How many states of a job are kept: older ones are never read."""


@dataclass(frozen=True)
class JobLog:
    """The jobs of one warehouse."""

    store: ObjectStore
    clock: Clock
    new_id: NewId
    lease: timedelta = timedelta(seconds=60)
    """How long a runner may be silent before its job counts as abandoned."""

    def enqueue(self, operation: Operation, parameters: dict[str, str], request_id: str | None = None) -> Job:
        """Queues a job for a runner.

        Raises:
            InvalidArgument: the operation needs a person (vacuum, restore), or does not exist.
            AlreadyActive: the same operation on the same tables is not finished. A job whose runner died is ended first.
        """
        if operation not in QUEUEABLE:
            raise InvalidArgument(f"{operation!r} can't be queued; {', '.join(QUEUEABLE)} can")
        now = self.clock()
        job_id = new_job_id(operation, self.clock, self.new_id)
        key = idempotency_key(operation, parameters)
        # First the key, then the job: of two requests at the same time, one finds the other's claim.
        claim_key(self.store, key, job_id, now, self._holds)
        job = Job(job_id, operation, "queued", now, parameters, idempotency_key=key, updated_at=now, request_id=request_id)
        return self._keep(job)

    def keep(
        self,
        operation: Operation,
        job_id: str,
        started_at: datetime,
        parameters: dict[str, str],
        status: JobStatus,
        message: str,
        work: WorkByTable = NO_WORK,
    ) -> Job:
        """Records a job that was run without queueing, when it has finished."""
        now = self.clock()
        did = {table: dict(amounts) for table, amounts in work.items()}
        job = Job(job_id, operation, status, started_at, parameters, message, started_at, now, updated_at=now, work=did)
        # The mark of the end is the job's only state: a job that was not queued costs one request
        # (docs/decisions/0038-what-a-flush-job-requests.md).
        self._create(f"{_home(job)}/{_OVER}", job)
        return self._without_erased(job)

    def claim(self, job: Job, node_id: str) -> Job:
        """Claims a waiting job, or one whose runner seems dead, for a process.

        Raises:
            Conflict: another process was faster.
        """
        now = self.clock()
        # A job that is running already was taken from a runner that seemed dead, which counts as a retry.
        again = job.status == "running"
        return self._keep(
            replace(
                job,
                status="running",
                node_id=node_id,
                started_at=job.started_at or now,
                updated_at=now,
                retry_count=job.retry_count + again,
                step=job.step + 1,
            )
        )

    def beat(self, job: Job, message: str) -> Job:
        """Reports that the job's runner is alive, and its progress.

        Raises:
            Conflict: the job was killed, or taken over.
        """
        return self._keep(replace(job, message=message, updated_at=self.clock(), step=job.step + 1))

    def retry(self, job: Job, message: str) -> Job:
        """Records that the job failed and will be retried. Raises as `beat`."""
        changed = replace(job, status="retrying", message=message, retry_count=job.retry_count + 1)
        return self._keep(replace(changed, updated_at=self.clock(), step=job.step + 1))

    def finish(self, job: Job, status: JobStatus, message: str, trace: str | None = None, work: WorkByTable = NO_WORK) -> Job:
        """Records how the job ended. Raises as `beat`."""
        now = self.clock()
        did = {table: dict(amounts) for table, amounts in work.items()}
        ended = replace(job, status=status, message=message, finished_at=now, updated_at=now, exception_trace=trace, work=did)
        return self._over(replace(ended, step=job.step + 1))

    def kill(self, job_id: str) -> Job:
        """Cancels an unfinished job. A running job stops before its next scope.

        Raises:
            NotFound: no such job.
            Unsupported: the job has finished.
            Conflict: its runner changed it again and again meanwhile.
        """
        attempts = Attempts(40, f"job {job_id} changed", "during the cancellation")
        while attempts.next():
            job = self.find(job_id)
            if not job.active:
                raise Unsupported(f"job {job_id} is {job.status}: only an unfinished job can be cancelled")
            said = (
                "cancelled before it started"
                if job.status in ("new", "queued")
                else f"cancelled after {job.message or 'its start'}"
            )
            try:
                return self.finish(job, "cancelled", said)
            except Conflict:
                continue

    def find(self, job_id: str) -> Job:
        """Returns the job's newest state.

        Raises:
            NotFound: no such job.
        """
        if (last := self._listed()[0].get(job_id)) is None:
            raise NotFound(f"there is no job {job_id!r}")
        return self._read(job_id, last)

    def newest(self, limit: int | None = None) -> list[Job]:
        """Returns the newest states of the last jobs, newest job first; of one that cannot be read, that it failed, and why."""
        return [self._told(job_id, last) for job_id, last in list(self._listed()[0].items())[:limit]]

    def runnable(self) -> list[Job]:
        """Returns the jobs that wait for a runner, oldest first, and those whose runner died."""
        open_ = [*self._open()]
        for job in open_:
            if not job.active:  # its runner died before it could mark it as finished
                self.store.put(f"{_home(job)}/{_OVER}", b"")
        return [job for job in open_ if job.active and (job.status == "queued" or self._is_left(job))]

    def since(self, moment: datetime) -> Iterator[tuple[str, datetime, Callable[[], Job]]]:
        """Of the jobs that have not ended, and of those for which the store was written since then, the id, when it last was, and
        its reader. From one listing."""
        states, over = self._listed()
        for job_id, last in states.items():
            if job_id not in over or last.modified >= moment:
                yield job_id, last.modified, partial(self._read, job_id, last)

    def running(self) -> list[Job]:
        """Returns the jobs whose runner is alive, as far as is known, oldest first."""
        return [job for job in self._open() if job.status in ("running", "retrying") and not self._is_left(job)]

    def expire(self, before: datetime) -> int:
        """Removes finished jobs that were requested earlier, and returns how many."""
        old = [found.key for found in self.store.list(_ROOT) if found.key > f"{_ROOT}/{backwards(before)}"]
        over = {key.rsplit("/", 1)[0] for key in old if key.endswith(f"/{_OVER}")}
        # Unfinished jobs stay, however old: their state is what a runner goes on from.
        self.store.delete([key for key in old if key.rsplit("/", 1)[0] in over])
        return len(over)

    def _open(self) -> Iterator[Job]:
        """The jobs that have not ended, oldest first. One that cannot be read keeps no other from its runner: `newest` has it."""
        states, over = self._listed()
        for job_id, last in reversed(states.items()):
            if job_id not in over:
                with suppress(Corrupt):
                    yield self._read(job_id, last)

    def _told(self, job_id: str, last: StoredObject) -> Job:
        try:
            return self._read(job_id, last)
        except Corrupt as error:
            return unread_job(job_id, error)

    def _read(self, job_id: str, last: StoredObject) -> Job:
        if not last.size:
            raise Corrupt(f"the job {last.key} can't be read: nothing is left of its state")
        data = content(self.store, last.key)
        return self.find(job_id) if data is None else decode(last.key, data)  # the first where there is a newer state

    def _holds(self, job_id: str) -> bool | None:
        """Returns whether a job keeps its idempotency key; None when it does not exist. Ends the job if its runner died."""
        states, over = self._listed()
        last = states.get(job_id)
        if job_id in over or last is None or not last.size:
            return False if job_id in over else None
        job = self._read(job_id, last)
        if not (job.active and self._is_left(job)):
            return job.active
        try:
            self.finish(job, "failed", f"its runner {job.node_id} died, and the same was requested again")
        except Conflict:
            return True  # its runner is alive, or it was taken over
        return False

    def _is_left(self, job: Job) -> bool:
        """Returns whether a job was started, and its runner has ended or has been silent for the lease."""
        if job.status not in ("running", "retrying"):
            return False
        now, last = self.clock(), job.updated_at or job.created_at
        if is_ahead(last, now):  # by its runner's clock, which is wrong: the store's says when it last wrote
            last = max((state.modified for state in self.store.list(_home(job))), default=now)
        return now - last >= self.lease or has_ended(job.node_id)

    def _listed(self) -> tuple[dict[str, StoredObject], set[str]]:
        """Returns the last state by job, newest first, and the finished jobs. Of one whose states were emptied, an empty one."""
        listing = self.store.list(_ROOT)
        over = {_job_of(entry.key) for entry in listing if entry.key.endswith(f"/{_OVER}")}
        found = {_job_of(entry.key): entry for entry in listing if first_of(entry.key) == entry.key}
        return found | {_job_of(entry.key): entry for entry in newest(listing)}, over  # listed in order, so the last state stays

    def hide_user(self, user: str, mark: str, found: Callable[[int], None]) -> None:
        """Replaces a user's id by the keyed hash wherever a job names it.

        Calls `found` with the number of such states before changing the first.
        """
        rewrite_all(self.store, _ROOT, partial(changed, decode, partial(without_user, user=user, mark=mark)), found)

    def _over(self, job: Job) -> Job:
        kept = self._keep(job)
        self.store.put(f"{_home(job)}/{_OVER}", b"")  # last: alone it would hide a job that was never finished from every runner
        return self._without_erased(kept)

    def _without_erased(self, kept: Job) -> Job:
        """Removes users from a stored last state who were erased meanwhile by an erasure that did not see it."""
        erasures = Erasures(self.store)
        for user in named_in(kept):
            mark = erasures.mark(user)
            if erasures.is_erased_since(mark, partial(self._began, kept)):
                kept = without_user(kept, user, mark)
                for state in newest(self.store.list(_home(kept))):
                    hidden = partial(changed, decode, partial(without_user, user=user, mark=mark))
                    rewrite(self.store, state.key, partial(hidden, state.key))
        return kept

    def _began(self, ended: Job) -> datetime:
        """By the store's clock; of the two moments of a queued job, by two clocks, the earlier: it may know the name so long."""
        written = max((state.modified for state in self.store.list(_home(ended))), default=ended.created_at)
        return written - (self.clock() - min(ended.created_at, ended.started_at or ended.created_at))

    def _keep(self, job: Job) -> Job:
        self._create(_key(job), job)
        if job.step >= _KEPT:
            self._prune(job)
        return job

    def _create(self, key: str, job: Job) -> None:
        data = msgspec.json.encode(job)
        try:
            self.store.create(key, data)
        except AlreadyThere as error:
            if content(self.store, key) != data:  # else it is this put, retried by the store's client
                raise _lost(job) from error

    def _prune(self, job: Job) -> None:
        """Removes older states, unless this is a pruned state that was created again."""
        keys = [stored.key for stored in self.store.list(_home(job))]
        states = sorted({*map(first_of, keys)})
        # A later state exists: this one took a number that had been pruned, and its process has lost the job.
        if not states or states[-1] != _key(job):
            raise _lost(job)
        self.store.delete([key for key in keys if first_of(key) in states[:-_KEPT]])


def _job_of(key: str) -> str:
    return key.split("/")[1].split("-", 1)[1]


def _lost(job: Job) -> Conflict:
    return Conflict(f"job {job.job_id} was changed by another process meanwhile: it was claimed, killed, or taken over")


def _home(job: Job) -> str:
    return f"{_ROOT}/{backwards(job.created_at)}-{job.job_id}"


def _key(job: Job) -> str:
    return f"{_home(job)}/{job.step:06d}"
