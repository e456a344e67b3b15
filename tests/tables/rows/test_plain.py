"""A plain row is what the general way would make of it; whatever needs a second look is left to that."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.base.setting_sections import LogSettings
from lakewarden.catalog.model import Column, TableSchema
from lakewarden.catalog.schema import declare
from lakewarden.errors import ConstraintViolation
from lakewarden.log.record import UPSERT, USER, PlainRow, encode, encoded, log_batch
from lakewarden.tables.intake import plain_row
from lakewarden.tables.rows.intake import to_arrow
from lakewarden.tables.rows.validate import validated
from tests.tables.rows.build import MESSAGES, defaults
from tests.tables.rows.test_values import ANY, REFUSED, TAKEN

EAST = timezone(timedelta(hours=2))
PLAIN: list[tuple[str, object]] = [
    ("BOOLEAN", True),
    ("SMALLINT", -(2**15)),
    ("INT", 2**31 - 1),
    ("BIGINT", -(2**63)),
    ("DOUBLE", float("nan")),
    ("TEXT", "a\0é\U0001f600"),
    ("BYTES", b"\x00\xff"),
    ("DATE", date(1, 1, 1)),
    ("TIMESTAMP", datetime(2, 1, 1, tzinfo=EAST)),
    ("TIMESTAMP", datetime(9998, 12, 31, 23, 59, 59, 999_999, UTC)),
    ("TIMESTAMP", datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Vienna"))),
    ("TIMESTAMP", datetime.fromisoformat("2026-11-21T09:30:00")),
    ("TIME", 86_399_999_999),
    ("JSON", '{"a": [1, null]}'),
    ("UUID", None),
    ("DECIMAL(10,2)", None),
]


def of(type: str) -> TableSchema:
    return declare([Column("k", "BIGINT"), Column("v", type)], ["k"])


def general(schema: TableSchema, row: dict[str, Any]) -> bytes:
    """The chunk that the general way makes of a row."""
    batch = log_batch(schema, validated(schema, to_arrow([row], schema), defaults()), "u", UPSERT)
    (chunk,) = encode(batch, LogSettings())
    return bytes(chunk.data)


@pytest.mark.parametrize(("type", "value"), PLAIN)
def test_a_plain_row_is_recognised(type: str, value: object) -> None:
    row = {"k": 1, "v": value}
    found = plain_row(of(type), [row])
    assert found is not None
    assert bytes(encoded(of(type), [found])) == general(of(type), row)


@pytest.mark.parametrize(("type", "value"), [(kind, value) for kind, value, _ in TAKEN] + REFUSED)
def test_what_is_recognised_is_what_the_general_way_makes_of_it(type: str, value: object) -> None:
    check_same(type, value)


@given(type=st.sampled_from(["BOOLEAN", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "TEXT", "BYTES", "DATE",
                             "TIMESTAMP", "TIME", "UUID", "JSON", "FILE"]), value=ANY)  # fmt: skip
def test_any_value_that_is_recognised_is_what_the_general_way_makes_of_it(type: str, value: object) -> None:
    check_same(type, value)


def check_same(type: str, value: object) -> None:
    row = {"k": 1, "v": value}
    found = plain_row(of(type), [row])
    if found is None:
        return
    try:
        expected = general(of(type), row)
    except ConstraintViolation as error:
        raise AssertionError(f"{value!r} does not fit {type}") from error
    assert bytes(encoded(of(type), [found])) == expected


@pytest.mark.parametrize(
    "row",
    [
        {"id": 1, "content": "x", "colour": 1},
        {"id": None, "content": "x", "at": None},
        {"content": "x", "at": None},
        {"id": 1, "at": None},
        {"id": 1, "content": "x"},
        {"id": 1, "content": "x", "at": None, "price": Decimal(1)},
        {"id": 1, "content": "x" * 70_000, "at": None},
        {},
    ],
    ids=["unknown", "null in the key", "no key", "not null", "a default", "to be converted", "large", "empty"],
)
def test_a_row_that_needs_a_look_is_left_to_the_general_way(row: dict[str, Any]) -> None:
    assert plain_row(MESSAGES, [{"id": 1, "content": "x", "at": None}]) is not None
    assert plain_row(MESSAGES, [row]) is None


def test_one_dict_in_a_list_is_recognised_alone() -> None:
    row: dict[str, Any] = {"id": 1, "content": "x", "at": None}
    assert plain_row(MESSAGES, [row, {**row, "id": 2}]) is None
    assert plain_row(MESSAGES, iter([row])) is None
    assert plain_row(MESSAGES, pa.Table.from_pylist([row])) is None
    assert plain_row(MESSAGES, []) is None


def test_a_plain_row_does_not_change_with_its_caller() -> None:
    row: dict[str, Any] = {"id": 1, "content": "x", "at": None}
    found = plain_row(MESSAGES, [row])
    row["content"] = None
    assert found is not None
    assert found["content"] == "x"


def test_a_plain_row_is_the_batch_of_one_row() -> None:
    row = {"id": 1, "content": "x", "at": None}
    rows = PlainRow(MESSAGES, "u", row).rows
    assert rows.to_pylist() == [{**row, "price": None, "extra": None, "_op": UPSERT, USER: "u"}]
    assert rows.equals(log_batch(MESSAGES, to_arrow([row], MESSAGES), "u", UPSERT).rows)


def test_rows_that_leave_columns_out_are_encoded_together() -> None:
    rows: list[dict[str, object]] = [{"id": 1, "content": "x"}, {"id": 2, "content": "y", "extra": "{}"}]
    whole = pa.table({"id": [1, 2], "content": ["x", "y"], "extra": [None, "{}"]})
    (chunk,) = encode(log_batch(MESSAGES, whole, "u", UPSERT), LogSettings())
    assert bytes(encoded(MESSAGES, rows)) == bytes(chunk.data)
