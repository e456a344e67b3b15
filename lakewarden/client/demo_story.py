"""Runs the demo: two waves of flights, a flush after each, maintenance, and a restore of one aircraft and back.

Between them, a pipeline takes the weather at New York's airports: a CSV file for each month, and one file that is torn. What the
tables hold at the end is read from the tables themselves, not from counts of earlier steps.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.base.connection import Location
from lakewarden.base.quantities import grouped
from lakewarden.base.scope import Scope, TableName
from lakewarden.base.threads import at_once
from lakewarden.catalog.report import ScopeReport, ScopeState
from lakewarden.client import Lakehouse
from lakewarden.client import demo_tables as tables
from lakewarden.client.demo_tables import KEY, NAMESPACE, USER_COLUMN, Waves, read, read_text, read_waves
from lakewarden.delta.reading.history import HistoryEntry
from lakewarden.delta.scope import open_scope
from lakewarden.errors import Internal
from lakewarden.sql.results import ResultRows
from lakewarden.storage.location import join
from lakewarden.storage.open import open_store

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
    journal = Journal(stage, seconds)
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
    """Raises Internal: some scopes failed; names the first."""
    faults = [(report.scope, report.fault) for report in reports if report.fault]
    if faults:
        scope, fault = faults[0]
        raise Internal(f"{len(faults)} of {len(reports)} scopes failed; the first, {scope}: {fault.code}: {fault.message}")
    return reports


# What each step did, and how long it took.


@dataclass
class Step:
    """A step; filled while it runs. `figures` are whole numbers by snake_case names."""

    title: str
    text: str = ""
    seconds: float = 0.0
    figures: dict[str, int] = field(default_factory=dict)

    def say(self, text: str, **figures: int) -> None:
        self.text = text
        self.figures = figures


class Stage(Protocol):
    """Shows a step."""

    def during(self, title: str) -> AbstractContextManager[None]:
        """A progress bar."""

    def after(self, step: Step) -> None:
        """The printed line."""


class Journal:
    """Runs steps in order and keeps what they reported."""

    def __init__(self, stage: Stage | None, seconds: Callable[[], float]) -> None:
        self._stage = stage
        self._seconds = seconds
        self.steps: list[Step] = []

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        step, start = Step(title), self._seconds()
        with self._stage.during(title) if self._stage else nullcontext():
            yield step
        step.seconds = round(self._seconds() - start, 3)
        self.steps.append(step)
        if self._stage:
            self._stage.after(step)


# The final state of the tables.


@dataclass(frozen=True)
class TableSummary:
    """All scopes of one table. `bytes` are those of the live data files."""

    table: str
    scopes: int
    rows: int
    files: int
    bytes: int


def summarize(lake: Lakehouse, name: TableName, shared: bool) -> TableSummary:
    """Opens every scope's Delta table."""
    users: list[str | None] = [None] if shared else list(lake.table(str(name)).users())
    catalog = lake.warehouse.catalog.read()

    def look(user: str | None) -> ScopeState | None:
        target = lake.warehouse.target(catalog, Scope(name, user))
        table = open_scope(target)
        return table.state(target.app_id) if table else None

    states = [state for state in at_once(look, users) if state]
    return TableSummary(
        table=str(name),
        scopes=len(states),
        rows=sum(state.rows for state in states),
        files=sum(state.files for state in states),
        bytes=sum(state.bytes for state in states),
    )


# The pipeline.

WEATHER = TableName(NAMESPACE, "weather")

_AGAIN = "weather/2013-03.csv"
_TORN = "weather/torn.csv"
_STORMS = """
SELECT count(*) AS flights, round(coalesce(avg(f.dep_delay), 0)) AS delay
FROM nyc.flights_by_day f JOIN nyc.weather w ON f.origin = w.origin AND f.time_hour = w.time_hour
WHERE w.wind_speed > 25
"""


def monthly() -> dict[str, bytes]:
    """The shipped file's lines by month, as files of their own, each with the header."""
    header, *lines = read_text("weather").splitlines(keepends=True)
    months = grouped(lines, lambda line: line.split(",", 3)[2])
    return {f"weather/2013-{int(month):02}.csv": (header + "".join(those)).encode() for month, those in months.items()}


def ingest_weather(lake: Lakehouse, journal: Journal) -> None:
    """Makes the pipeline again, uploads, ingests, delivers a file once more, and asks for the flights in strong wind.

    Raises:
        Internal: the table does not have each line of the files once.
    """
    files = monthly()
    rows = sum(content.count(b"\n") - 1 for content in files.values())
    uploads = open_store(Location(join(lake.warehouse.uri, f"uploads/{NAMESPACE}")))
    with journal.step("ingest uploaded files") as step:
        _replace(lake)
        for key, content in files.items():
            uploads.put(key, content)
        uploads.put(_TORN, files[_AGAIN][:-20])
        report = lake.ingest(str(WEATHER))
        step.say(
            f"by the rule weather/*.csv; {_TORN} is in {WEATHER}_rejects",
            objects=report.ingested,
            rows=report.rows,
            rejected=report.rejected,
        )
    with journal.step(f"ingest {_AGAIN} again") as step:
        uploads.put(_AGAIN, files[_AGAIN])
        report = lake.ingest(str(WEATHER))
        step.say("delivered once more: its earlier rows are replaced", objects=report.ingested, rows=report.rows)
    found = _ask(lake, "SELECT count(*) AS lines FROM nyc.weather")["lines"]
    if found != rows:
        raise Internal(f"{WEATHER} has {found} rows, and the uploaded files have {rows} lines")
    with journal.step("ask for the flights in strong wind") as step:
        storms = _ask(lake, _STORMS)
        step.say("flights joined with the weather of their hour", flights=storms["flights"], minutes_late=storms["delay"])


def _replace(lake: Lakehouse) -> None:
    """Creates the pipeline after dropping that of an earlier demo: a pipeline outlives its table."""
    there = {table.name for table in lake.tables(NAMESPACE)}
    for name in (WEATHER, TableName(NAMESPACE, f"{WEATHER.name}_rejects")):
        if name in there:
            lake.drop_table(str(name))
    for pipeline in lake.pipelines.all():
        if pipeline.table == WEATHER:
            lake.pipelines.drop(pipeline.id)
    lake.sql(f"CREATE SHARED TABLE {WEATHER} FROM TEMPLATE csv WITH (NULLS = 'NA', GLOBS = 'weather/*.csv')")


def _ask(lake: Lakehouse, text: str) -> dict[str, int]:
    """The numbers of a query's only row."""
    (found,) = lake.sql(text)
    assert isinstance(found, ResultRows)
    (row,) = found.to_pylist()
    return {name: int(float(str(value))) for name, value in row.items()}
