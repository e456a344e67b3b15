from __future__ import annotations

import pytest

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.model import Column, SchemaColumn, TableSchema, TableType
from lakewarden.catalog.schema import declare
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


_COLUMNS = [Column("id", "INT"), Column("a", "TEXT"), Column("b", "DOUBLE")]


def test_a_shared_table_may_have_partitions_and_no_key() -> None:
    made = declare(_COLUMNS, [], "SHARED", ["a", "id"])
    assert (made.keyed, made.partition_by, made.append_only) == (False, ("a", "id"), False)


@pytest.mark.parametrize(
    ("type", "by", "says"),
    [
        ("SHARED", ["c"], "PARTITION BY column 'c' is not there"),
        ("SHARED", ["a", "a"], "PARTITION BY (a, a) names a column twice"),
        ("SHARED", ["b"], "a table cannot be partitioned by BYTES, DOUBLE, FILE, FLOAT, JSON"),
        ("USER", ["a"], "is for SHARED tables, and this is a USER table"),
        ("STREAM", ["a"], "is for SHARED tables, and this is a STREAM table"),
    ],
)
def test_a_bad_partitioning_is_refused(type: TableType, by: list[str], says: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        declare(_COLUMNS, ["id"], type, by)
    assert says in refusal.value.message


def test_a_data_file_needs_a_column_that_is_no_partition_column() -> None:
    with pytest.raises(InvalidArgument, match="names every column"):
        declare(_COLUMNS[:2], ["id"], "SHARED", ["a", "id"])


@pytest.mark.parametrize("type", ["JSON", "FILE", "FLOAT", "DOUBLE"])
def test_some_types_are_no_key(type: str) -> None:
    with pytest.raises(InvalidArgument, match="a primary key cannot be on"):
        declare([Column("id", type)], ["id"])


@pytest.mark.parametrize("type", ["BOOLEAN", "DECIMAL(5,1)", "TEXT", "BYTES", "DATE", "TIMESTAMP", "TIME", "UUID"])
def test_the_others_are(type: str) -> None:
    assert declare([Column("id", type)], ["id"]).primary_key == ("id",)
