"""The demo's pipeline: the weather at New York's airports, uploaded as a CSV file for each month, and one file that is torn."""

from __future__ import annotations

from lakewarden.base.connection import Location
from lakewarden.base.scope import TableName
from lakewarden.client import Lakehouse
from lakewarden.client.demo.journal import Journal
from lakewarden.client.demo.source import read_text
from lakewarden.client.demo.tables import NAMESPACE
from lakewarden.errors import Internal
from lakewarden.sql.results import ResultRows
from lakewarden.storage.location import join
from lakewarden.storage.open import open_store

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
    months: dict[str, list[str]] = {}
    for line in lines:
        months.setdefault(line.split(",", 3)[2], []).append(line)
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
