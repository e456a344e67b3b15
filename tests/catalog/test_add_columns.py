"""Several columns added by one change are one schema version, or none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.catalog.evolution import AddColumn, AddColumns
from lakewarden.errors import AlreadyExists, InvalidArgument


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    with Lakehouse.open(warehouse_uri) as opened:
        opened.create_namespace("n")
        opened.create_table("n.t", columns=[Column("id", "INT")], primary_key=["id"])
        yield opened


@pytest.mark.parametrize(
    "text", ["ADD COLUMN a INT, b DECIMAL(4,2)", "ADD a INT, ADD b DECIMAL(4,2)", "ADD COLUMNS (a INT, b DECIMAL(4,2))"]
)
def test_all_are_of_one_version(lake: Lakehouse, text: str) -> None:
    """By K3's rules: native SQL makes one change a statement."""
    before = lake.table("n.t").table.schema.version
    lake.k3.execute("n", f"ALTER TABLE t {text}")
    schema = lake.table("n.t").table.schema
    assert (schema.version, [*schema.names]) == (before + 1, ["id", "a", "b"])
    assert len({column.id for column in schema.columns}) == 3
    with pytest.raises(InvalidArgument, match="one change"):
        lake.sql(f"ALTER TABLE n.t {text}")


def test_one_that_exists_refuses_all_or_is_passed_over(lake: Lakehouse) -> None:
    a, twice = AddColumn(Column("a", "INT")), AddColumn(Column("id", "INT"), if_not_exists=True)
    with pytest.raises(AlreadyExists):
        lake.alter_table("n.t", AddColumns((a, a)))
    assert lake.alter_table("n.t", AddColumns((twice,))) == lake.table("n.t").table
    assert [*lake.alter_table("n.t", AddColumns((twice, a))).schema.names] == ["id", "a"]
