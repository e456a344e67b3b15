"""Declares the demo's tables: SHARED ones, one of them by day, and a USER table with a scope for every aircraft."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Column, TableType
from lakewarden.client import Lakehouse
from lakewarden.client.demo.source import KEY

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
