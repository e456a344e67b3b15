"""The least, the greatest and neighbouring values of each type, as keys, as partitions and in conditions, wherever they lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from lakewarden import Lakehouse
from lakewarden.sql.results import ResultRows
from tests.fixtures.bucket import path_of
from tests.fixtures.gate import in_the_gate

_ENDS: Mapping[str, list[str]] = {
    "TIMESTAMP": [
        *("0001-01-01 00:00:00.000001", "1969-12-31 23:59:59.999999"),
        *("9999-12-31 23:59:59.998999", "9999-12-31 23:59:59.999", "9999-12-31 23:59:59.999999"),
    ],
    "DATE": ["0001-01-01", "1582-10-04", "1582-10-15", "9999-12-30", "9999-12-31"],
    "DECIMAL(18,2)": ["-9999999999999999.99", "123456789012345.67", "123456789012345.68", "9999999999999999.99"],
    "DECIMAL(38,0)": ["9223372036854775807", "9223372036854775808", "1" + "0" * 37, "1" + "0" * 36 + "1", "9" * 38],
    "BIGINT": ["-9223372036854775808", "9007199254740992", "9007199254740993", "9223372036854775807"],
    "INT": ["-2147483648", "2147483646", "2147483647"],
    "SMALLINT": ["-32768", "32766", "32767"],
    "TEXT": ["\x01", "é" * 33, "é" * 33 + "z", "\ufffd" * 40, "\uffff" * 40, "\U0001f600" * 40, "\U0010ffff" * 70],
    "UUID": [
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-fffffffffffe",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ],
    "TIME": ["00:00:00", "23:59:59.999998", "23:59:59.999999"],
    "BOOLEAN": ["false", "true"],
}
"""In their order."""

_BARE = {"DECIMAL(18,2)", "BIGINT", "INT", "SMALLINT", "BOOLEAN"}
"""Types whose literals have no quotes here."""


def _compact(lake: Lakehouse, *tables: str) -> None:
    """By delta-rs."""
    for name in tables:
        DeltaTable(str(path_of(lake.warehouse.uri) / "data" / "app" / name)).optimize.compact()


_STATES: Mapping[str, Callable[[Lakehouse], object]] = {
    "hot": lambda lake: None,
    "cold": lambda lake: lake.flush(),
    "compacted by delta-rs": lambda lake: _compact(lake, "k", "p"),
    "optimized": lambda lake: lake.optimize(),
}
"""Each follows the one before."""


@pytest.mark.slow
@pytest.mark.disk
@pytest.mark.parametrize("type_", in_the_gate(_ENDS, *_ENDS.keys() - {"INT", "SMALLINT", "UUID", "TIME"}))  # as BIGINT and DATE
def test_each_end_is_found_wherever_it_lies(warehouse_uri: str, type_: str) -> None:
    values = _literals(type_)
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql("CREATE NAMESPACE app")
        _filled(lake, "k", "p", type_)
        for state, reach in _STATES.items():
            reach(lake)
            _all_found(lake, "k", "p", values, state)
        _in_the_past(lake, values[-1], len(values) - 1)
        _changed_where_they_lie(lake, "k", "p", values)


_SPARKS_OWN = ("TIMESTAMP", "DECIMAL(18,2)", "TEXT")
"""Types whose bounds Spark writes in a way of its own: in milliseconds, as numbers, cut short."""


@pytest.mark.slow
@pytest.mark.disk
@pytest.mark.parametrize("types", [
    pytest.param(_SPARKS_OWN, id="with bounds of Spark's own"),
    pytest.param([type_ for type_ in _ENDS if type_ not in _SPARKS_OWN], id="others", marks=pytest.mark.night),
])  # fmt: skip
def test_each_end_is_found_behind_a_compaction_by_spark(warehouse_uri: str, spark: SparkSession, types: Sequence[str]) -> None:
    names = {type_: (f"k{number}", f"p{number}") for number, type_ in enumerate(types)}
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql("CREATE NAMESPACE app")
        for type_, (keyed, parted) in names.items():
            _filled(lake, keyed, parted, type_)
        lake.flush()
        for type_, (keyed, parted) in names.items():
            table = path_of(lake.warehouse.uri) / "data" / "app" / keyed
            before = DeltaTable(str(table)).version()
            spark.sql(f"OPTIMIZE delta.`{table}`")
            assert DeltaTable(str(table)).version() == before + 1, "two files were joined"
            _all_found(lake, keyed, parted, _literals(type_), "compacted by Spark")
            _changed_where_they_lie(lake, keyed, parted, _literals(type_))


def _literals(type_: str) -> list[str]:
    return [value if type_ in _BARE else f"'{value}'" for value in _ENDS[type_]]


def _filled(lake: Lakehouse, keyed: str, parted: str, type_: str) -> None:
    """Creates a table by key and one by partition, and writes each end; half of them are flushed by themselves."""
    values = _literals(type_)
    lake.sql(f"CREATE SHARED TABLE app.{keyed} (v {type_} PRIMARY KEY, w {type_}, n INT)")
    lake.sql(f"CREATE SHARED TABLE app.{parted} (n INT PRIMARY KEY, v {type_}) PARTITION BY (v)")
    for number, value in enumerate(values):
        lake.sql(f"INSERT INTO app.{keyed} VALUES ({value}, {value}, {number})")
        lake.sql(f"INSERT INTO app.{parted} VALUES ({number}, {value})")
        if number == (len(values) - 1) // 2:
            lake.flush()


def _all_found(lake: Lakehouse, keyed: str, parted: str, values: Sequence[str], state: str) -> None:
    for number, value in enumerate(values):
        for column, table in (("v", keyed), ("w", keyed), ("v", parted)):
            assert _found(lake, table, f"{column} = {value}") == [number], (state, table, value)
        assert _found(lake, keyed, f"w >= {value}") == [*range(number, len(values))], (state, value)
        assert _found(lake, keyed, f"w < {value}") == [*range(number)], (state, value)


def _changed_where_they_lie(lake: Lakehouse, keyed: str, parted: str, values: Sequence[str]) -> None:
    last = len(values) - 1
    lake.sql(f"UPDATE app.{keyed} SET n = 100 WHERE v = {values[-1]}; DELETE FROM app.{keyed} WHERE w = {values[0]}")
    lake.sql(f"DELETE FROM app.{parted} WHERE v = {values[-1]}")
    lake.flush()
    assert _found(lake, keyed, "true") == [*range(1, last), 100]
    assert _found(lake, parted, "true") == [*range(last)]


def _in_the_past(lake: Lakehouse, value: str, number: int) -> None:
    version = DeltaTable(str(path_of(lake.warehouse.uri) / "data" / "app" / "k")).version()
    assert _found(lake, f"k VERSION AS OF {version}", f"w >= {value}") == [number]


def _found(lake: Lakehouse, table: str, condition: str) -> list[Any]:
    (rows,) = lake.sql(f"SELECT n FROM app.{table} WHERE {condition} ORDER BY n")
    assert isinstance(rows, ResultRows)
    return [row["n"] for row in rows.to_pylist()]


@pytest.mark.disk
def test_rows_of_one_key_behind_rounded_bounds_are_settled_by_its_next_flush(warehouse_uri: str) -> None:
    """As `check` says of them: they were left where a file with such bounds had been passed over."""
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql("CREATE NAMESPACE app; CREATE SHARED TABLE app.k (v DECIMAL(18,2) PRIMARY KEY, n INT)")
        for number, value in enumerate(("123456789012345.67", "123456789012345.68")):
            lake.sql(f"INSERT INTO app.k VALUES ({value}, {number})")
            lake.flush()
        _compact(lake, "k")
        delta = DeltaTable(str(path_of(lake.warehouse.uri) / "data" / "app" / "k"))
        write_deltalake(delta, delta.to_pyarrow_table(), mode="append")
        assert [finding.message for finding in lake.check() if finding.check == "one_row_per_key"] == [
            "2 rows repeat a key; an upsert or a delete of those keys settles them at its flush"
        ]
        lake.table("app.k").write([{"v": Decimal("123456789012345.67"), "n": 7}])
        lake.sql("DELETE FROM app.k WHERE v = 123456789012345.68")
        lake.flush()
        assert _found(lake, "k", "true") == [7]
        assert all(finding.passed for finding in lake.check())
