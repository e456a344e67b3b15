"""Columns that are added to a table of K3: at once and without its files, where every reader sees the same then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakewarden import Lakehouse
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.evolution import AddColumn, AddColumns, RenameColumn
from lakewarden.catalog.model import Column
from lakewarden.maintenance.admin.create_table import begun
from lakewarden.tables.warehouse import Warehouse, find_table

NAME = TableName("b", "t")
COLUMNS: list[dict[str, object]] = [
    {"name": "id", "type": "COLUMN_TYPE_LONG"},
    {"name": "p", "type": "COLUMN_TYPE_STRING", "nullable": True},
]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "w")) as opened:
        opened.k3.create_bucket("b")
        opened.k3.create_table("b", "t", COLUMNS, partition_columns=["p"], merge_keys=["id"])
        opened.k3.insert("b", "t", [{"id": 1, "p": "x"}, {"id": 2, "p": "y"}])
        opened.k3.compact("b", "t")
        yield opened


def _warehouse(lake: Lakehouse) -> Warehouse:
    return lake._parts.warehouse


def _delta(lake: Lakehouse) -> DeltaTable:
    warehouse = _warehouse(lake)
    return DeltaTable(warehouse.target(warehouse.catalog.read(), Scope(NAME, None)).uri)


def _rows(lake: Lakehouse) -> list[dict[str, object]]:
    rows = _delta(lake).to_pyarrow_table().to_pylist()
    return sorted(({name: row[name] for name in row if name != "_seq"} for row in rows), key=lambda row: int(row["id"]))


def _widen(lake: Lakehouse) -> None:
    catalog = _warehouse(lake).catalog.read()
    begun(_warehouse(lake), catalog, find_table(catalog, NAME), columns=True)


@pytest.mark.slow
def test_columns_are_there_at_once_and_no_file_is_written(lake: Lakehouse) -> None:
    lake.k3.insert("b", "t", [{"id": 3, "p": "x"}])
    before = sorted(_delta(lake).file_uris())
    lake.k3.execute("b", "ALTER TABLE t ADD COLUMN n INT, ADD COLUMN s STRING")
    assert (_delta(lake).version(), sorted(_delta(lake).file_uris())) == (2, before)
    assert _rows(lake) == [{"id": 1, "n": None, "s": None, "p": "x"}, {"id": 2, "n": None, "s": None, "p": "y"}]
    (entry,) = lake.k3.history("b", "t", limit=1)
    assert (entry["operation"], entry["parameters"]) == ("ADD COLUMNS", {"columns": "n, s"})
    lake.k3.insert("b", "t", [{"id": 2, "p": "x", "n": 5}])
    lake.k3.compact("b", "t")
    assert [(row["id"], row["n"]) for row in _rows(lake)] == [(1, None), (2, 5), (3, None)]
    lake.k3.update("b", "t", {"s": "late"}, "n IS NULL")
    lake.k3.optimize("b", "t")
    assert [(row["id"], row["s"]) for row in _rows(lake)] == [(1, "late"), (2, None), (3, "late")]
    lake.k3.restore("b", "t", 1)
    assert _rows(lake) == [{"id": 1, "n": None, "s": None, "p": "x"}, {"id": 2, "n": None, "s": None, "p": "y"}]
    assert all(check.passed for check in lake.check())


def test_a_column_with_a_value_for_older_rows_comes_with_the_next_flush(lake: Lakehouse) -> None:
    lake.k3.execute("b", "ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 7")
    assert (_delta(lake).version(), "n" in _rows(lake)[0]) == (1, False), "other readers would see no 7 in the files"
    lake.k3.insert("b", "t", [{"id": 3}])
    lake.k3.compact("b", "t")
    assert [(row["id"], row["n"]) for row in _rows(lake)] == [(1, 7), (2, 7), (3, 7)]


def test_behind_a_rename_the_next_flush_brings_both(lake: Lakehouse) -> None:
    lake.k3.execute("b", "ALTER TABLE t ADD COLUMN n INT")
    lake.k3.update("b", "t", {"n": 4}, "id = 1")
    lake.k3.compact("b", "t")
    lake.alter_table("b.t", RenameColumn("n", "m"))
    lake.k3.execute("b", "ALTER TABLE t ADD COLUMN n INT")
    assert "m" not in _rows(lake)[0]
    lake.k3.insert("b", "t", [{"id": 3}])
    lake.k3.compact("b", "t")
    assert [(row["id"], row["m"], row["n"]) for row in _rows(lake)] == [(1, 4, None), (2, None, None), (3, None, None)]


def test_what_an_interrupted_change_left_is_done_by_the_next_call_or_the_next_flush(lake: Lakehouse) -> None:
    lake.alter_table("b.t", AddColumn(Column("n", "INT")))
    assert _delta(lake).version() == 1
    _widen(lake)
    assert _delta(lake).version() == 2
    _widen(lake)
    assert _delta(lake).version() == 2
    lake.alter_table("b.t", AddColumns((AddColumn(Column("s", "TEXT")), AddColumn(Column("u", "TEXT")))))
    lake.k3.insert("b", "t", [{"id": 3, "s": "x"}])
    lake.k3.compact("b", "t")
    assert [(row["id"], row["n"], row["s"]) for row in _rows(lake)] == [(1, None, None), (2, None, None), (3, None, "x")]


def test_a_table_that_lost_its_beginning_is_begun(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path / "w")) as lake:
        lake.create_namespace("b")
        lake.create_table("b.t", columns=[Column("id", "BIGINT")], primary_key=["id"])
        lake.k3.execute("b", "ALTER TABLE t ADD COLUMN n INT")
        assert [field.name for field in _delta(lake).schema().fields] == ["id", "n", "_seq"]
