"""What maintenance writes again under the rule with a ratio, and under Storage Tiers' rule.

Equal traffic on the real product: each scope is flushed some hundred times with a few rows, and compacted behind each flush.
Unequal traffic, simulated over the product's own functions, and some of it on real scopes: flushes of Pareto's sizes, or of
1 to 5 rows and one in twenty of 1,000; a third of them replace rows of late; columns are added in between. Beside bytes and
files of a read are requests and dollars: a rule that saved bytes by more work, or by more files, would show there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import data
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from lakewarden import Column
from lakewarden.catalog.evolution import AddColumn
from lakewarden.catalog.kept_settings import TailRule
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.delta.parquet.files import DataFile
from lakewarden.tables.upkeep_files import fitting, pack_files, small_run, why_not

_ROWS = 20
"""Of each flush of equal traffic."""
_HEAD, _ROW = 2_500, 45
"""Bytes of a file and of each of its rows, as those of the real scopes are."""
_TARGET, _GAIN = 128 << 20, 0.25
_PUT, _GET = 5e-6, 0.4e-6
"""S3's list prices in dollars (us-east-1, standard storage)."""
_LATE = 60
"""How many rows back a replaced row is, on average."""


@dataclass(frozen=True)
class Policy:
    """When what is done: every so many half hours. `ratio` is that of packings; the rule has its own."""

    rule: TailRule
    every: int
    ratio: float


OLD, NEW = TailRule(), TailRule(ratio=3.0)
HOURLY, NIGHTLY = 2, 48
POLICIES: Mapping[str, Policy] = {
    "no ratio, hourly": Policy(OLD, HOURLY, 0.0),
    "ratio 3, hourly": Policy(NEW, HOURLY, 3.0),
    "no ratio, half-hourly": Policy(OLD, 1, 0.0),
    "no ratio, nightly": Policy(OLD, NIGHTLY, 0.0),
    **{
        f"no ratio, {files} files, {name}": Policy(TailRule(files, max(files, 8)), every, 0.0)
        for files in (6, 8, 12)
        for name, every in (("hourly", HOURLY), ("half-hourly", 1), ("nightly", NIGHTLY))
    },
    "ratio 3 for compactions alone, hourly": Policy(NEW, HOURLY, 0.0),
}
"""Each with a nightly optimize. The first is what schedules did."""


@dataclass(frozen=True)
class Arrival:
    """A flush of this many rows. `back`: how far behind the newest row those are that it replaces; None where all are new."""

    rows: int
    back: int | None


@dataclass
class Cost:
    """What maintenance wrote, what everything requested, and what reads opened, weighted by each scope's traffic."""

    written: int = 0
    rows: int = 0
    again: int = 0
    puts: int = 0
    gets: float = 0.0
    opened: float = 0.0
    reads: float = 0.0

    @property
    def files(self) -> float:
        return self.opened / self.reads

    @property
    def dollars(self) -> float:
        return self.puts * _PUT + self.gets * _GET


def arrivals(seed: int, days: int) -> Iterator[tuple[float, list[Arrival]]]:
    """A scope's traffic: flushes a day, and those of each half hour."""
    chance = random.Random(seed)
    rate = min(chance.paretovariate(1.1) * 2, 48.0)
    heavy = chance.random() < 0.5

    def rows() -> int:
        if heavy:
            return min(int(chance.paretovariate(1.1) * 5), 5_000)
        return 1_000 if chance.random() < 0.05 else chance.randint(1, 5)

    for _ in range(days * NIGHTLY):
        now: list[Arrival] = []
        while chance.random() < rate / NIGHTLY and len(now) < 5:
            now.append(Arrival(rows(), int(chance.expovariate(1 / _LATE)) if chance.random() < 1 / 3 else None))
        yield rate, now


