"""Filters that Spark pushes down leave out only rows that they would leave out anyway."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from lakewarden import Lakehouse
from lakewarden.log.record import SEQ, USER
from lakewarden.spark.batch_read import RowFilter
from lakewarden.spark.columns import source_schema
from tests.fixtures.examples import examples
from tests.spark.source.reading import Row, read

_VALUES: dict[str, tuple[object, ...]] = {
    "dt": ("x", "y", "z", ""),
    "id": (-1, 0, 3, 7, 19, 30, 2**40),
    "v": ("a", "a9", "é", "\U0001f600", "b", ""),
    "price": (Decimal("0.00"), Decimal("1.5"), Decimal("12.340"), Decimal("9999999999")),
    "day": (date(2026, 1, 1), date(2026, 1, 20)),
    "at": (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 9, 12, 30, 0, 999_999, tzinfo=UTC)),
    USER: ("ann", "bob"),
}
_ORDERED = (LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual)


def _row(dt: str, id_: int, turn: int) -> dict[str, object]:
    """Every third value is NULL."""
    row: dict[str, object] = {
        "dt": dt,
        "id": id_,
        "v": ("a", "b", "é", "\U0001f600")[id_ % 4] + str(turn or ""),
        "price": Decimal(id_ * 150) / 100,
        "day": date(2026, 1, 1 + id_ % 28),
        "at": datetime(2026, 1, 1 + id_ % 28, 12, 30, 0, 999_999, tzinfo=UTC),
    }
    names = ("v", "price", "day", "at")
    nulls = {name for place, name in enumerate(names) if (id_ + place) % 3 == 0}
    return {name: None if name in nulls else value for name, value in row.items()}


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    """A table with partitions and buckets, whose rows are in several files, and some still in the log."""
    with Lakehouse.open(str(tmp_path_factory.mktemp("parted") / "w")) as lake:
        lake.sql(
            "CREATE NAMESPACE n; CREATE DYNAMIC TABLE n.t (dt TEXT, id BIGINT, v TEXT, price DECIMAL(12,2), day DATE,"
            "  at TIMESTAMP, PRIMARY KEY (dt, id)) PARTITIONED BY (dt) WITH ('bucket' = '3')"
        )
        lake.sql("CREATE USER TABLE n.own (dt TEXT, id BIGINT PRIMARY KEY, v TEXT, price DECIMAL(12,2), day DATE, at TIMESTAMP)")
        for turn in range(3):
            rows = [_row(dt, id_, turn) for dt in "xy" for id_ in range(turn * 8, 20)]
            lake.table("n.t").write(rows)
            for user in ("ann", "bob"):
                lake.table("n.own").write([row for row in rows if row["dt"] == "x"], user=user)
            if turn < 2:
                lake.flush()
        lake.table("n.t").delete([{"dt": "x", "id": 3}])
        yield lake


def _filters(name: str) -> st.SearchStrategy[Filter]:
    column = (name,)
    value = st.sampled_from(_VALUES[name])
    some = st.lists(value, min_size=1, max_size=3).map(lambda each: In(column, tuple(each)))
    kinds = (EqualTo, EqualNullSafe) if name == USER else (EqualTo, EqualNullSafe, *_ORDERED)
    compared = st.builds(lambda kind, each: kind(column, each), st.sampled_from(kinds), value)
    return st.one_of(compared, compared, some, st.sampled_from([IsNull(column), IsNotNull(column)]), compared.map(Not))


def _holds(given_: Filter, row: Row) -> bool | None:
    """As SQL decides: None is unknown."""
    if isinstance(given_, Not):
        inner = _holds(given_.child, row)
        return None if inner is None else not inner
    found = row[given_.attribute[0]]  # type: ignore[attr-defined]
    if isinstance(given_, IsNull | IsNotNull):
        return (found is None) == isinstance(given_, IsNull)
    if isinstance(given_, EqualNullSafe):
        return bool(found == given_.value)
    if found is None:
        return None
    if isinstance(given_, In):
        return found in given_.value
    one, other = map(_ordered, (found, given_.value))  # type: ignore[attr-defined]
    if isinstance(given_, EqualTo):
        return bool(one == other)
    less = isinstance(given_, LessThan | LessThanOrEqual)
    equal = isinstance(given_, LessThanOrEqual | GreaterThanOrEqual)
    return bool((one < other if less else other < one) or (equal and one == other))


def _ordered(value: Any) -> Any:
    """Text is compared by its UTF-8 bytes, as Spark does."""
    return value.encode() if isinstance(value, str) else value


def _left(rows: list[Row], filters: list[Filter]) -> list[str]:
    return sorted(str(row) for row in rows if all(_holds(each, row) for each in filters))


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(
    table=st.sampled_from(["n.t", "n.own"]),
    filters=st.lists(st.one_of([_filters(name) for name in _VALUES]), min_size=1, max_size=3),
)
def test_pushed_filters_change_no_result(parted: Lakehouse, table: str, filters: list[Filter]) -> None:
    assert _left(read(parted, table, filters), filters) == _left(read(parted, table), filters)


def test_a_look_up_by_key_reads_one_bucket_of_one_partition(parted: Lakehouse) -> None:
    by_key = [EqualTo(("dt",), "y"), EqualTo(("id",), 7)]
    cold = read(parted, "n.t", by_key, freshness="eventual")
    assert 0 < len(cold) < len(read(parted, "n.t", [EqualTo(("dt",), "y")], freshness="eventual"))
    assert [row["v"] for row in cold if row["id"] == 7] == [_row("y", 7, 0)["v"]]


@pytest.mark.parametrize(
    "unknown",
    [
        EqualTo(("doc", "inner"), 1),
        EqualTo(("id",), "1"),
        EqualTo(("id",), None),
        EqualTo(("id",), [1]),
        EqualTo(("id",), 1.5),
        EqualTo(("v",), 1),
        EqualTo(("none",), 1),
        In(("id",), (1, None)),
        Not(EqualTo(("id",), 1)),
        StringStartsWith(("v",), "a"),
        LessThan((USER,), "b"),
    ],
    ids=str,
)
def test_a_filter_that_is_not_understood_says_nothing(parted: Lakehouse, unknown: Filter) -> None:
    columns = source_schema(parted.table("n.own").table.schema)
    assert RowFilter.by([unknown], columns, frozenset({SEQ})) == RowFilter()
