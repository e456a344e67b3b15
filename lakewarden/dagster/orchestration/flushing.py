"""Chooses the due scopes that the flush sensor submits now: in batches, without active and recently failed ones.

Keeps no state between ticks: Dagster's own runs show what was tried, the write log shows what is still pending.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

import msgspec

from lakewarden.base.quantities import grouped, portions
from lakewarden.base.scope import Scope, TableName, scopes_by_user
from lakewarden.errors import InvalidArgument
from lakewarden.maintenance.planning.pending import ScopeBacklog

SCOPES_PER_RUN = 1_000
"""A run over many scopes is one Spark job; starting a run costs some seconds, so few large ones are better."""

RUNS_PER_TICK = 4
"""The most runs of a tick. Dagster has no such limit, and submits a tick's runs one by one; the next tick continues."""

FIRST_WAIT = timedelta(minutes=1)
LONGEST_WAIT = timedelta(hours=1)
"""A scope that failed is tried again after a minute, then two, then four, … at most an hour after its last failure."""

LOOK_BACK = timedelta(days=1)
"""Failed runs that count as attempts: older ones no longer hold anything back."""


@dataclass(frozen=True)
class FlushRun:
    """What matters here of a run of flush_job. `ended` is None while it is queued or running."""

    scopes: frozenset[Scope]
    """Exactly these, if it named scopes."""
    tables: frozenset[TableName]
    """All scopes of these, if it named tables."""
    everything: bool
    """Whether it named neither: it flushes the whole warehouse."""
    seen_until: datetime
    """The run saw its scopes' rows up to this time of the log."""
    ended: datetime | None

    def covers(self, scope: Scope) -> bool:
        return self.everything or scope in self.scopes or scope.table in self.tables


@dataclass(frozen=True)
class FlushAttempt:
    """A due scope, how many runs failed to flush its oldest row, and when it may be tried again."""

    pending: ScopeBacklog
    attempts: int
    not_before: datetime | None


@dataclass(frozen=True)
class FlushBatch:
    """Scopes for one run. Its key encodes what they have pending and how often that was tried, so a repeat is not submitted."""

    pending: tuple[ScopeBacklog, ...]
    attempts: int

    @property
    def key(self) -> str:
        content = "\n".join(f"{one.scope}\t{one.rows}\t{one.bytes}\t{one.oldest.isoformat()}" for one in self.pending)
        return f"{hashlib.sha256(content.encode()).hexdigest()[:24]}-{self.attempts}"

    @property
    def seen_until(self) -> datetime:
        """The youngest of its scopes' oldest rows, by the clock of the log: no other clock shows what a run saw."""
        return max(one.oldest for one in self.pending)

    @property
    def users(self) -> dict[str, list[str]]:
        """The scopes as the config of flush_job."""
        users: dict[str, list[str]] = {}
        for one in self.pending:
            users.setdefault(str(one.table), []).extend([] if one.user is None else [one.user])
        return users


@dataclass(frozen=True)
class Choice:
    """What to submit, and how many due scopes are left out, by reason."""

    batches: tuple[FlushBatch, ...]
    under_way: int
    waiting: int
    later: int

    def __str__(self) -> str:
        left = {"under way": self.under_way, "waiting after a failure": self.waiting, "left for the next tick": self.later}
        return ", ".join(f"{count} {why}" for why, count in left.items() if count)


def choose(
    due: Sequence[ScopeBacklog],
    runs: Sequence[FlushRun],
    now: datetime,
    *,
    scopes_per_run: int = SCOPES_PER_RUN,
    runs_per_tick: int = RUNS_PER_TICK,
) -> Choice:
    """The batches of this tick, oldest rows first; scopes that failed before are in separate batches."""
    active = [run for run in runs if run.ended is None]
    failed = [run for run in runs if run.ended is not None]
    free = [one for one in due if not any(run.covers(one.scope) for run in active)]
    tried = [_attempted(one, failed) for one in free]
    ready = [one for one in tried if one.not_before is None or one.not_before <= now]
    batches = list(_batches(ready, scopes_per_run))
    taken = batches[:runs_per_tick]
    return Choice(
        tuple(taken),
        under_way=len(due) - len(free),
        waiting=len(free) - len(ready),
        later=len(ready) - sum(len(batch.pending) for batch in taken),
    )


