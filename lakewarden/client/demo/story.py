"""Runs the demo: two waves of flights, a flush after each, maintenance, and a restore of one aircraft and back."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from lakewarden.client.demo import tables
from lakewarden.client.demo.journal import Journal, Stage, Step
from lakewarden.client.demo.source import KEY, USER_COLUMN, Waves, read, read_waves
from lakewarden.client.demo.summary import TableSummary, summarize
from lakewarden.client.demo.uploads import ingest_weather
from lakewarden.delta.reading.history import HistoryEntry
from lakewarden.errors import Internal

FLIGHTS = str(tables.FLIGHTS.name)
BY_DAY = str(tables.BY_DAY.name)

_WRITES = ("write wave 1", "write wave 2")
_FLUSHES = ("flush wave 1", "flush wave 2")


@dataclass(frozen=True)
class DemoResult:
    """The result of the demo: its steps, and the final state of the tables."""

    steps: tuple[Step, ...]
    tables: tuple[TableSummary, ...]
    aircraft: str
    """The restored one."""
    history: tuple[HistoryEntry, ...]
    """Its commits, newest first."""
    without_tail_number: int
    seconds: float

    @property
    def rows_flushed(self) -> int:
        """Rows and deletes of both waves, as the log had them pending before each flush."""
        return sum(step.figures["rows"] for step in self.steps if step.title in _FLUSHES)

    @property
    def seconds_flushing(self) -> float:
        """From the first written row to the last committed one, with the start of Spark."""
        return sum(step.seconds for step in self.steps if step.title in (*_WRITES, *_FLUSHES))


def tell(
    lake: Lakehouse, *, aircraft: int | None = None, stage: Stage | None = None, seconds: Callable[[], float] = time.perf_counter
) -> DemoResult:
    """Runs the demo; `aircraft` limits the number of aircraft.

    Raises:
        Internal: a table does not have the rows that were written to it.
    """
    start = seconds()
    journal = Journal(stage or Stage(), seconds)
    waves = _read(journal, aircraft)
    with journal.step("create") as step:
        replaced = tables.replace(lake)
        step.say(f"{len(tables.ALL)} tables in namespace {tables.NAMESPACE}", tables=len(tables.ALL), replaced=replaced)
    tail = waves.busiest()
    _load(lake, journal, waves)
    first = _waves(lake, journal, waves, tail)
    ingest_weather(lake, journal)
    _maintain(lake, journal)
    _there_and_back(lake, journal, waves, tail, first)
    with journal.step("read all tables") as step:
        found = tuple(summarize(lake, table.name, table.type == "SHARED") for table in tables.ALL)
        step.say("every scope's Delta table opened", rows=sum(one.rows for one in found), scopes=sum(one.scopes for one in found))
    _expect(FLIGHTS, found[-1].rows, waves.result)
    history = tuple(lake.table(FLIGHTS).history(user=tail))
    return DemoResult(tuple(journal.steps), found, tail, history, waves.without_tail_number, round(seconds() - start, 3))


def _read(journal: Journal, aircraft: int | None) -> Waves:
    with journal.step("read the source") as step:
        waves = read_waves(aircraft)
        text = f"({', '.join(KEY)}) is unique; flights without a tail number are left out"
        step.say(text, aircraft=waves.scopes, without_tail_number=waves.without_tail_number)
    return waves


def _load(lake: Lakehouse, journal: Journal, waves: Waves) -> None:
    with journal.step("load the year as one table") as step, TemporaryDirectory() as directory:
        path = Path(directory) / "flights.parquet"
        pq.write_table(waves.flights, path)
        report = lake.load(BY_DAY, str(path))
        days = waves.flights.group_by(["month", "day"]).aggregate([]).num_rows
        step.say("one commit, a directory for each day", rows=report.rows, partitions=days)
    _expect(BY_DAY, report.rows, waves.flights.num_rows)


def _waves(lake: Lakehouse, journal: Journal, waves: Waves, tail: str) -> int:
    """Returns the version that the first flush made of one aircraft's table."""
    flights = lake.table(FLIGHTS)
    with journal.step(_WRITES[0]) as step:
        for table in tables.SHARED:
            lake.table(str(table.name)).write(read(table.name.name))
        flights.write(waves.first, user_column=USER_COLUMN)
        step.say("as flown to August, planned in September; durable in the write log", rows=waves.first.num_rows)
    first = _version(_flush(lake, journal, _FLUSHES[0]), tail)
    with journal.step(_WRITES[1]) as step:
        flights.write(waves.second, user_column=USER_COLUMN)
        flights.delete(waves.cancelled.select([USER_COLUMN, *KEY]), user_column=USER_COLUMN)
        text = "September as flown (updates), October to December (new), the cancelled ones (deletes)"
        step.say(text, rows=waves.second.num_rows, deletes=waves.cancelled.num_rows)
    _flush(lake, journal, _FLUSHES[1])
    return first


