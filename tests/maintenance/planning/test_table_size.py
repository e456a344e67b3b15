"""The size of a table, by its commits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from deltalake import DeltaTable

from lakewarden import Column, Lakehouse
from lakewarden.maintenance.planning.drains import TableSize, table_size
from tests.fixtures.bucket import path_of


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    with Lakehouse.open(warehouse_uri) as opened:
        opened.create_namespace("app")
        columns = [Column("id", "BIGINT", nullable=False), Column("text", "TEXT")]
        opened.create_table("app.t", type="SHARED", columns=columns, primary_key=["id"])
        yield opened


def _size(lake: Lakehouse) -> TableSize:
    return table_size(lake.warehouse, lake.table("app.t").table)


def test_it_is_that_of_the_newest_commit(lake: Lakehouse) -> None:
    table = lake.table("app.t")
    assert _size(lake) == TableSize(None, 0, 0, 0)
    table.write([{"id": key, "text": "x"} for key in range(10)])
    lake.flush("app.t")
    path = path_of(lake.warehouse.uri) / "data" / "app" / "t"
    first = _size(lake)
    sizes = DeltaTable(str(path)).get_add_actions(flatten=True).column("size_bytes").to_pylist()
    assert first == TableSize(0, 10, 1, sum(sizes))
    table.write([{"id": 50, "text": "pending"}])
    table.delete([{"id": 0}])
    assert _size(lake) == first
    lake.flush("app.t")
    assert (_size(lake).version, _size(lake).rows) == (1, table.read(freshness="eventual").num_rows)
