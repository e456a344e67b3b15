"""Assets from the catalog."""

from __future__ import annotations

from dataclasses import replace

import dagster as dg
import pytest

from lakewarden import Column
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.tables import build_table_specs
from lakewarden.dagster.mount import Mount
from tests.fixtures.chat import make_chat
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER


@pytest.fixture
def specs(warehouse_uri: str) -> dict[str, dg.AssetSpec]:
    make_chat(warehouse_uri)
    with Lakehouse.open(warehouse_uri) as lake:
        found = build_table_specs(Mount(warehouse_uri), lake.warehouse, lake.warehouse.catalog.read())
    return {spec.key.to_user_string(): spec for spec in found}


def test_a_user_table_is_partitioned_by_its_users_and_a_shared_one_is_not(specs: dict[str, dg.AssetSpec]) -> None:
    assert list(specs) == ["chat/messages", "chat/rooms"]
    assert specs["chat/messages"].partitions_def == dg.DynamicPartitionsDefinition(name="chat.messages")
    assert specs["chat/rooms"].partitions_def is None


def test_an_asset_tells_its_columns_and_place(specs: dict[str, dg.AssetSpec], warehouse_uri: str) -> None:
    spec = specs["chat/messages"]
    schema = spec.metadata["dagster/column_schema"]
    assert isinstance(schema, dg.TableSchema)
    assert {column.name: column.type for column in schema.columns} == {"id": "BIGINT", "content": "TEXT", "_seq": "BIGINT"}
    assert schema.columns[0].constraints.other == ["primary key"]
    assert not schema.columns[1].constraints.nullable
    assert schema.columns[0].description == "The primary key."
    assert spec.metadata["dagster/table_name"] == "chat.messages"
    assert str(spec.metadata["dagster/uri"]).startswith(f"{warehouse_uri}/data/chat")
    assert spec.kinds == {"deltalake", "parquet"}
    assert spec.group_name == "chat"
    assert "rows:2" in (spec.description or "")


def test_what_people_say_of_a_table_comes_first(warehouse_uri: str) -> None:
    make_chat(warehouse_uri)
    with Lakehouse.open(warehouse_uri) as lake:
        catalog, text = lake.warehouse.catalog.read(), "The rooms that people meet in."
        rooms = {name: replace(table, description=text) for name, table in catalog.tables.items() if name.name == "rooms"}
        (spec,) = build_table_specs(Mount(warehouse_uri), lake.warehouse, replace(catalog, tables=rooms))
    assert (spec.description or "").startswith(f"{text}\n\nSHARED table: ")


def test_too_many_users_are_no_partitions(warehouse_uri: str) -> None:
    make_chat(warehouse_uri)
    with Lakehouse.open(warehouse_uri) as lake:
        catalog = lake.warehouse.catalog.read()
        assert build_table_specs(Mount(warehouse_uri), lake.warehouse, catalog, max_partitions=3)[0].partitions_def is not None
        assert build_table_specs(Mount(warehouse_uri), lake.warehouse, catalog, max_partitions=2)[0].partitions_def is None


def test_a_stream_is_its_log(warehouse_uri: str) -> None:
    make_chat(warehouse_uri)
    with Lakehouse.open(warehouse_uri) as lake:
        lake.create_table("chat.typing", type="STREAM", columns=[Column("e", "TEXT")], options={"TTL_SECONDS": "30"})
        spec = build_table_specs(Mount(warehouse_uri), lake.warehouse, lake.warehouse.catalog.read())[-1]
    assert "for 30 s" in (spec.description or "")
    assert "_lakewarden/log" in str(spec.metadata["dagster/uri"])
    assert spec.partitions_def is not None
