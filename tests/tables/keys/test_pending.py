"""Inserts, few rows or many, are taken as a dictionary would take them, whatever the log has of their keys, and in which form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.recent import Recent
from lakewarden.errors import ConstraintViolation
from lakewarden.tables.client import TableClient
from lakewarden.tables.keys import pending
from tests.fixtures.lakes import lake_fixture

Key = tuple[Any, ...]

lake = lake_fixture(lambda opened: opened.create_namespace("n"))

_KINDS: Mapping[str, tuple[Mapping[str, str], Callable[[int], Key]]] = {
    "BIGINT": ({"k": "BIGINT"}, lambda at: (at - 20,)),
    "TEXT": ({"k": "TEXT"}, lambda at: (("é" if at % 2 else "e\0") + str(at),)),
    "DECIMAL": ({"k": "DECIMAL(38,2)"}, lambda at: (Decimal(f"{at - 20}999999999999999999999999999999999.{at % 10}1"),)),
    "BYTES and DATE": ({"k": "BYTES", "d": "DATE"}, lambda at: (b"\0" * (at % 7), date(1969, 12, 15) + timedelta(at // 7))),
    "TIMESTAMP and BOOLEAN": (
        {"k": "TIMESTAMP", "b": "BOOLEAN"},
        lambda at: (datetime(1969, 12, 31, 23, 59, 59, 999_990, ZoneInfo("UTC")) + timedelta(microseconds=at // 2), at % 2 == 0),
    ),
}
_DOMAIN = 40


@pytest.fixture
def other(lake: Lakehouse) -> Iterator[Lakehouse]:
    """Another process, as far as the log can tell."""
    with Lakehouse.open(lake.warehouse.uri) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("kind", _KINDS)
def test_inserts_are_taken_as_by_a_dictionary(
    lake: Lakehouse, other: Lakehouse, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Of two processes in turn. Keys are kept in a dictionary or in columns, and the one process keeps few of those."""
    monkeypatch.setattr(pending, "_FEW", 2)
    monkeypatch.setattr(pending, "_MOST_SMALL", 5)
    types, key_of = _KINDS[kind]
    columns = [Column(name, type_) for name, type_ in types.items()] + [Column("v", "INT")]
    lake.create_table("n.t", type="SHARED", columns=columns, primary_key=list(types))
    monkeypatch.setattr(lake.warehouse.pending_keys, "_columns", Recent(2_000, 4))
    draw, live, names = Random(kind), dict[Key, int](), list(types)

    def rows_of(keys: Sequence[Key], value: int) -> list[dict[str, Any]]:
        return [{**dict(zip(names, key, strict=True)), "v": value} for key in keys]

    for step in range(50):
        one = draw.choice((lake, other)).table("n.t")
        first, most = draw.randrange(_DOMAIN), draw.choice((1, 2, 8, 120))
        places = range(first, first + most) if draw.random() < 0.6 else draw.sample(range(_DOMAIN), min(most, _DOMAIN // 2))
        keys = [key_of(place) for place in places]
        match draw.choice(("insert",) * 4 + ("write", "delete", "delete", "flush", "rename")):
            case "insert":
                taken = next((key for key in keys if key in live), None)
                said = _refused(one, rows_of(keys, step))
                assert (said is None) == (taken is None), said
                assert taken is None or str(dict(zip(names, taken, strict=True))) in str(said), "the first one is named"
                live |= dict.fromkeys(keys if taken is None else (), step)
            case "write":
                one.write(rows_of(keys, step))
                live |= dict.fromkeys(keys, step)
            case "delete":
                one.delete(pa.table({name: list(each) for name, each in zip(names, zip(*keys, strict=True), strict=True)}))
                live = {key: value for key, value in live.items() if key not in keys}
            case "flush":
                lake.flush("n.t")
            case _:
                new = f"{kind[0].lower()}{step}"
                lake.sql(f"ALTER TABLE n.t RENAME COLUMN {names[0]} TO {new}")
                names[0] = new
    found = lake.table("n.t").read().to_pylist()
    assert {tuple(row[name] for name in names): row["v"] for row in found} == live


def _refused(table: TableClient, rows: Sequence[Mapping[str, Any]]) -> str | None:
    """The key for which an insert was refused, in the words of the message; None where the rows were taken."""
    try:
        table.write(rows, mode="insert")
    except ConstraintViolation as error:
        return str(error)
    return None
