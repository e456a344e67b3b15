"""The order itself."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.errors import InvalidArgument
from lakewarden.maintenance.optimize.zorder import check_columns, z_ordered, z_values
from tests.delta.scopes import schema


def _values(*columns: list[Any]) -> list[int]:
    return [int(z or 0) for z in z_values([pa.chunked_array([pa.array(column)]) for column in columns]).to_pylist()]


def test_bits_are_interleaved_the_first_column_highest() -> None:
    z = _values([0, 0, 1, 1], [0, 1, 0, 1])
    assert sorted(z) == z
    assert len(set(z)) == 4


def test_a_grid_is_walked_in_the_shape_of_a_z() -> None:
    rows = pa.table({"x": [x for x in range(4) for _ in range(4)], "y": list(range(4)) * 4})
    walk = [(row["x"], row["y"]) for row in z_ordered(rows, ["x", "y"]).to_pylist()]
    assert walk[:4] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert walk[4:8] == [(0, 2), (0, 3), (1, 2), (1, 3)]
    assert walk[-1] == (3, 3)


def test_one_column_is_a_plain_sort_that_keeps_equal_rows_in_order() -> None:
    rows = pa.table({"x": [3, 1, None, 2, 1], "row": [0, 1, 2, 3, 4]})
    assert z_ordered(rows, ["x"]).column("row").to_pylist() == [1, 4, 3, 0, 2]


def test_a_skewed_column_weighs_as_much_as_an_even_one() -> None:
    skewed, even = [0, 1, 2, 10**15], [0, 1, 2, 3]
    assert _values(skewed, even) == _values(even, even)


def test_a_quarter_of_the_files_excludes_by_either_column() -> None:
    side = 64
    rows = pa.table({"x": [i % side for i in range(side * side)], "y": [i // side for i in range(side * side)]})
    ordered = z_ordered(rows, ["x", "y"])
    parts = [ordered.slice(start, side * side // 16) for start in range(0, side * side, side * side // 16)]
    for name in ("x", "y"):
        hold = [[int(value or 0) for value in part.column(name).to_pylist()] for part in parts]
        assert sum(min(values) <= 5 <= max(values) for values in hold) == 4


@pytest.mark.parametrize(
    "values",
    [
        [True, False, None],
        ["b", None, "a"],
        [b"b", None, b"a"],
        [Decimal("1.20"), None, Decimal("-1")],
        [date(2020, 1, 1), None, date(2019, 1, 1)],
        [datetime(2020, 1, 1, tzinfo=UTC), None, datetime(2019, 1, 1, tzinfo=UTC)],
        [1.5, float("nan"), None],
    ],
)
def test_every_type_with_an_order(values: list[Any]) -> None:
    z = _values(values)
    assert len(set(z)) == 3


def test_no_rows_and_one_value() -> None:
    assert z_values([pa.chunked_array([pa.array([], pa.int64())])]).to_pylist() == []
    assert _values([7, 7], [1, 1]) == [0, 0]


def test_refused_columns() -> None:
    table = schema("id BIGINT NOT NULL", "body JSON", "photo FILE", *(f"c{number} INT" for number in range(20)))
    check_columns(table, ["id", "c1"])
    for columns, words in [
        (["nope"], "no such column; the table has id, body"),
        (["id", "id"], "names id twice"),
        (["body"], "type JSON have no order"),
        (["photo"], "type FILE have no order"),
        ([f"c{number}" for number in range(17)], "at most 16"),
    ]:
        with pytest.raises(InvalidArgument, match=words):
            check_columns(table, columns)