class SimulatedScope:
    """The files of a scope, oldest first, as rows and schema version of each."""

    def __init__(self, cost: Cost) -> None:
        self.files: list[tuple[int, int]] = []
        self._cost = cost

    def flush(self, arrival: Arrival, version: int) -> None:
        """Puts the new rows behind, with those of the file whose rows are replaced."""
        touched = self._touched(arrival.back)
        kept = self.files.pop(touched)[0] if touched is not None else 0
        fresh = arrival.rows if touched is None else max(0, arrival.rows - kept)
        self.files.append((kept + fresh, version))
        self._cost.rows += arrival.rows
        self._cost.puts += 2
        self._cost.gets += 2 + (2 if touched is not None else 0)

    def _touched(self, back: int | None) -> int | None:
        if back is None or not self.files:
            return None
        for at in reversed(range(len(self.files))):
            if back < self.files[at][0]:
                return at
            back -= self.files[at][0]
        return 0

    def compact(self, rule: TailRule) -> None:
        current = self.files[-1][1]
        same = []
        for file in small_run(self._data_files(), rule):
            if self.files[int(file.path)][1] != current:
                break
            same.append(file)
        self._merge(fitting(same, rule))

    def optimize(self, ratio: float) -> None:
        files = self._data_files()[::-1]
        if not why_not(files, _TARGET, _GAIN, ratio):
            for packed in pack_files(files, _TARGET, ratio).bins:
                self._merge(packed)

    def _data_files(self) -> list[DataFile]:
        """Newest first."""
        listed = reversed(list(enumerate(self.files)))
        return [DataFile(str(at), _HEAD + _ROW * rows, rows, 0, at, at) for at, (rows, _) in listed]

    def _merge(self, some: Sequence[DataFile]) -> None:
        if not some:
            return
        places = sorted(int(file.path) for file in some)
        rows = sum(self.files[at][0] for at in places)
        version = self.files[-1][1]
        self.files[places[-1]] = (rows, version)
        for at in reversed(places[:-1]):
            del self.files[at]
        self._cost.written += _HEAD + _ROW * rows
        self._cost.again += rows
        self._cost.puts += 2
        self._cost.gets += 2 + 2 * len(places)


