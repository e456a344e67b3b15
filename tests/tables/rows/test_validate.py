"""All or nothing: a call's rows are the schema's, or an error says which row is not and why."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakewarden.catalog.model import Column
from lakewarden.catalog.schema import declare
from lakewarden.errors import ConstraintViolation, InvalidArgument
from lakewarden.tables.rows.intake import to_arrow
from lakewarden.tables.rows.validate import keys, validated
from tests.tables.rows.build import MESSAGES, NOW, defaults

PAIRS = declare([Column("tenant", "TEXT"), Column("price", "DECIMAL(10,2)"), Column("n", "INT")], ["price", "tenant"])


def check(rows: list[dict[str, Any]]) -> pa.Table:
    return validated(MESSAGES, to_arrow(rows, MESSAGES), defaults())


def test_columns_come_in_the_schemas_order_and_types() -> None:
    table = check([{"content": "x", "id": 1}])
    assert table.schema.names == ["id", "content", "at", "price", "extra"]
    assert table.to_pylist() == [{"id": 1, "content": "x", "at": NOW, "price": None, "extra": None}]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"id": 2, "content": None}, "column 'content', row 1: NULL or no value, and the column is NOT NULL"),
        ({"id": None, "content": "x"}, "column 'id', row 1: NULL or no value, and the column is in the primary key"),
        ({"content": "x"}, "column 'id', row 1: NULL or no value"),
        ({"id": "two", "content": "x"}, "column 'id', row 1: 'two' does not fit BIGINT, which takes a whole number from -92233"),
        (
            {"id": 2, "price": "1.005"},
            "column 'price', row 1: '1.005' does not fit DECIMAL(10,2), which takes a number of at most 8",
        ),
        ({"id": 2, "extra": "x" * 500}, "… (502 characters) does not fit JSON"),
        ({"id": 1, "content": "x"}, "rows 0 and 1 have the same primary key id=1"),
    ],
)
def test_a_bad_row_is_named_with_its_value(row: dict[str, Any], says: str) -> None:
    with pytest.raises(ConstraintViolation) as refusal:
        check([{"id": 1, "content": "x"}, row])
    assert says in refusal.value.message


def test_arrow_rows_are_refused_alike() -> None:
    with pytest.raises(ConstraintViolation, match="column 'id', row 1: 'b' does not fit BIGINT"):
        validated(MESSAGES, pa.table({"id": pa.array([None, "b"])}), defaults())
    with pytest.raises(ConstraintViolation, match="column 'id', row 0: NULL"):
        validated(MESSAGES, pa.table({"id": pa.array([None, 1])}), defaults())


@pytest.mark.parametrize("name", ["colour", "ID", "_seq", "_op", "_user"])
def test_an_unknown_column_is_named_with_those_that_are_known(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"unknown column '{name}'; the columns are id, content, at, price, extra"):
        check([{"id": 1, name: None}])


def test_one_key_may_stand_once_for_each_user() -> None:
    rows = to_arrow([{"id": 1}, {"id": 1}, {"id": 2}], MESSAGES)
    assert validated(MESSAGES, rows, defaults(), pa.array(["a", "b", "a"])).num_rows == 3
    with pytest.raises(ConstraintViolation, match="rows 0 and 1 have the same primary key id=1"):
        validated(MESSAGES, rows, defaults(), pa.array(["a", "a", "b"]))


def test_a_key_of_several_columns_is_compared_by_value() -> None:
    rows: list[dict[str, Any]] = [{"tenant": "a", "price": "1.5"}, {"tenant": "A", "price": 1.5}, {"tenant": "a", "price": 1}]
    assert validated(PAIRS, to_arrow(rows, PAIRS), defaults()).num_rows == 3
    with pytest.raises(ConstraintViolation, match=r"the same primary key price=Decimal\('1.50'\), tenant='a'"):
        validated(PAIRS, to_arrow([*rows, {"tenant": "a", "price": "1.50"}], PAIRS), defaults())


def test_one_uuid_in_two_spellings_is_one_key() -> None:
    schema = declare([Column("id", "UUID")], ["id"])
    one = "0191e3c5-7f4a-7cc2-98a1-3b5e0c9d2f11"
    with pytest.raises(ConstraintViolation, match="same primary key"):
        validated(schema, to_arrow([{"id": one}, {"id": one.upper()}], schema), defaults())


@pytest.mark.parametrize("type", ["BOOLEAN", "SMALLINT", "DECIMAL(38,10)", "BYTES", "DATE", "TIMESTAMP", "TIME", "UUID"])
def test_twins_are_found_for_every_type_of_key(type: str) -> None:
    schema = declare([Column("id", type)], ["id"])
    value: Any = {
        "BOOLEAN": True,
        "SMALLINT": 1,
        "DECIMAL(38,10)": 1,
        "BYTES": b"x",
        "DATE": "2026-01-01",
        "TIMESTAMP": "2026-01-01",
        "TIME": 0,
        "UUID": "0191e3c5-7f4a-7cc2-98a1-3b5e0c9d2f11",
    }[type]
    assert validated(schema, to_arrow([{"id": value}], schema), defaults()).num_rows == 1
    with pytest.raises(ConstraintViolation, match="same primary key"):
        validated(schema, to_arrow([{"id": value}, {"id": value}], schema), defaults())


def test_a_delete_takes_the_key_in_key_order() -> None:
    table = keys(PAIRS, to_arrow([{"tenant": "a", "price": 1}, {"price": "2.5", "tenant": "b"}], PAIRS))
    assert table.schema.names == ["price", "tenant"]
    assert table["tenant"].to_pylist() == ["a", "b"]


@pytest.mark.parametrize(
    ("row", "error", "says"),
    [
        ({"tenant": "a"}, InvalidArgument, "takes the primary key (price, tenant); column 'price' is missing"),
        ({"tenant": "a", "price": 1, "n": 5}, InvalidArgument, "not column 'n'"),
        ({"tenant": "a", "price": 1, "x": 5}, InvalidArgument, "not column 'x'"),
        ({"tenant": None, "price": 1}, ConstraintViolation, "column 'tenant', row 0: NULL"),
        ({"tenant": "a", "price": "x"}, ConstraintViolation, "column 'price', row 0: 'x' does not fit DECIMAL(10,2)"),
    ],
)
def test_a_delete_takes_nothing_else(row: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error) as refusal:
        keys(PAIRS, to_arrow([row], PAIRS))
    assert says in str(refusal.value)


def test_a_delete_names_a_key_once_for_each_user() -> None:
    rows = to_arrow([{"id": 1}, {"id": 1}], MESSAGES)
    assert keys(MESSAGES, rows, pa.array(["a", "b"])).num_rows == 2
    with pytest.raises(ConstraintViolation, match="same primary key"):
        keys(MESSAGES, rows)


def test_deleting_nothing_takes_nothing() -> None:
    assert keys(MESSAGES, pa.table({"id": pa.array([], pa.int64())})).num_rows == 0
