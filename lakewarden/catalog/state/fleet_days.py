"""What is kept of each table for a week: one small object a day, `fleet/<table id>/<day>`, with counts, times and no user.

A day has the newest look at the table, the worst of the day, and what jobs did until its end, each counted once: a job counts if
it ended after the last one that was counted, or within `CLOCKS_DIFFER` before it and is not among the `recent` ones. Who dies
between two objects leaves each right by itself; who replaces an older day by one that lacks a job leaves the newest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Annotated, TypeVar

import msgspec

from lakewarden.base.clock import CLOCKS_DIFFER, from_millis, is_ahead, to_millis
from lakewarden.catalog.state.job import Job, add
from lakewarden.errors import Corrupt
from lakewarden.storage.objects import Missing, ObjectStore

T = TypeVar("T")

ROOT = "fleet"

WEEK = 7
WEEK_LONG = timedelta(days=WEEK)
KEPT_DAYS = 30

Millis = Annotated[int, msgspec.Meta(ge=0, lt=to_millis(datetime(9999, 12, 31, tzinfo=UTC)))]
"""A moment in milliseconds that there can be: what is kept with another cannot be read."""


class TableLook(msgspec.Struct, frozen=True):
    """A table in numbers, at one moment. Sizes in bytes."""

    scopes: int = 0
    pending_scopes: int = 0
    pending_rows: int = 0
    pending_bytes: int = 0
    oldest_seconds: int = 0
    late_scopes: int = 0
    broken_scopes: int = 0
    failed_scopes: int = 0
    away_scopes: int = 0
    rows: int = 0
    files: int = 0
    bytes: int = 0
    dead_bytes: int = 0


class FleetDay(msgspec.Struct, frozen=True):
    """One day of one table. Times in milliseconds; `day` as `2026-11-27`, in UTC."""

    day: str
    looked_at: Millis = 0
    """0 where no schedule looked that day."""
    look: TableLook = TableLook()
    """The newest one."""
    worst: TableLook = TableLook()
    """The most of each number that a look of the day found."""
    ever: dict[str, dict[str, int]] = {}
    """What was done since the first day that was kept, by operation."""
    counted_to: Millis = 0
    """When the last job ended that is counted."""
    seen_to: Millis = 0
    """When the store was last written for a job that was looked at."""
    recent: dict[str, int] = {}
    """Those of the counted jobs that ended within `CLOCKS_DIFFER` before the last one or later, and when."""
    unread: dict[str, int] = {}
    """Jobs of the week before that cannot be read, whichever table they were of, and when the store was written for them."""

    def has(self, job: Job) -> bool:
        """Whether the job is counted, or too old to be."""
        ended = to_millis(job.finished_at) if job.finished_at else 0
        # Older than what `recent` remembers counts as counted: a backup's jobs, seen again, must not be added twice.
        return job.job_id in self.recent or ended <= self.counted_to - _LATE_MILLIS


_LATE_MILLIS = CLOCKS_DIFFER // timedelta(milliseconds=1)


class ScheduleStanding(msgspec.Struct, frozen=True):
    """Whether a schedule or sensor is on, and when it last did something. Times in milliseconds; 0 where it never did."""

    name: str
    kind: str
    """`schedule`, `sensor` or `maintain`."""
    every: str
    """A cron expression, or seconds as `30 s`."""
    on: bool
    last_at: Millis = 0
    last: str = ""
    """What came of it: `started a run`, `failed`."""

    @property
    def last_time(self) -> datetime | None:
        return from_millis(self.last_at) if self.last_at else None


class _Schedules(msgspec.Struct, frozen=True):
    at: Millis
    schedules: list[ScheduleStanding]


_SCHEDULES = f"{ROOT}/schedules/"


def keep_schedules(state: ObjectStore, of: str, schedules: Sequence[ScheduleStanding], now: datetime) -> None:
    """Replaces what was known of the schedules of one that runs them: `dagster`, or `maintain`."""
    state.put(f"{_SCHEDULES}{of}", msgspec.json.encode(_Schedules(to_millis(now), list(schedules))))


def standings_of(state: ObjectStore, of: str) -> list[ScheduleStanding]:
    """What is known of the schedules of one that runs them."""
    one = _read(state, f"{_SCHEDULES}{of}", _Schedules, set())
    return one.schedules if one else []  # as if none had run: each is due again


def _read(state: ObjectStore, key: str, kind: type[T], unread: set[str]) -> T | None:
    """What is kept under the key; None where it is gone, or cannot be read, which `unread` takes."""
    try:
        return msgspec.json.decode(state.get(key), type=kind)
    except Missing:
        pass  # it expired since the listing
    except (ValueError, Corrupt):
        unread.add(key)
    return None


class KeptFleet:
    """All that is kept of the fleet, as of one listing."""

    def __init__(self, state: ObjectStore) -> None:
        self._state = state
        self._keys: dict[str, list[str]] = {}
        for key in state.keys(ROOT):
            self._keys.setdefault(key.split("/")[1], []).append(key)
        self.unread: set[str] = set()
        """Keys of what was asked for and cannot be read: figures lack it."""

    def days(self, table_ids: Iterable[str], now: datetime) -> dict[str, list[FleetDay]]:
        """The days of these tables, oldest first: those of the week, and the newest before it. One that cannot be read, or is to
        come, is left out."""
        return {table_id: found for table_id in table_ids if (found := self._days(table_id, now))}

    def _days(self, table_id: str, now: datetime) -> list[FleetDay]:
        keys = self.keys_of(table_id)
        begin = bisect_left(keys, f"{ROOT}/{table_id}/{first_day(now)}")
        before = (one for key in reversed(keys[:begin]) if (one := self._day(key, now)))
        return [*islice(before, 1), *(one for key in keys[begin:] if (one := self._day(key, now)))]

    def _day(self, key: str, now: datetime) -> FleetDay | None:
        one = None if _is_to_come(key, now) else _read(self._state, key, FleetDay, self.unread)
        # What is counted ended before the store noted it; where its clock was ahead, too, all counts anew from the day before.
        if one is None or is_ahead(from_millis(one.seen_to), now):
            return None
        return msgspec.structs.replace(one, counted_to=min(one.counted_to, one.seen_to))

    def keys_of(self, table_id: str) -> list[str]:
        """Those of a table's days, oldest first."""
        return self._keys.get(table_id, [])

    def schedules(self) -> tuple[list[ScheduleStanding], datetime | None]:
        """The schedules of all that run them, and when the latest of these looked."""
        found = self._all("schedules", _Schedules)
        at = max((one.at for one in found), default=0)
        return [each for one in found for each in one.schedules], from_millis(at) if at else None

    def surveys(self) -> list[SurveySums]:
        """The sums of surveys, by place."""
        return sorted(self._all("surveys", SurveySums), key=lambda one: one.place)

    def _all(self, below: str, kind: type[T]) -> list[T]:
        return [one for key in self.keys_of(below) if (one := _read(self._state, key, kind, self.unread)) is not None]


