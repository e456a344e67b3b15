"""Every type's ranges and forms, one by one and many at once: both ways take the same and refuse the same."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # has no stubs here
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.catalog.column_types import ColumnType
from lakewarden.tables.rows.columns import Unfit, from_array, from_values
from lakewarden.tables.rows.text import from_text

EAST = timezone(timedelta(hours=2))
ID = "0191e3c5-7f4a-7cc2-98a1-3b5e0c9d2f11"

TAKEN: list[tuple[str, object, object]] = [
    ("BOOLEAN", True, True),
    ("BOOLEAN", np.bool_(False), False),
    ("SMALLINT", -32768, -32768),
    ("INT", 2**31 - 1, 2**31 - 1),
    ("BIGINT", -(2**63), -(2**63)),
    ("BIGINT", np.int64(7), 7),
    ("FLOAT", 0.5, 0.5),
    ("FLOAT", 3, 3.0),
    ("FLOAT", float("inf"), float("inf")),
    ("DOUBLE", 1e300, 1e300),
    ("DOUBLE", 2**53, float(2**53)),
    ("DOUBLE", Decimal("1.5"), 1.5),
    ("DOUBLE", np.float32(0.5), 0.5),
    ("DECIMAL(10,2)", Decimal("12345678.90"), Decimal("12345678.90")),
    ("DECIMAL(10,2)", 5, Decimal("5.00")),
    ("DECIMAL(10,2)", 12.5, Decimal("12.50")),
    ("DECIMAL(10,2)", "-12.5", Decimal("-12.50")),
    ("DECIMAL(10,2)", "1e3", Decimal("1000.00")),
    ("DECIMAL(10,2)", Decimal("1.500"), Decimal("1.50")),
    ("DECIMAL(10,2)", Decimal("-0"), Decimal("0.00")),
    ("DECIMAL(38,0)", 10**37, Decimal(10**37)),
    ("DECIMAL(38,38)", "0." + "1" * 38, Decimal("0." + "1" * 38)),
    ("TEXT", "", ""),
    ("TEXT", "a\0é\U0001f600", "a\0é\U0001f600"),
    ("BYTES", b"\x00\xff", b"\x00\xff"),
    ("BYTES", bytearray(b"x"), b"x"),
    ("DATE", date(1, 1, 1), date(1, 1, 1)),
    ("DATE", "9999-12-31", date(9999, 12, 31)),
    ("DATE", datetime.fromisoformat("2026-11-21"), date(2026, 11, 21)),
    ("TIMESTAMP", datetime.fromisoformat("2026-11-21T09:30:00.000001"), datetime(2026, 11, 21, 9, 30, 0, 1, UTC)),
    ("TIMESTAMP", datetime(2026, 11, 21, 9, 30, tzinfo=EAST), datetime(2026, 11, 21, 7, 30, tzinfo=UTC)),
    ("TIMESTAMP", "2026-11-21T09:30:00.000001Z", datetime(2026, 11, 21, 9, 30, 0, 1, UTC)),
    ("TIMESTAMP", "2026-11-21 09:30:00+02:00", datetime(2026, 11, 21, 7, 30, tzinfo=UTC)),
    ("TIMESTAMP", "2026-11-21", datetime(2026, 11, 21, tzinfo=UTC)),
    ("TIMESTAMP", date(2026, 11, 21), datetime(2026, 11, 21, tzinfo=UTC)),
    ("TIMESTAMP", pd.Timestamp("2026-11-21T09:30:00", tz="Europe/Vienna"), datetime(2026, 11, 21, 8, 30, tzinfo=UTC)),
    ("TIME", time(0, 0, 1, 5), 1_000_005),
    ("TIME", 86_399_999_999, 86_399_999_999),
    ("TIME", "23:59:59.999999", 86_399_999_999),
    ("TIME", "00:01", 60_000_000),
    ("UUID", uuid.UUID(ID), ID),
    ("UUID", ID.upper(), ID),
    ("JSON", {"b": 1, "a": [None, "é"]}, '{"b":1,"a":[null,"é"]}'),
    ("JSON", [], "[]"),
    ("JSON", ' {"a" : 1} ', ' {"a" : 1} '),
    ("JSON", "null", "null"),
    ("FILE", {"id": 1}, '{"id":1}'),
]

REFUSED: list[tuple[str, object]] = [
    ("BOOLEAN", 1),
    ("BOOLEAN", "true"),
    ("SMALLINT", 32768),
    ("INT", -(2**31) - 1),
    ("BIGINT", 2**63),
    ("BIGINT", 2**70),
    ("BIGINT", True),
    ("BIGINT", 1.0),
    ("BIGINT", "1"),
    ("BIGINT", Decimal(1)),
    ("FLOAT", 1e39),
    ("FLOAT", 2**24 + 1),
    ("FLOAT", "1.5"),
    ("DOUBLE", 2**53 + 1),
    ("DOUBLE", 10**400),
    ("DOUBLE", True),
    ("DOUBLE", Decimal("NaN")),
    ("DOUBLE", Decimal("1e400")),
    ("DECIMAL(10,2)", Decimal("1.005")),
    ("DECIMAL(10,2)", 0.1 + 0.2),
    ("DECIMAL(10,2)", Decimal("100000000")),
    ("DECIMAL(10,2)", Decimal("Infinity")),
    ("DECIMAL(10,2)", float("nan")),
    ("DECIMAL(10,2)", " 1"),
    ("DECIMAL(10,2)", "1_000"),
    ("DECIMAL(10,2)", True),
    ("DECIMAL(38,0)", 10**38),
    ("TEXT", 1),
    ("TEXT", b"x"),
    ("TEXT", "\ud800"),
    ("TEXT", {"a": 1}),
    ("BYTES", "x"),
    ("DATE", "2026-11-31"),
    ("DATE", "20261121"),
    ("DATE", 5),
    ("DATE", datetime.fromisoformat("2026-11-21T01:00")),
    ("DATE", datetime(2026, 11, 21, tzinfo=UTC)),
    ("TIMESTAMP", 1_700_000_000),
    ("TIMESTAMP", "yesterday"),
    ("TIMESTAMP", "2026-11-21T09:30:00.0000001Z"),
    ("TIMESTAMP", "2026-11-21T25:00:00Z"),
    ("TIMESTAMP", pd.Timestamp(1, unit="ns")),
    ("TIMESTAMP", datetime(1, 1, 1, tzinfo=EAST)),
    ("TIME", -1),
    ("TIME", 86_400_000_000),
    ("TIME", "24:00"),
    ("TIME", "09:30Z"),
    ("TIME", time(1, tzinfo=UTC)),
    ("TIME", True),
    ("UUID", ID.replace("-", "")),
    ("UUID", f"{{{ID}}}"),
    ("UUID", ID[:-1] + "g"),
    ("UUID", ID + "\n"),
    ("UUID", 5),
    ("JSON", "{"),
    ("JSON", ""),
    ("JSON", "NaN"),
    ("JSON", {"a": float("nan")}),
    ("JSON", {"a": object()}),
    ("JSON", [{"a": ({1: 2},)}]),
    ("JSON", {True: 1}),
    ("JSON", 5),
    ("JSON", "[" * 100_000),
    ("FILE", "[]"),
    ("FILE", "x"),
]


def ways(type: ColumnType, values: list[Any]) -> list[object]:
    """The outcome by Python values, and by Arrow's own reading of them where there is one: a list, or the row refused."""
    outcomes: list[object] = [outcome(lambda: from_values(type, values))]
    if any(isinstance(value, pd.Timestamp) or (isinstance(value, time) and value.tzinfo) for value in values):
        return outcomes  # Arrow drops the nanoseconds and the zone
    try:
        arrow = pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError, UnicodeEncodeError):
        return outcomes
    if pa.types.is_struct(arrow.type) or pa.types.is_list(arrow.type) or isinstance(arrow, pa.ExtensionArray):
        return outcomes  # Arrow has made something else of them
    return [*outcomes, outcome(lambda: from_array(type, arrow))]


