from __future__ import annotations

import pytest

from lakewarden.catalog.model import Column, SchemaColumn, TableSchema
from lakewarden.catalog.schema import declare
from lakewarden.catalog.types import ColumnType
from lakewarden.errors import InvalidArgument


def test_a_declaration_becomes_the_first_version() -> None:
    columns = [
        Column("id", "long", default="snowflake_id"),
        Column("content", "string", nullable=False),
        Column("price", "numeric(10, 2)", default="0.50"),
        Column("tenant", "TEXT"),
    ]
    assert declare(columns, ["tenant", "id"]) == TableSchema(
        1,
        (
            SchemaColumn(1, "id", ColumnType("BIGINT"), False, "SNOWFLAKE_ID()"),
            SchemaColumn(2, "content", ColumnType("TEXT"), False, None),
            SchemaColumn(3, "price", ColumnType("DECIMAL", 10, 2), True, "0.50"),
            SchemaColumn(4, "tenant", ColumnType("TEXT"), False, None),
        ),
        ("tenant", "id"),
    )


@pytest.mark.parametrize(
    ("columns", "key", "says"),
    [
        ([], ["id"], "at least one column"),
        ([Column("id", "INT")], [], "needs a primary key"),
        ([Column("id", "INT")], ["ID"], "'ID' is not there"),
        ([Column("id", "INT")], ["id", "id"], "twice"),
        ([Column("id", "INT"), Column("ID", "TEXT")], ["id"], "declared twice"),
        ([Column("id", "INTEGERS")], ["id"], "column 'id': unknown column type 'INTEGERS'"),
        ([Column("_seq", "INT")], ["_seq"], "reserved"),
        (
            [Column("id", "INT", default="UUID_V7()")],
            ["id"],
            "column 'id': default UUID_V7() is for columns of type TEXT or UUID",
        ),
        ([Column("id", "INT", default="NULL")], ["id"], "cannot have the default NULL"),
    ],
)
def test_a_bad_declaration_is_refused(columns: list[Column], key: list[str], says: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        declare(columns, key)
    assert says in refusal.value.message


@pytest.mark.parametrize("type", ["JSON", "FILE", "FLOAT", "DOUBLE"])
def test_some_types_are_no_key(type: str) -> None:
    with pytest.raises(InvalidArgument, match="a primary key cannot be on"):
        declare([Column("id", type)], ["id"])


@pytest.mark.parametrize("type", ["BOOLEAN", "DECIMAL(5,1)", "TEXT", "BYTES", "DATE", "TIMESTAMP", "TIME", "UUID"])
def test_the_others_are(type: str) -> None:
    assert declare([Column("id", type)], ["id"]).primary_key == ("id",)
