"""Tables that begin at version 0 with CREATE TABLE: partitioned ones, and those without a primary key."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from lakewarden import Column, Lakehouse
from lakewarden.base.clock import system_clock
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.changes.objects import add_table
from lakewarden.catalog.evolution import DropColumn, ModifyColumn, RenameColumn
from lakewarden.catalog.store import CatalogVersion, decode, encode
from lakewarden.errors import ConstraintViolation, InvalidArgument, LakewardenError, NotFound, Unsupported
from lakewarden.maintenance.admin.create_table import begun, make_table, new_table
from lakewarden.tables.warehouse import Warehouse, find_table

NAME = TableName("app", "events")
COLUMNS = [Column("id", "BIGINT"), Column("day", "DATE"), Column("kind", "TEXT"), Column("n", "INT")]


@pytest.fixture
def lake(warehouse_uri: str) -> Lakehouse:
    lake = Lakehouse.open(warehouse_uri)
    lake.create_namespace("app")
    return lake


def _warehouse(lake: Lakehouse) -> Warehouse:
    return lake._parts.warehouse


def _delta(lake: Lakehouse) -> DeltaTable:
    warehouse = _warehouse(lake)
    return DeltaTable(warehouse.target(warehouse.catalog.read(), Scope(NAME, None)).uri)


def test_a_partitioned_table_is_there_at_once(lake: Lakehouse) -> None:
    lake.create_table("app.events", columns=COLUMNS, primary_key=["id"], partition_by=["day", "kind"])
    table = _delta(lake)
    assert (table.version(), table.metadata().partition_columns) == (0, ["day", "kind"])
    (entry,) = lake.table("app.events").history()
    assert (entry.operation, entry.version) == ("CREATE TABLE", 0)


def test_a_table_without_a_key_is_written_past_the_log(lake: Lakehouse) -> None:
    events = lake.create_table("app.events", columns=COLUMNS)
    assert _delta(lake).version() == 0
    assert events.read().num_rows == 0
    assert events.write([{"id": 1}, {"id": 1}]).rows == 2
    assert events.write([{"id": 1}], mode="insert").last_seq > 0
    assert (_delta(lake).version(), events.read()["id"].to_pylist(), lake.pending()) == (2, [1, 1, 1], [])
    assert events.write([]).rows == 0
    with pytest.raises(ConstraintViolation, match="'id', row 1"):
        events.write([{"id": 1}, {"id": "x"}])
    with pytest.raises(InvalidArgument, match="belong to no user"):
        events.write([{"id": 1, "who": "u"}], user_column="who")
    assert _delta(lake).version() == 2
    with pytest.raises(Unsupported, match="no primary key"):
        events.delete([{"id": 1}])


def test_another_table_begins_with_its_first_flush(lake: Lakehouse) -> None:
    lake.create_table("app.events", columns=COLUMNS, primary_key=["id"])
    with pytest.raises(NotFound, match="nothing was ever flushed"):
        lake.table("app.events").history()
    make_table(_warehouse(lake), new_table(_warehouse(lake), TableName("app", "k3"), "SHARED", COLUMNS, ["id"], {}), at_once=True)
    assert [entry.version for entry in lake.table("app.k3").history()] == [0]


def test_a_table_whose_creator_died_begins_with_its_first_use(lake: Lakehouse) -> None:
    lake.create_table("app.events", columns=COLUMNS, partition_by=["kind"])
    catalog = _warehouse(lake).catalog.read()
    table = find_table(catalog, NAME)
    lake.drop_table("app.events")
    another = replace(table, id="another", log_id="another")
    died = _warehouse(lake).catalog.change(lambda catalog: add_table(catalog, another, _warehouse(lake).base))
    first = begun(_warehouse(lake), died, another)
    again = begun(_warehouse(lake), died, another)
    assert (first.version, again.version) == (2, 2)  # above version 0 and the fence of the dropped one
    assert _delta(lake).metadata().partition_columns == ["kind"]


def test_a_new_table_in_the_place_of_a_dropped_one_has_its_own_partitions(lake: Lakehouse) -> None:
    lake.create_table("app.events", columns=COLUMNS, partition_by=["kind"])
    lake.drop_table("app.events")
    lake.create_table("app.events", columns=COLUMNS, partition_by=["day"])
    assert _delta(lake).metadata().partition_columns == ["day"]
    lake.drop_table("app.events")
    lake.create_table("app.events", columns=COLUMNS)
    assert _delta(lake).metadata().partition_columns == []


def test_partition_columns_stay_as_they_are(lake: Lakehouse) -> None:
    lake.create_table("app.events", columns=COLUMNS, primary_key=["id"], partition_by=["n"])
    for change in (DropColumn("n"), RenameColumn("n", "m"), ModifyColumn("n", "BIGINT")):
        with pytest.raises(InvalidArgument, match=r"is a partition column of app\.events"):
            lake.alter_table("app.events", change)


def test_a_catalog_of_before_has_tables_without_partitions(lake: Lakehouse) -> None:
    lake.create_table("app.events", columns=COLUMNS, primary_key=["id"])
    catalog = _warehouse(lake).catalog.read()
    body = json.loads(encode(CatalogVersion(catalog, (), system_clock())))
    table = body["catalog"]["tables"]["app.events"]
    del table["schemas"][0]["partition_by"], table["options"]["on_duplicate"]
    assert decode(json.dumps(body).encode(), "test").catalog == catalog


def test_sql_says_the_same(lake: Lakehouse) -> None:
    lake.sql(
        "CREATE SHARED TABLE app.events (id BIGINT, Kind TEXT, n INT) PARTITION BY (kind, N) WITH (ON_DUPLICATE = 'replace')"
    )
    described = lake.sql("DESCRIBE app.events")[0].to_pylist()  # type: ignore[union-attr]
    assert [(row["column_name"], row["is_primary_key"], row["partition_index"]) for row in described] == [
        ("id", False, None),
        ("Kind", False, 0),
        ("n", False, 1),
    ]
    found = find_table(_warehouse(lake).catalog.read(), NAME)
    assert found.options.on_duplicate == "replace"
    (shown,) = lake.sql("SELECT options FROM system.tables")[0].to_pylist()  # type: ignore[union-attr]
    assert json.loads(str(shown["options"]))["ON_DUPLICATE"] == "replace"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("CREATE USER TABLE app.t (id INT PRIMARY KEY, a TEXT) PARTITION BY (a)", "is for SHARED tables"),
        ("CREATE STREAM TABLE app.t (id INT, a TEXT) PARTITION BY (a) WITH (TTL_SECONDS = 9)", "is for SHARED tables"),
        ("CREATE TABLE app.t (id INT, a TEXT) PARTITIONED BY (b)", "PARTITION BY column 'b' is not there"),
        ("CREATE TABLE app.t (id INT, a TEXT) PARTITION BY (a, A)", "names a column twice"),
        ("CREATE TABLE app.t (id INT, a TEXT) WITH (ON_DUPLICATE = 'keep')", "must be error or replace"),
    ],
)
def test_what_no_table_can_be(lake: Lakehouse, text: str, says: str) -> None:
    with pytest.raises(LakewardenError) as refusal:
        lake.sql(text)
    assert (refusal.value.code, says in refusal.value.message) == ("INVALID_ARGUMENT", True)