def outcome(read: Any) -> object:
    try:
        array = read()
    except Unfit as error:
        return error.row
    array.validate(full=True)
    return array


@pytest.mark.parametrize(("type", "value", "expected"), TAKEN)
def test_what_fits_is_kept(type: str, value: object, expected: object) -> None:
    column = ColumnType.parse(type)
    for array in ways(column, [None, value, value]):
        assert isinstance(array, pa.Array)
        assert array.type == column.arrow
        assert array.to_pylist() == [None, expected, expected]


@pytest.mark.parametrize(("type", "value"), REFUSED)
def test_what_does_not_fit_is_refused_by_its_row(type: str, value: object) -> None:
    column = ColumnType.parse(type)
    assert set(ways(column, [None, value])) == {1}


@pytest.mark.parametrize(
    ("type", "good"),
    [
        ("BIGINT", 1),
        ("DOUBLE", 1.5),
        ("TEXT", "x"),
        ("TIMESTAMP", datetime.fromisoformat("2026-01-01")),
        ("JSON", "{}"),
        ("DECIMAL(5,2)", "1.5"),
    ],
)
def test_the_first_bad_one_among_many_is_named(type: str, good: object) -> None:
    with pytest.raises(Unfit) as refusal:
        from_values(ColumnType.parse(type), [good] * 700 + [object(), good, object()])
    assert refusal.value.row == 700


