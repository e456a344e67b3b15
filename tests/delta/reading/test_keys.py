"""Rows are looked up by their whole key, as a dictionary would."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.delta.reading.keys import Keys, rows_with

_KEY = ("a", "b", "c")
_VALUES: tuple[st.SearchStrategy[Any], ...] = (st.sampled_from(["", "x", "y"]), st.integers(-1, 1), st.integers(0, 2))
_ROWS = st.lists(st.tuples(*_VALUES), max_size=12)
_FEW = st.sampled_from([0, 6, 400])
"""Keys are looked up in several ways, by how many rows there are and how often others come."""
_SOME = st.sampled_from(["a", "b", "c", "ab", "abc"])
_OTHERS = st.lists(st.tuples(*(st.none() | values for values in _VALUES)), max_size=12)


@given(rows=_ROWS, others=_OTHERS, key=_SOME, chunk=st.integers(1, 5), few=_FEW, often=st.booleans())
def test_rows_are_found_by_their_keys(rows: list[Any], others: list[Any], key: str, chunk: int, few: int, *, often: bool) -> None:
    """By one column and by several, in one piece and in many. A key with a NULL is found nowhere."""

    def of(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(row[_KEY.index(name)] for name in key)

    first: dict[tuple[Any, ...], int] = {}
    for number, row in enumerate(rows):
        first.setdefault(of(row), number)
    keys = Keys(_table(rows, chunk), tuple(key), few, often)
    assert keys.places(_table(others, chunk)).to_pylist() == [first.get(of(row)) for row in others]


def test_many_small_parts_are_looked_up_without_a_table_of_all_rows_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"a": [f"{number}" for number in range(2000)], "b": pa.array(range(2000), pa.int32())})
    hashed: list[object] = []
    index_in = pc.index_in

    def counted(*given: Any, **named: Any) -> Any:
        hashed.append(named.get("value_set"))
        return index_in(*given, **named)

    monkeypatch.setattr(pc, "index_in", counted)
    for key in (("a",), ("a", "b"), ("b",)):
        keys = Keys(rows, key, often=True)
        assert [keys.places(rows.slice(start, 10))[3].as_py() for start in range(0, 2000, 10)] == list(range(3, 2000, 10))
    assert not hashed


@given(rows=_OTHERS, columns=st.integers(1, 3), few=_FEW)
def test_a_null_is_no_key_of_either_side(rows: list[Any], columns: int, few: int) -> None:
    table = _table(rows, 12)
    places = Keys(table, _KEY[:columns], few).places(table).to_pylist()
    assert [place is None for place in places] == [None in row[:columns] for row in rows]


@given(rows=_ROWS, columns=st.integers(1, 3), few=_FEW)
def test_the_newest_row_of_each_key_is_kept(rows: list[Any], columns: int, few: int) -> None:
    last = {row[:columns]: number for number, row in enumerate(rows)}
    table = _table(rows, 12).append_column("_seq", pa.array(range(len(rows)), pa.int64()))
    newest = Keys.newest(table, _KEY[:columns], few)
    assert newest.rows.column("_seq").to_pylist() == sorted(last.values())
    assert newest.places(newest.rows).to_pylist() == list(range(len(last)))


def _table(rows: list[Any], chunk: int) -> pa.Table:
    """The rows in Arrow, in chunks of so many."""
    parts = [rows[start : start + chunk] for start in range(0, len(rows), chunk)]
    kinds: tuple[Any, ...] = (pa.string(), pa.int32(), pa.int32())
    columns = [pa.chunked_array([[row[at] for row in part] for part in parts], kind) for at, kind in enumerate(kinds)]
    return pa.Table.from_arrays([*columns[:2], columns[2].cast(pa.date32())], names=list(_KEY))


@pytest.mark.parametrize("number", [3, 1_000])
@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"a": 1}, [1]),
        ({"a": 1, "b": "y"}, [1]),
        ({"a": 1, "b": "x"}, []),
        ({"b": "x"}, [0, 2]),
        ({"d": date(2026, 11, 27)}, [0]),
    ],
)
def test_few_rows_and_many_are_found_alike_by_their_values(values: dict[str, object], found: list[int], number: int) -> None:
    columns: dict[str, list[Any]] = {
        "a": [0, 1, None],
        "b": ["x", "y", "x"],
        "d": [date(2026, 11, 27), None, None],
        "place": [0, 1, 2],
    }
    filling = [None] * (number - 3)
    rows = pa.table({name: each + filling for name, each in columns.items()})
    assert rows_with(rows, values).column("place").to_pylist() == found


def test_a_day_beyond_pythons_years_is_passed_over() -> None:
    rows = pa.table({"d": pa.array([10_000_000, 1], pa.int32()).cast(pa.date32())})
    assert rows_with(rows, {"d": date(1970, 1, 2)}).num_rows == 1
