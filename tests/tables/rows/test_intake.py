"""Rows arrive as people have them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # has no stubs here
import polars as pl
import pyarrow as pa
import pytest

from lakewarden.catalog.model import Column
from lakewarden.catalog.schema import declare
from lakewarden.errors import ConstraintViolation, InvalidArgument
from lakewarden.tables.rows.intake import Rows, to_arrow
from lakewarden.tables.rows.validate import validated
from tests.tables.rows.build import MESSAGES, NOW, defaults

ROWS: list[dict[str, Any]] = [
    {"id": 1, "content": "a", "at": datetime(2026, 1, 1, tzinfo=UTC), "price": Decimal("1.50"), "extra": '{"a":1}'},
    {"id": 2, "content": "b", "at": None, "price": None, "extra": None},
]


def read(rows: Rows) -> list[dict[str, Any]]:
    return validated(MESSAGES, to_arrow(rows, MESSAGES), defaults()).to_pylist()


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        tuple(ROWS),
        iter(ROWS),
        pa.Table.from_pylist(ROWS),
        pa.RecordBatch.from_pylist(ROWS),
        pa.Table.from_pylist(ROWS).to_reader(),
        pl.DataFrame(ROWS),
        pd.DataFrame(ROWS),
        pd.DataFrame(ROWS, index=["x", "y"]),
        pa.concat_tables(
            [pa.Table.from_pylist(ROWS[:1]), pa.Table.from_pylist(ROWS[1:], schema=pa.Table.from_pylist(ROWS).schema)]
        ),
    ],
    ids=lambda rows: rows.__class__.__module__.partition(".")[0] + "." + rows.__class__.__name__,
)
def test_every_kind_of_rows_is_the_same(rows: Rows) -> None:
    assert read(rows) == ROWS


@pytest.mark.parametrize(
    "rows",
    [[], (), pa.table({}), pa.table({"id": pa.array([], pa.int64())}), pd.DataFrame(), pl.DataFrame(), pd.DataFrame({"id": []})],
)
def test_no_rows_are_no_rows(rows: Rows) -> None:
    table = validated(MESSAGES, to_arrow(rows, MESSAGES), defaults())
    assert table.num_rows == 0
    assert table.schema.names == MESSAGES.names
    assert table.schema.types == [column.type.arrow for column in MESSAGES.columns]


def test_an_absent_key_takes_the_default_and_none_is_null() -> None:
    rows: list[dict[str, Any]] = [
        {"id": 1},
        {"at": None, "id": 2, "content": "x"},
        {"id": 3, "at": datetime.fromisoformat("2026-01-01")},
    ]
    assert [(row["id"], row["content"], row["at"]) for row in read(rows)] == [
        (1, "empty", NOW),
        (2, "x", None),
        (3, "empty", datetime(2026, 1, 1, tzinfo=UTC)),
    ]


def test_the_difference_stays_with_its_row() -> None:
    rows = to_arrow([{"id": 1, "at": None}, {"id": 2}, {"id": 3, "at": None}], MESSAGES)
    picked = validated(MESSAGES, rows.take([2, 1]), defaults())
    assert picked["at"].to_pylist() == [None, NOW]


def test_an_absent_column_takes_the_default() -> None:
    assert [row["content"] for row in read(pd.DataFrame({"id": [1, 2]}))] == ["empty", "empty"]


def test_a_row_may_be_all_defaults() -> None:
    schema = declare([Column("id", "BIGINT", default="SNOWFLAKE_ID()"), Column("content", "TEXT")], ["id"])
    table = validated(schema, to_arrow([{}, {}], schema), defaults())
    assert table["content"].to_pylist() == [None, None]
    assert len(set(table["id"].to_pylist())) == 2


def test_pandas_floats_that_stand_for_missing_integers() -> None:
    schema = declare([Column("id", "BIGINT"), Column("count", "INT"), Column("share", "DOUBLE")], ["id"])
    frame = pd.DataFrame({"id": [1, 2], "count": [7, np.nan], "share": [0.5, np.nan]})
    table = validated(schema, to_arrow(frame, schema), defaults())
    assert table.to_pylist() == [{"id": 1, "count": 7, "share": 0.5}, {"id": 2, "count": None, "share": None}]
    with pytest.raises(ConstraintViolation, match=r"column 'count', row 0: 7\.5 does not fit INT"):
        to_arrow(pd.DataFrame({"id": [1], "count": [7.5]}), schema)


def test_pandas_objects_are_python_values() -> None:
    frame = pd.DataFrame(
        {"id": [1, 2], "extra": [{"a": 1}, None], "price": [Decimal("1.5"), pd.NA], "at": [pd.NaT, date(2026, 1, 1)]}
    )
    frame = frame.astype({"at": object})
    assert [(row["extra"], row["price"], row["at"]) for row in read(frame)] == [
        ('{"a":1}', Decimal("1.50"), None),
        (None, None, datetime(2026, 1, 1, tzinfo=UTC)),
    ]


def test_polars_has_types_of_its_own() -> None:
    frame = pl.DataFrame({"id": [1], "content": ["x"], "extra": [{"a": [1, 2]}]}, schema_overrides={"content": pl.Categorical})
    assert [(row["content"], row["extra"]) for row in read(frame)] == [("x", '{"a":[1,2]}')]


def test_a_column_that_names_users_passes_through() -> None:
    table = to_arrow([{"id": 1, "tenant": "a"}, {"id": 2, "tenant": "b"}], MESSAGES)
    assert table["tenant"].to_pylist() == ["a", "b"]


class Many(Mapping[str, object]):
    """A row that is no dict."""

    def __init__(self, **values: object) -> None:
        self._values = values

    def __getitem__(self, name: str) -> object:
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def test_a_row_may_be_any_mapping() -> None:
    assert [row["id"] for row in read([Many(id=1), {"id": 2}])] == [1, 2]


@pytest.mark.parametrize(
    "rows",
    [
        None,
        5,
        "rows",
        b"rows",
        {"id": 1},
        [1],
        [{"id": 1}, None],
        [[("id", 1)]],
        pd.Series([1]),
        [{1: 2}],
        [{"id": 1, "absent: id": 5}],
        pl.Series([1]),
    ],
    ids=repr,
)
def test_what_is_no_rows_is_refused(rows: Any) -> None:
    with pytest.raises(InvalidArgument):
        to_arrow(rows, MESSAGES)


@pytest.mark.parametrize(
    "rows",
    [pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"]), pd.DataFrame([[1, 2]], columns=["id", "id"])],
)
def test_a_column_stands_once(rows: Rows) -> None:
    with pytest.raises(InvalidArgument, match="column 'id' appears twice"):
        to_arrow(rows, MESSAGES)


def test_invalid_text_in_arrow_is_refused() -> None:
    bad = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    with pytest.raises(InvalidArgument, match="not valid Arrow data in column 'content'"):
        to_arrow(pa.table({"content": bad}), MESSAGES)