@pytest.mark.parametrize(
    ("type", "text", "expected"),
    [
        ("DOUBLE", "5e-324", 5e-324),
        ("DOUBLE", "0.000e7", 0.0),
        ("DOUBLE", "9007199254740992", float(1 << 53)),
        ("DOUBLE", "1000000000000000000", 1e18),
        ("DOUBLE", "123456789012345680000", 1.2345678901234568e20),  # as JavaScript writes it
        ("DOUBLE", "9007199254740993.0", float(1 << 53)),
        ("DOUBLE", "-inf", -float("inf")),
        ("FLOAT", "33554432", float(1 << 25)),
        ("DOUBLE", "1e-400", None),
        ("DOUBLE", "1e400", None),
        ("DOUBLE", "9007199254740993", None),
        ("DOUBLE", "9" * 400, None),
        ("FLOAT", "16777217", None),
        ("FLOAT", "1e-50", None),
    ],
)
def test_a_text_is_the_number_that_is_written_or_none(type: str, text: str, expected: float | None) -> None:
    column = ColumnType.parse(type)
    for others in ([], ["nan", "0", None]):
        if expected is None:
            with pytest.raises(Unfit):
                from_text(column, pa.array([*others, text]))
        else:
            assert from_text(column, pa.array([*others, text]))[-1].as_py() == expected


ANY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.integers(-70_000, 70_000),
    st.floats(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**12), max_value=10**12),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.dates(),
    st.datetimes(timezones=st.sampled_from([None, UTC, EAST])),
    st.times(),
    st.uuids(),
)


@given(type=st.sampled_from(["BOOLEAN", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "TEXT", "BYTES", "DATE",
                             "TIMESTAMP", "TIME", "UUID", "JSON"]), first=ANY, others=st.lists(ANY, max_size=3))  # fmt: skip
def test_many_at_once_is_the_same_as_one_by_one(type: str, first: object, others: list[object]) -> None:
    """`from_values` of a list equals its values alone, and Arrow's reading of the values is taken or refused alike."""
    column = ColumnType.parse(type)
    values = [first, *(other for other in others if other.__class__ is first.__class__)]
    alone = [outcome(lambda value=value: from_values(column, [value])) for value in values]
    together = outcome(lambda: from_values(column, values))
    bad = next((row for row, single in enumerate(alone) if not isinstance(single, pa.Array)), None)
    if bad is not None:
        assert together == bad
        return
    expected = pa.concat_arrays([single for single in alone if isinstance(single, pa.Array)])
    assert isinstance(together, pa.Array)
    assert repr(together.to_pylist()) == repr(expected.to_pylist())