def _attempted(pending: ScopeBacklog, failed: Iterable[FlushRun]) -> FlushAttempt:
    """Whether a failed run tried this scope's oldest row: the run covered the scope, and had seen the row."""
    ends = [run.ended for run in failed if run.ended and run.seen_until >= pending.oldest and run.covers(pending.scope)]
    if not ends:
        return FlushAttempt(pending, 0, None)
    return FlushAttempt(pending, len(ends), max(ends) + wait_after(len(ends)))


def wait_after(failures: int) -> timedelta:
    """How long after the last of so many failures the same is tried again."""
    wait: timedelta = FIRST_WAIT * 2 ** min(failures - 1, 16)
    return min(wait, LONGEST_WAIT)


def _batches(ready: Iterable[FlushAttempt], size: int) -> Iterator[FlushBatch]:
    """Groups scopes by their number of attempts, new ones first, so a bad scope does not affect a good batch's key."""
    for attempts, alike in sorted(grouped(ready, lambda one: one.attempts).items()):
        for some in portions(alike, lambda _: 1, size):
            yield FlushBatch(tuple(one.pending for one in some), attempts)


def flush_run(config: Mapping[str, object], seen_until: datetime, ended: datetime | None) -> FlushRun:
    """A run, read from the config of its op, which a user may have typed: invalid names cover nothing."""
    scopes, tables = config.get("scopes") or {}, config.get("tables") or []
    return FlushRun(
        scopes=frozenset(_scopes(scopes)) if isinstance(scopes, Mapping) else frozenset(),
        tables=frozenset(_named(tables)) if isinstance(tables, list) else frozenset(),
        everything=not scopes and not tables,
        seen_until=seen_until,
        ended=ended,
    )


def _scopes(users: Mapping[str, Sequence[str]]) -> Iterator[Scope]:
    for table in _named(users):
        yield from scopes_by_user(table, users[str(table)])


def _named(names: Iterable[object]) -> Iterator[TableName]:
    for name in names:
        try:
            yield TableName.parse(str(name))
        except InvalidArgument:
            continue


# How often the flush sensor looks and requests: at once where little goes on, and no more than before where much does.
#
# A row that is due should not wait for the next tick, so ticks are short apart. But the start of a run costs seconds of the
# processor, and so does adding up a long log.

APART = timedelta(seconds=15)
"""Between two requests of runs: what becomes due meanwhile shares one."""

_SHORT = timedelta(seconds=1)
_RESTS = 3
"""A look that takes longer than a second is followed by a rest of so many times as long."""


class SensorCursor(msgspec.Struct, frozen=True):
    """What a sensor keeps between its ticks, as JSON."""

    @classmethod
    def read(cls, text: str | None) -> Self:
        """One that cannot be read, as of another release, begins anew: that costs one look."""
        try:
            return msgspec.json.decode(text or "{}", type=cls)
        except msgspec.DecodeError:
            return cls()

    @property
    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class Pace(SensorCursor, frozen=True):
    """The cursor of the flush sensor."""

    requested: datetime | None = None
    """When it last requested runs for all that was due."""
    rests_until: datetime | None = None

    def rests(self, now: datetime) -> bool:
        return self.rests_until is not None and now < self.rests_until

    def gathers(self, now: datetime) -> bool:
        """Whether what is due waits for what becomes due within the next seconds."""
        return self.requested is not None and self.requested <= now < self.requested + APART

    def with_request(self, now: datetime) -> Pace:
        return msgspec.structs.replace(self, requested=now)

    def looked(self, began: datetime, ended: datetime) -> Pace:
        """Behind a look."""
        took = ended - began
        return msgspec.structs.replace(self, rests_until=ended + _RESTS * took if took > _SHORT else None)