def _flush(lake: Lakehouse, journal: Journal, title: str) -> Sequence[ScopeReport]:
    pending = sum(one.rows for one in lake.pending())
    with journal.step(title) as step:
        reports = _done(lake.flush(*(str(table.name) for table in tables.ALL if table.primary_key)))
        step.say("one Delta commit per scope, in one Spark job", rows=pending, scopes=len(reports))
    return reports


def _maintain(lake: Lakehouse, journal: Journal) -> None:
    for title, operation in (("compact", lake.compact), ("optimize", lake.optimize)):
        with journal.step(title) as step:
            reports = _done(operation(FLIGHTS))
            outcomes = Counter(report.outcome for report in reports)
            reasons = Counter(report.reason for report in reports if report.outcome == "skipped").most_common(1)
            why = f"; most were skipped: {reasons[0][0]}" if reasons and outcomes["skipped"] > outcomes["done"] else ""
            step.say(f"over all aircraft{why}", scopes=len(reports), rewritten=outcomes["done"], skipped=outcomes["skipped"])


def _there_and_back(lake: Lakehouse, journal: Journal, waves: Waves, tail: str, first: int) -> None:
    now = lake.table(FLIGHTS).history(user=tail, limit=1)[0].version
    with journal.step(f"restore {tail} to version {first}: dry run") as step:
        plan = _done(lake.restore(FLIGHTS, user=tail, version=first, dry_run=True))
        step.say(plan[0].reason or "what would change", **plan[0].metrics)
    with journal.step(f"restore {tail} to version {first}") as step:
        reports = _done(lake.restore(FLIGHTS, user=tail, version=first, dry_run=False))
        rows = _check_rows(lake, tail, waves.after_first(tail))
        step.say("its rows are the first wave's again", rows=rows, version=reports[0].version or 0)
    with journal.step(f"restore {tail} back to version {now}") as step:
        reports = _done(lake.restore(FLIGHTS, user=tail, version=now, dry_run=False))
        rows = _check_rows(lake, tail, waves.after_both(tail))
        step.say("its rows are those of both waves", rows=rows, version=reports[0].version or 0)


def _version(reports: Sequence[ScopeReport], user: str) -> int:
    found = next((report.version for report in reports if report.scope.user == user), None)
    if found is None:
        raise Internal(f"the flush of {FLIGHTS} reports no version of {user}, though it wrote rows there")
    return found


def _check_rows(lake: Lakehouse, tail: str, expected: pa.Table) -> int:
    """Compares all rows of one aircraft with the source; returns their number."""
    found = lake.table(FLIGHTS).read(user=tail)
    names = found.column_names
    wanted = _sorted(expected.select(names).cast(found.schema))
    if not _sorted(found).equals(wanted):
        raise Internal(f"{FLIGHTS}[{tail}] has {found.num_rows} rows that are not the {wanted.num_rows} of the source")
    return found.num_rows


def _sorted(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in KEY])


def _expect(table: str, rows: int, expected: int) -> None:
    if rows != expected:
        raise Internal(f"{table} has {rows} rows, and the source file and both waves imply {expected}")


def _done(reports: Sequence[ScopeReport]) -> Sequence[ScopeReport]:
    """Raises:
    Internal: some scopes failed; names the first.
    """
    faults = [(report.scope, report.fault) for report in reports if report.fault]
    if faults:
        scope, fault = faults[0]
        raise Internal(f"{len(faults)} of {len(reports)} scopes failed; the first, {scope}: {fault.code}: {fault.message}")
    return reports
