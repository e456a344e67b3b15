"""Suites of users: each expectation is a check, a failure blocks vacuums of its scope, and what cannot be read says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from lakewarden.catalog.model import Column
from lakewarden.dagster import build_definitions
from lakewarden.dagster.assets.checks import CheckConfig
from lakewarden.dagster.assets.expected import _expected
from lakewarden.dagster.assets.suites import Suite, suites_of
from lakewarden.dagster.resources.spark import SparkResource
from lakewarden.lakehouse import Lakehouse
from lakewarden.planning.health import health
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

ORDERS = "shop.orders"
KEY = dg.AssetKey(["shop", "orders"])
NOT_NULL = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "amount"}, "meta": {}, "id": None}
BETWEEN = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "amount", "min_value": 0, "max_value": 10}}


@pytest.fixture
def shop(tmp_path: Path) -> str:
    """Users with a row that is right, one with NULL, one out of bounds, and one whose table is empty."""
    uri = str(tmp_path / "lake")
    with Lakehouse.open(uri) as lake:
        lake.create_namespace("shop")
        columns = [Column("id", "BIGINT"), Column("amount", "BIGINT")]
        table = lake.create_table(ORDERS, type="USER", columns=columns, primary_key=["id"])
        for user, amount in {"ada": 5, "bob": None, "eve": 50, "zoe": 5}.items():
            table.write([{"id": 1, "amount": amount}], user=user)
        lake.flush()
        table.delete([{"id": 1}], user="zoe")
        lake.flush()
    return uri


def checked(lake: Lakehouse, suite: Suite, users: tuple[str, ...] = ()) -> dict[str, dg.AssetCheckResult]:
    names = {one.name for one in suite.checks}
    config = CheckConfig(users=list(users), scopes=50, spark_above=1 << 28)
    found = _expected(lake, lake.table(ORDERS).table, KEY, suite, names, config, SparkResource())
    return {str(one.check_name): one for one in found}


def failed(result: dg.AssetCheckResult) -> list[object]:
    table = (result.metadata or {}).get("failed scopes")
    return [record.data["user"] for record in table.records] if isinstance(table, dg.TableMetadataValue) else []


def test_a_failure_is_remembered_blocks_the_vacuum_and_is_lifted(shop: str) -> None:
    (suite,) = suites_of({ORDERS: {"name": "orders", "expectations": [NOT_NULL, BETWEEN]}})
    null, between = (one.name for one in suite.checks)
    with Lakehouse.open(shop) as lake:
        found = checked(lake, suite)
        assert {name: failed(one) for name, one in found.items()} == {null: ["bob"], between: ["eve"]}
        assert {one.user: one.code for one in lake.status() if one.code} == dict.fromkeys(("bob", "eve"), "CONSTRAINT_VIOLATION")
        (table,) = health(lake.warehouse)
        assert (table.broken_scopes, table.failed_scopes) == (0, 2)
        reports = lake.vacuum(ORDERS, look=True)
        assert {one.scope.user for one in reports if one.outcome == "failed"} == {"bob", "eve"}
        later = checked(lake, suite, ("ada",))
        assert (later[null].passed, failed(later[null])) == (False, ["bob"]), "each later result names it"
        lake.table(ORDERS).write([{"id": 1, "amount": 7}], user="bob")
        lake.flush()
        assert checked(lake, suite)[null].passed
        (without,) = suites_of({ORDERS: {"expectations": [NOT_NULL]}})
        assert checked(lake, without)[null].passed
        assert {one.outcome for one in lake.vacuum(ORDERS, look=True)} == {"skipped"}, "what the suite has no more is lifted"


def test_an_expectation_that_cannot_be_evaluated_fails_alone(shop: str) -> None:
    wrong = [
        {"type": "expect_no_such_thing", "kwargs": {}},
        {"type": "expect_column_max_to_be_between", "kwargs": {"column": "x"}},
    ]
    (suite,) = suites_of({ORDERS: {"expectations": [*wrong, BETWEEN]}})
    with Lakehouse.open(shop) as lake:
        found = checked(lake, suite, ("ada",))
    unknown, absent, between = (found[one.name] for one in suite.checks)
    assert (unknown.passed, absent.passed, between.passed) == (False, False, True)
    assert "could not be evaluated" in str((unknown.metadata or {})["failed scopes"])


def test_a_column_may_have_two_expectations_of_one_type() -> None:
    (suite,) = suites_of({ORDERS: {"expectations": [BETWEEN, BETWEEN]}})
    assert len({one.name for one in suite.checks}) == 2


@pytest.mark.parametrize("content", ["{", "[]", '{"expectations": [{"type": "drop_table"}]}', '{"expectations": {}}'])
def test_a_suite_that_does_not_load_is_a_check_that_says_so(
    shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("expectations").mkdir()
    Path(f"expectations/{ORDERS}.json").write_text(content)
    Path("expectations/shop.gone.json").write_text(json.dumps({"expectations": [NOT_NULL]}))
    defs = build_definitions(shop)
    dg.Definitions.validate_loadable(defs)
    checks = {key.name for key in defs.get_repository_def().asset_graph.asset_check_keys if key.asset_key == KEY}
    assert "expectations_load" in checks


_NOT_NEEDED = {"great_expectations", "pyspark", "delta", "py4j", "pandas", "polars", "duckdb", "sqlglot", "sqlalchemy", "alembic"}
_NOT_NEEDED |= {"dagster_graphql", "graphql", "requests", "urllib3", "confluent_kafka", "boto3", "grpc", "typer", "rich"}
_NOT_NEEDED |= {"dagster._daemon", "dagster._core.storage.event_log", "dagster._core.storage.runs.schema"}


def test_what_loads_the_code_location_loads_nothing_that_only_its_runs_need(shop: str, tmp_path: Path) -> None:
    (tmp_path / "expectations").mkdir()
    (tmp_path / f"expectations/{ORDERS}.json").write_text(json.dumps({"expectations": [NOT_NULL]}))
    program = (
        "import sys; from lakewarden.dagster.definitions import build_definitions;"
        f" build_definitions({shop!r}).get_repository_def(); print(*sys.modules)"
    )
    loading = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(loading, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "dagster" in (loaded := set(done.stdout.split()))
    assert not _NOT_NEEDED & loaded
