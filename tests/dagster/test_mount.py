"""No two definitions have one name, whatever tables are called and wherever warehouses are mounted."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Column
from lakewarden.client import Lakehouse
from lakewarden.dagster import build_definitions
from lakewarden.dagster.assets.health import flushed_key, health_key
from lakewarden.dagster.assets.rules import source_key
from lakewarden.dagster.mount import Mount
from lakewarden.errors import InvalidArgument
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

VERBS = ("restore", "optimize", "compact", "check", "upload_sensor", "materialize", "ingest")


PARTS = st.text(alphabet="a_", min_size=1, max_size=4) | st.sampled_from(["eu", "restore", "check", "restore_a", "health"])
NAMES = st.text(alphabet="ab_", max_size=4).map(lambda text: f"a{text}") | st.sampled_from(["health", "ingest", "flush_job"])
TABLES = st.builds(TableName, NAMES | st.sampled_from(["a-b", "sources", "eu", "restore_a"]), NAMES)
MOUNTS = st.lists(PARTS, max_size=3).map(lambda parts: Mount("", tuple(parts)))


def _names(mount: Mount, table: TableName) -> set[str]:
    return {*(mount.table_named(verb, table) for verb in VERBS), *(mount.named(name) for name in ("flush_job", "health"))}


def _keys(mount: Mount, table: TableName) -> set[dg.AssetKey]:
    of_table = [mount.asset_key(table), health_key(mount, table), flushed_key(mount, table), mount.rule_key(table)]
    sources = ["uploads/a", "/uploads/a", "s3://uploads/a", "health", "a/sources.a-health", "a/ingest", "a"]
    return {*of_table, health_key(mount), *(source_key(mount, source) for source in sources)}


@example(Mount(""), TableName("sources", "a"), Mount("", ("eu",)), TableName("a", "a"))
@example(Mount("", ("eu",)), TableName("ns", "ingest"), Mount(""), TableName("eu", "ns"))
@given(MOUNTS, TABLES, MOUNTS, TABLES)
def test_no_two_names_are_the_same(mount: Mount, table: TableName, other: Mount, second: TableName) -> None:
    """Of two mounts, or of one and two tables: `-` and `_` differ in no two namespaces."""
    same = table.namespace.replace("-", "_") == second.namespace.replace("-", "_") and table.name == second.name
    shared = {mount.named(name) for name in ("flush_job", "health")} if mount == other else set()
    assert (same and mount == other) or _names(mount, table) & _names(other, second) == shared
    assert len(_keys(mount, table)) == 12
    assert mount.table_of(mount.asset_key(table)) == table
    if mount != other:
        assert not _keys(mount, table) & _keys(other, second)
        assert mount.dotted(table) != other.dotted(second)


def _made(uri: Path, *tables: str) -> str:
    """A warehouse with these tables: large ones, of which users have a scope each, and those of a pipeline."""
    with Lakehouse.open(str(uri)) as lake:
        for number, table in enumerate(tables):
            namespace = table.split(".")[0]
            if namespace not in {one.name for one in lake.namespaces()}:
                lake.create_namespace(namespace)
            columns, options = [Column("id", "BIGINT"), Column("day", "DATE")], {"FLUSH_POLICY": "interval:60"}
            if number % 3 == 2:
                source = f" WITH (SOURCE = '{uri}/of.{table} ü')" if number > 6 else ""
                lake.sql(f"CREATE SHARED TABLE {table} FROM TEMPLATE csv{source}")
            elif number % 3:
                lake.create_table(table, columns=columns, partition_by=["day"], options=options)
            else:
                lake.create_table(table, type="USER", columns=columns, primary_key=["id"], options=options)
    return str(uri)


CLASHING = ("a.b__c", "a__b.c", "a_.b__c", "check_a.b__c", "a.b", "check_a.b", "ingest.a", "sources.uploads")


@pytest.mark.parametrize("kind", range(3))
def test_tables_whose_names_join_alike_load(tmp_path: Path, kind: int) -> None:
    tables = [*CLASHING[kind:], *CLASHING[:kind]]
    defs = build_definitions(_made(tmp_path / "lake", *tables))
    dg.Definitions.validate_loadable(defs)
    keys = defs.get_repository_def().asset_graph.get_all_asset_keys()
    assert {dg.AssetKey([*table.split("."), *(["ingest"] if n % 3 == 2 else [])]) for n, table in enumerate(tables)} <= keys


def test_warehouses_whose_prefixes_join_alike_load(tmp_path: Path) -> None:
    places = {
        (): ("eu.health", "eu.ingest", "eu.b", "eu.a"),
        ("eu",): ("a.health", "ns.flushed"),
        ("eu", "a"): ("health.ingest",),
    }
    others = {("a", "b"): ("c.d",), ("a_b",): ("c.d",), ("a",): ("b_c.d",), ("restore",): ("restore.x",), ("x", "restore"): ()}
    defs = [
        build_definitions(_made(tmp_path / f"lake{number}", *tables), key_prefix=prefix)
        for number, (prefix, tables) in enumerate({**places, **others}.items())
    ]
    merged = dg.Definitions.merge(*defs)
    dg.Definitions.validate_loadable(merged)
    keys = merged.get_repository_def().asset_graph.get_all_asset_keys()
    assert {dg.AssetKey(["eu", "health"]), dg.AssetKey(["eu", "a", "health"]), dg.AssetKey(["a", "b", "c", "d"])} <= keys


def test_a_prefix_is_not_called_as_the_keys_of_sources() -> None:
    with pytest.raises(InvalidArgument, match="choose another"):
        Mount("", ("sources",))