def first_day(now: datetime) -> str:
    """That of the week which ends today."""
    return (now.astimezone(UTC) - timedelta(days=WEEK - 1)).date().isoformat()


def keep_day(state: ObjectStore, table_id: str, one: FleetDay) -> None:
    state.put(f"{ROOT}/{table_id}/{one.day}", msgspec.json.encode(one))


def expire_days(state: ObjectStore, table_id: str, days: Sequence[str], now: datetime) -> None:
    """Removes those of a table's days that are older than what the page shows, but the newest of them: a week's work is counted
    from the day before it. And those to come, whose sums would count on their day."""
    old = [key for key in days if key < f"{ROOT}/{table_id}/{(now.astimezone(UTC) - timedelta(days=KEPT_DAYS)).date()}"]
    state.delete([*old[:-1], *(key for key in days if _is_to_come(key, now))])


def _is_to_come(key: str, now: datetime) -> bool:
    return key.rpartition("/")[2] > (now + CLOCKS_DIFFER).astimezone(UTC).date().isoformat()


def looked(days: Sequence[FleetDay], look: TableLook, now: datetime) -> list[FleetDay]:
    """The days with a look of now."""
    before = _on(days, now.astimezone(UTC).date())
    worst = {name: max(getattr(before[-1].worst, name), getattr(look, name)) for name in look.__struct_fields__}
    return [*before[:-1], msgspec.structs.replace(before[-1], looked_at=to_millis(now), look=look, worst=TableLook(**worst))]


