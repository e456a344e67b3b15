"""Arrow's many types for the same thing, as pandas, polars and others send them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.catalog.column_types import ColumnType
from lakewarden.tables.rows.columns import Unfit, from_array

MICROS = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("type", "given", "expected"),
    [
        ("BIGINT", pa.array([1, None], pa.uint8()), [1, None]),
        ("SMALLINT", pa.array([-5], pa.int64()), [-5]),
        ("TEXT", pa.array(["a", None], pa.large_string()), ["a", None]),
        ("TEXT", pa.array(["a", None], pa.string_view()), ["a", None]),
        ("TEXT", pa.array(["a", "b", "a", None]).dictionary_encode(), ["a", "b", "a", None]),
        ("BYTES", pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        ("BYTES", pa.array([b"ab"], pa.large_binary()), [b"ab"]),
        ("DOUBLE", pa.array([0.5], pa.float32()), [0.5]),
        ("FLOAT", pa.array([0.5], pa.float16()), [0.5]),
        ("DECIMAL(10,2)", pa.array([Decimal("1.5")], pa.decimal256(50, 10)), [Decimal("1.50")]),
        ("DECIMAL(5,0)", pa.array([99_999], pa.uint64()), [Decimal(99_999)]),
        ("DATE", pa.array([date(2026, 1, 1)], pa.date64()), [date(2026, 1, 1)]),
        ("DATE", pa.array([datetime.fromisoformat("2026-01-01"), None], pa.timestamp("ns")), [date(2026, 1, 1), None]),
        ("TIMESTAMP", pa.array([1, None], pa.timestamp("s")), [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), None]),
        ("TIMESTAMP", pa.array([1000], pa.timestamp("ns", tz="Europe/Vienna")), [datetime(1970, 1, 1, 0, 0, 0, 1, UTC)]),
        ("TIMESTAMP", pa.array([date(2026, 1, 1)]), [datetime(2026, 1, 1, tzinfo=UTC)]),
        ("TIME", pa.array([1], pa.time32("s")), [1_000_000]),
        ("TIME", pa.array([5000], pa.time64("ns")), [5]),
        ("TIME", pa.array([7], pa.int32()), [7]),
        ("JSON", pa.array([{"a": 1}, None]), ['{"a":1}', None]),
        ("JSON", pa.array([[1, 2]]), ["[1,2]"]),
        ("JSON", pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())), ['{"a":1}', None]),
        ("TEXT", pa.nulls(2), [None, None]),
        ("BIGINT", pa.array([None], pa.string()), [None]),
        ("TIMESTAMP", pa.array([None], pa.duration("s")), [None]),
    ],
    ids=str,
)
def test_the_same_value_in_another_type_is_taken(type: str, given: pa.Array[Any], expected: list[object]) -> None:
    column = ColumnType.parse(type)
    array = from_array(column, given)
    assert array.type == column.arrow
    assert array.to_pylist() == expected


@pytest.mark.parametrize(
    ("type", "given", "row"),
    [
        ("SMALLINT", pa.array([1, 70_000]), 1),
        ("BIGINT", pa.array([2**64 - 1], pa.uint64()), 0),
        ("BIGINT", pa.array([1.0]), 0),
        ("TEXT", pa.array([b"x"]), 0),
        (
            "DATE",
            pa.array([datetime.fromisoformat("2026-01-01"), datetime.fromisoformat("2026-01-01T05:00")], pa.timestamp("us")),
            1,
        ),
        ("DATE", pa.array([datetime.fromisoformat("2026-01-01")], MICROS), 0),
        ("DATE", pa.array([3_000_000], pa.date32()), 0),
        ("TIMESTAMP", pa.array([1000, None, 1, 2], pa.timestamp("ns")), 2),
        ("TIMESTAMP", pa.array([0] * 9 + [2**62], pa.timestamp("s")), 9),
        ("TIMESTAMP", pa.array([0, 2**62], pa.timestamp("us")), 1),
        ("TIMESTAMP", pa.array([5], pa.duration("s")), 0),
        ("TIMESTAMP", pa.array([5]), 0),
        ("TIME", pa.array([1], pa.time64("ns")), 0),
        ("TIME", pa.array([1, -1]), 1),
        ("TIME", pa.array([86_399_999_999, 86_400_000_000]), 1),
        ("BOOLEAN", pa.array([1]), 0),
        ("BYTES", pa.array(["x"]), 0),
        ("FLOAT", pa.array([1.0, 1e300]), 1),
        ("TEXT", pa.array([["x"]]), 0),
        ("JSON", pa.array([[("a", 1)], [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32())), 1),
        ("JSON", pa.array([[(1, 1)]], pa.map_(pa.int32(), pa.int32())), 0),
    ],
    ids=str,
)
def test_what_would_lose_something_is_refused(type: str, given: pa.Array[Any], row: int) -> None:
    with pytest.raises(Unfit) as refusal:
        from_array(ColumnType.parse(type), given)
    assert refusal.value.row == row


@pytest.mark.parametrize("bad", [-(2**62), 2**62])
def test_one_moment_outside_of_the_calendar_is_found_among_many(bad: int) -> None:
    with pytest.raises(Unfit) as refusal:
        from_array(ColumnType.parse("TIMESTAMP"), pa.array([0] * 90 + [bad] + [0] * 9, MICROS))
    assert refusal.value.row == 90


def test_uuids_of_arrow_become_text() -> None:
    array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(range(16)), None], pa.binary(16)))
    assert from_array(ColumnType("UUID"), array).to_pylist() == ["00010203-0405-0607-0809-0a0b0c0d0e0f", None]