def simulated(policy: Policy, scopes: int, days: int) -> Cost:
    """The cost of this many scopes for so long."""
    cost = Cost()
    for seed in range(scopes):
        scope = SimulatedScope(cost)
        for half_hour, (rate, now) in enumerate(arrivals(seed, days), 1):
            for arrival in now:
                scope.flush(arrival, half_hour * 3 // (days * NIGHTLY))
            cost.opened += rate * len(scope.files)
            cost.reads += rate
            cost.gets += (2 + len(scope.files)) * rate / NIGHTLY
            if scope.files and half_hour % policy.every == 0:
                scope.compact(policy.rule)
            if scope.files and half_hour % NIGHTLY == 0:
                scope.optimize(policy.ratio)
    return cost


def run(scale: Scale, place: Path) -> Section:
    section = Section("fold", scale.name)
    scopes, flushes = scale.fold
    section.tables.append(_equal(place / "equal", scopes, flushes))
    section.tables.append(_unequal(scale))
    section.tables.append(_real(place, scale))
    return section


def _equal(place: Path, scopes: int, flushes: int) -> Table:
    fewer = flushes * 3 // 10
    rows = []
    for name, scheduled, count in (("no ratio", False, fewer), ("ratio 3", True, fewer), ("ratio 3", True, flushes)):
        again, files = equal(place / f"{name} {count}", scopes, count, scheduled=scheduled)
        rows.append((name, str(count), f"{again:.2f}", f"{files:.2f}"))
    said = (
        f"{scopes} scopes, flushes of {_ROWS} new rows of each, on the real product, with a compaction behind each."
        f" Target for {flushes} flushes: at most 8 rows written again for each row, at most 5 files."
    )
    return Table(said, ("compaction", "flushes", "rows written again for each row", "files of a scope, on average"), rows)


def equal(place: Path, scopes: int, flushes: int, *, scheduled: bool) -> tuple[float, float]:
    """How often each row was written again, and how many files a scope had on average behind each compaction."""
    users, again, files = data.users(scopes), 0, 0
    with Lakehouse.open(str(place)) as lake:
        events = data.create(lake)
        for turn in range(flushes):
            events.write(data.rows(users, turn * _ROWS, _ROWS), user_column="user")
            flushed = lake.flush(data.TABLE)
            compacted = lake.compact(data.TABLE, scheduled=scheduled)
            again += _done(compacted, "rows_rewritten")
            held = {report.scope.user: report.state.files for report in (*flushed, *compacted) if report.state}
            files += sum(held.values())
        for user in users:
            assert events.read(user=user).num_rows == flushes * _ROWS
    return again / (scopes * flushes * _ROWS), files / (scopes * flushes)


def _done(reports: Sequence[ScopeReport], metric: str) -> int:
    faults = [report.fault for report in reports if report.fault]
    assert not faults, faults[0]
    return sum(report.metrics.get(metric, 0) for report in reports if report.outcome == "done")


def _unequal(scale: Scale) -> Table:
    scopes, days = scale.fold_days
    costs = {name: simulated(policy, scopes, days) for name, policy in POLICIES.items()}
    said = (
        f"{scopes} scopes of unequal traffic for {days} days, simulated over the product's own functions, with a nightly"
        " optimize. Target: ratio 3 writes at most 0.3 of the bytes of no ratio, a read opens at most 1.05 of the files, and all"
        " costs at most 1.05 of the dollars; no row without a ratio is better in both, bytes and files."
    )
    head = ("compaction", "bytes written again", "times", "files of a read", "times", "requests", "dollars", "times")
    return Table(said, head, [_line(name, cost, next(iter(costs.values()))) for name, cost in costs.items()])


def _line(name: str, cost: Cost, first: Cost) -> tuple[str, ...]:
    return (
        name,
        f"{cost.written / 1e6:,.0f} MB",
        f"{cost.written / first.written:.2f}",
        f"{cost.files:.2f}",
        f"{cost.files / first.files:.2f}",
        f"{cost.puts + cost.gets:,.0f}",
        f"{cost.dollars:.2f}",
        f"{cost.dollars / first.dollars:.2f}",
    )


def _real(place: Path, scale: Scale) -> Table:
    scopes, days = scale.fold_real
    rows = []
    for name, scheduled in (("no ratio, hourly", False), ("ratio 3, hourly", True)):
        cost = real(place / f"real {scheduled}", scopes, days, scheduled=scheduled)
        model = simulated(POLICIES[name], scopes, days)
        rows.append((name, f"{cost.again:,}", f"{cost.files:.2f}", f"{model.again:,}", f"{model.files:.2f}"))
    said = f"The same traffic of {scopes} scopes for {days} days on the real product, beside what the simulation says of these."
    return Table(said, ("compaction", "rows written again", "files of a read", "simulated rows", "simulated files"), rows)


def real(place: Path, scopes: int, days: int, *, scheduled: bool) -> Cost:
    """The cost on the real product; only rows and files are counted."""
    cost, users = Cost(), data.users(scopes)
    newest, files = dict.fromkeys(users, 0), dict.fromkeys(users, 0)
    traffic = {user: list(arrivals(seed, days)) for seed, user in enumerate(users)}
    with Lakehouse.open(str(place)) as lake:
        events = data.create(lake)

        def note(reports: Sequence[ScopeReport]) -> int:
            files.update({str(one.scope.user): one.state.files for one in reports if one.state})
            return _done(reports, "files_removed")

        for half_hour in range(days * NIGHTLY):
            if half_hour and half_hour % (days * NIGHTLY // 3) == 0:
                lake.alter_table(data.TABLE, AddColumn(Column(f"added_{half_hour}", "INT")))
            most = max(len(traffic[user][half_hour][1]) for user in users)
            for turn in range(most):
                for user in users:
                    now = traffic[user][half_hour][1]
                    if turn < len(now):
                        first = _first(now[turn], newest[user])
                        events.write(data.rows([user], first, now[turn].rows), user_column="user")
                        newest[user] = max(newest[user], first + now[turn].rows)
                note(lake.flush(data.TABLE))
            _count(cost, {user: (traffic[user][half_hour][0], files[user]) for user in users})
            if (half_hour + 1) % HOURLY == 0:
                cost.again += _rewritten(lake.compact(data.TABLE, scheduled=scheduled), note)
            if (half_hour + 1) % NIGHTLY == 0:
                cost.again += _rewritten(lake.optimize(data.TABLE, scheduled=scheduled), note)
        for user in users:
            assert events.read(user=user).num_rows == newest[user]
    return cost


def _first(arrival: Arrival, newest: int) -> int:
    """The id of its first row: of new rows, the next; else so many back, whose rows are replaced."""
    return newest if arrival.back is None else max(0, newest - arrival.back - arrival.rows)


def _count(cost: Cost, scopes: Mapping[str, tuple[float, int]]) -> None:
    for rate, files in scopes.values():
        cost.opened += rate * files
        cost.reads += rate


def _rewritten(reports: Sequence[ScopeReport], note: Callable[[Sequence[ScopeReport]], int]) -> int:
    note(reports)
    return _done(reports, "rows_rewritten")