def counted(
    days: Sequence[FleetDay], table_id: str, jobs: Sequence[Job], seen_to: datetime | None, unread: Mapping[str, int]
) -> list[FleetDay]:
    """The days with what these jobs did to the table; those that are counted already change nothing."""
    found = list(days)
    before = found[-1] if found else FleetDay("")
    ended = [(min(job.finished_at, seen_to), job) for job in jobs if job.finished_at and seen_to and not before.has(job)]
    for at, job in sorted(ended, key=lambda one: one[0]):
        if (amounts := job.work.get(table_id)) is not None:
            found = _with(_on(found, at.astimezone(UTC).date()), job, at, amounts)
    if found and seen_to is not None:
        read = {job.job_id for job in jobs}
        since = to_millis(seen_to - WEEK_LONG)
        left = {job_id: at for job_id, at in {**found[-1].unread, **unread}.items() if at > since and job_id not in read}
        found[-1] = msgspec.structs.replace(found[-1], seen_to=max(found[-1].seen_to, to_millis(seen_to)), unread=left)
    return found


def _with(days: list[FleetDay], job: Job, ended: datetime, amounts: Mapping[str, int]) -> list[FleetDay]:
    """The newest day with one more job."""
    one = days[-1]
    counted_to = max(one.counted_to, to_millis(ended))
    recent = {**one.recent, job.job_id: to_millis(job.finished_at or ended)}
    total = dict(one.ever.get(job.job_type, {}))
    add(total, dict(amounts) | {"jobs": 1} | ({"retries": job.retry_count} if job.retry_count else {}))
    return [
        *days[:-1],
        msgspec.structs.replace(
            one,
            ever={**one.ever, job.job_type: total},
            counted_to=counted_to,
            # What falls out of it counts by `counted_to` from now on.
            recent={name: at for name, at in recent.items() if at > counted_to - _LATE_MILLIS},
        ),
    ]


def _on(days: Sequence[FleetDay], day: date) -> list[FleetDay]:
    """The days up to this one, which begins with what is counted until then; a day that is over takes no more."""
    # A job that ended yesterday may show today: it goes into the newest day, since an older one is not changed any more.
    if days and days[-1].day >= day.isoformat():
        return list(days)
    if not days:
        return [FleetDay(day.isoformat())]
    fresh = msgspec.structs.replace(days[-1], day=day.isoformat(), looked_at=0, look=TableLook(), worst=TableLook())
    return [*days, fresh]


def seen_until(days: Iterable[FleetDay], now: datetime) -> datetime:
    """From when on jobs have to be looked at."""
    seen = max((one.seen_to for one in days), default=0)
    return from_millis(seen) - CLOCKS_DIFFER if seen else now - WEEK_LONG


# The sums of the last look at each surveyed place: `fleet/surveys/<place>`. They stand beside what else the fleet's page reads,
# so that a warehouse without surveys lists nothing more for it. `place` is a keyed hash.
_SURVEYS = f"{ROOT}/surveys"


class WorstTable(msgspec.Struct, frozen=True):
    """One of the worst tables. Users in its path stand by keyed hash."""

    path: str
    damage: dict[str, int] = {}
    """How often each kind was found."""
    detail: str = ""
    """Of the first damage, or why the table could not be read."""


class SurveySums(msgspec.Struct, frozen=True):
    """A place as its last look found it. Sizes in bytes; tables whose figures are not known add nothing."""

    place: str
    """Its URI; users in it stand by keyed hash."""
    at: Millis
    tables: dict[str, int] = {}
    """By verdict."""
    damage: dict[str, int] = {}
    """Tables, by kind of damage."""
    files: int = 0
    bytes: int = 0
    small_files: int = 0
    dead_bytes: int = 0
    unnamed_files: int = 0
    worst: dict[str, list[WorstTable]] = {}
    """By verdict: the keys are no texts that an erasure searches."""
    place_id: str = ""
    """The beginning of the place's keyed hash: what metrics name it by."""

    @property
    def looked_at(self) -> datetime:
        return from_millis(self.at)

    @property
    def total(self) -> int:
        """How many tables there are."""
        return sum(self.tables.values())

    def count(self, verdict: str) -> int:
        return self.tables.get(verdict, 0)


def keep_survey_sums(state: ObjectStore, place: str, sums: SurveySums) -> str:
    """Replaces the sums of a place; returns their key."""
    key = f"{_SURVEYS}/{place}"
    state.put(key, msgspec.json.encode(sums))
    return key


def survey_sum_keys(state: ObjectStore) -> list[str]:
    return [found.key for found in state.list(_SURVEYS)]
