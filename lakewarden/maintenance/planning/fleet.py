"""The fleet as a value: each figure once, for the page, for JSON and for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from lakewarden.base.quantities import number_of
from lakewarden.base.setting_sections import PricesSettings
from lakewarden.catalog.state.fleet_days import FleetDay, ScheduleStanding, SurveySums, TableLook
from lakewarden.catalog.state.floor_summaries import RewriteSum
from lakewarden.catalog.state.job import add
from lakewarden.maintenance.planning.health import TableHealth
from lakewarden.storage.meter import GB, READS, WRITES, dollars

_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class PlannedWork(RewriteSum):
    """What an operation would do now in a table, by the newest notes. Sizes in bytes."""

    operation: str
    dollars: float


@dataclass(frozen=True)
class WeekWork:
    """What an operation did in the last week."""

    operation: str
    amounts: Mapping[str, int]
    dollars: float

    def __getitem__(self, name: str) -> int:
        return self.amounts.get(name, 0)

    @property
    def requests(self) -> int:
        return sum(self[kind] for kind in (*READS, *WRITES, "DELETE"))


@dataclass(frozen=True)
class StorageDebt:
    """Bytes that a vacuum would free. Times are days: what is replaced within one counts as at its end."""

    bytes: int
    free_now: int
    """Of them those past the retention."""
    next_on: date | None
    """When the next of the others are; None where none is known."""
    dollars: float
    """Of a month that they are stored."""
    unknown: int
    """Scopes of which they are not known."""


@dataclass(frozen=True)
class FleetTable:
    """One table, as of now."""

    table_id: str
    health: TableHealth
    days: tuple[FleetDay, ...]
    """Of the last week, oldest first: today, and before it those with a look or with work."""
    before: Mapping[str, Mapping[str, int]]
    """What was done until the week began, as `FleetDay.ever`."""
    retention_hours: int
    on_disk: bool
    """Where requests and bytes cost nothing."""
    prices: PricesSettings
    now: datetime

    @property
    def name(self) -> str:
        return str(self.health.table)

    @property
    def rank(self) -> tuple[int, int, int, int, float, int]:
        """The worst first: what is wrong, in four numbers, then what waits and what there is."""
        found = self.health
        wrong = found.broken_scopes + self.is_unread
        waits = found.status.oldest_pending_age or 0.0
        return -found.away_scopes, -wrong, -found.failed_scopes, -found.late_scopes, -waits, -found.status.files

    @property
    def is_unread(self) -> bool:
        """Whether its log, or what the state knows of it, cannot be read."""
        return self.health.status.error is not None

    @property
    def look(self) -> TableLook:
        return look_of(self.health)

    @property
    def planned(self) -> tuple[PlannedWork, ...]:
        """What compact and optimize would do now, each by itself."""
        totals = self.health.status.totals
        return tuple(self._planned(name, found) for name, found in (("compact", totals.compact), ("optimize", totals.optimize)))

    def _planned(self, operation: str, found: RewriteSum) -> PlannedWork:
        requests = {"GET": found.files + found.scopes, "CREATE": found.made + found.scopes}
        cost = self.dollars(requests | {"bytes_in": found.bytes})
        return PlannedWork(**vars(found), operation=operation, dollars=cost)

    @property
    def week(self) -> tuple[WeekWork, ...]:
        """What each operation did in the last week."""
        fresh = {operation: _added(self.before.get(operation, {}), amounts) for operation, amounts in self.days[-1].ever.items()}
        return self._worked({operation: amounts for operation, amounts in fresh.items() if amounts})

    @property
    def ever(self) -> tuple[WeekWork, ...]:
        """The same since the first day that is kept: it only grows."""
        return self._worked(self.days[-1].ever)

    def _worked(self, done: Mapping[str, Mapping[str, int]]) -> tuple[WeekWork, ...]:
        return tuple(WeekWork(operation, amounts, self.dollars(amounts)) for operation, amounts in sorted(done.items()))

    @property
    def debt(self) -> StorageDebt:
        totals = self.health.status.totals
        kept_days = 1 + -(-self.retention_hours // 24)
        due = {day: _EPOCH + timedelta(days=day + kept_days) for day in totals.dead_since}
        today = self.now.astimezone(UTC).date()
        free = sum(totals.dead_since[day] for day, on in due.items() if on <= today)
        later = [on for on in due.values() if on > today]
        month = 0.0 if self.on_disk else totals.dead_bytes / GB * self.prices.gb_month
        return StorageDebt(totals.dead_bytes, free, min(later, default=None), month, totals.dead_unknown)

    def dollars(self, amounts: Mapping[str, int]) -> float:
        """Of these requests and bytes."""
        return 0.0 if self.on_disk else dollars(amounts, self.prices)


def _added(before: Mapping[str, int], amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: more for name, amount in amounts.items() if (more := amount - before.get(name, 0))}


@dataclass(frozen=True)
class Fleet:
    """All tables of a warehouse, the worst first."""

    warehouse: str
    at: datetime
    tables: tuple[FleetTable, ...]
    schedules: tuple[ScheduleStanding, ...]
    schedules_at: datetime | None
    """When it was last looked which are on; None where none was found."""
    prices: PricesSettings
    surveys: tuple[SurveySums, ...] = ()
    """Of tables that others wrote, by place: what the last survey of each found, where that is kept."""
    jobs_unread: int = 0
    """Jobs of the week that are not counted, as they cannot be read."""
    notes_unread: tuple[str, ...] = ()
    """Keys of days, schedules and surveys that are kept and cannot be read."""

    def total(self, name: str) -> int:
        """The sum of a figure of `TableLook` over all tables."""
        return sum(getattr(one.look, name) for one in self.tables)

    @property
    def figures(self) -> dict[str, int]:
        """The sums of all figures that can be added up."""
        return {name: self.total(name) for name in TableLook.__struct_fields__ if name != "oldest_seconds"}

    @property
    def verdict(self) -> str:
        """In one line."""
        kinds = {
            "away": self.total("away_scopes"),
            "broken": self.total("broken_scopes"),
            "with a failed check": self.total("failed_scopes"),
            "late": self.total("late_scopes"),
            "not looked at": self.unseen,
        }
        parts = [f"{count:,} {what}" for what, count in kinds.items() if count]
        parts += [f"{number_of(count, what)} that cannot be read" for what, count in self.unread.items() if count]
        said = f"{', '.join(parts)}; all else well" if parts else "all well"
        return f"{number_of(self.total('scopes'), 'scope')}: {said}"

    @property
    def unread(self) -> dict[str, int]:
        """What cannot be read, by kind: tables, jobs of the week, and what is kept of days, schedules and surveys."""
        return {"table": sum(one.is_unread for one in self.tables), "job": self.jobs_unread, "kept note": len(self.notes_unread)}

    @property
    def is_well(self) -> bool:
        return not (self.unseen or any(self.unread.values()) or any(any(one.rank[:4]) for one in self.tables))

    def grouped(self, name: str) -> tuple[int, ...]:
        """A histogram of `Totals` over all tables."""
        each = [getattr(one.health.status.totals, name) for one in self.tables]
        return tuple(map(sum, zip(*each, strict=True))) if each else ()

    @property
    def unseen(self) -> int:
        """Scopes of which rows, files and bytes are not known."""
        return sum(one.health.status.scopes_unknown for one in self.tables)

    @property
    def week(self) -> tuple[WeekWork, ...]:
        return _together(one.week for one in self.tables)

    @property
    def planned(self) -> tuple[PlannedWork, ...]:
        found = {
            name: [each for one in self.tables for each in one.planned if each.operation == name]
            for name in ("compact", "optimize")
        }
        return tuple(
            PlannedWork(**vars(RewriteSum.of_all(each)), operation=name, dollars=sum(one.dollars for one in each))
            for name, each in found.items()
        )

    @property
    def debt(self) -> StorageDebt:
        found = [one.debt for one in self.tables]
        later = [one.next_on for one in found if one.next_on is not None]
        return StorageDebt(
            sum(one.bytes for one in found),
            sum(one.free_now for one in found),
            min(later, default=None),
            sum(one.dollars for one in found),
            sum(one.unknown for one in found),
        )


def _together(weeks: Iterable[Sequence[WeekWork]]) -> tuple[WeekWork, ...]:
    amounts: dict[str, dict[str, int]] = {}
    dollars: dict[str, float] = {}
    for one in (each for week in weeks for each in week):
        add(amounts.setdefault(one.operation, {}), one.amounts)
        dollars[one.operation] = dollars.get(one.operation, 0.0) + one.dollars
    return tuple(WeekWork(name, amounts[name], dollars[name]) for name in sorted(amounts))


def look_of(found: TableHealth) -> TableLook:
    """A table in the numbers that are kept of it."""
    status = found.status
    return TableLook(
        scopes=status.scopes,
        pending_scopes=status.scopes_pending,
        pending_rows=status.pending_rows,
        pending_bytes=status.pending_bytes,
        oldest_seconds=int(status.oldest_pending_age or 0),
        late_scopes=found.late_scopes,
        broken_scopes=found.broken_scopes,
        failed_scopes=found.failed_scopes,
        away_scopes=found.away_scopes,
        rows=status.rows,
        files=status.files,
        bytes=status.bytes,
        dead_bytes=status.totals.dead_bytes,
    )
