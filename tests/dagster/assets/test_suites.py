"""Suites of users: each expectation is a check, a failure blocks vacuums of its scope, and what cannot be read says so."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox
from pyspark.sql import SparkSession

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.evolution import AddColumn
from lakewarden.catalog.model import Column
from lakewarden.client import Lakehouse
from lakewarden.dagster import WarehouseComponent, build_definitions
from lakewarden.dagster.assets.looks import look_at
from lakewarden.dagster.assets.suite_checks import evaluate
from lakewarden.dagster.assets.suites import SuiteSource, old_modules, suites_of
from lakewarden.dagster.spark_session import SparkResource
from lakewarden.maintenance.planning.health import health
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

ORDERS = "shop.orders"
KEY = dg.AssetKey(["shop", "orders"])
NOT_NULL = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "amount"}, "meta": {}, "id": None}
BETWEEN = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "amount", "min_value": 0, "max_value": 10}}
NULL = "expect_column_values_to_not_be_null_amount"
BOUNDS = "expect_column_values_to_be_between_amount"
COLUMNS = [Column("id", "BIGINT"), Column("amount", "BIGINT")]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Users with a row that is right, one with NULL, one out of bounds, and one whose table is empty."""
    monkeypatch.chdir(tmp_path)
    uri = str(tmp_path / "lake")
    with Lakehouse.open(uri) as lake:
        lake.create_namespace("shop")
        table = lake.create_table(ORDERS, type="USER", columns=COLUMNS, primary_key=["id"])
        for user, amount in {"ada": 5, "bob": None, "eve": 50, "zoe": 5}.items():
            table.write([{"id": 1, "amount": amount}], user=user)
        lake.flush()
        table.delete([{"id": 1}], user="zoe")
        lake.flush()
    return uri


def suite_of(*expectations: object) -> dict[str, object]:
    return {"name": "orders", "expectations": [*expectations]}


def run(
    uri: str,
    instance: dg.DagsterInstance,
    expectations: Mapping[str, SuiteSource] | None = None,
    users: Sequence[str] = (),
    *,
    data: bool = False,
) -> Mapping[str, dg.AssetCheckEvaluation]:
    """The results of a run of the suites' checks alone, as *Execute* starts it; with `data`, of the table's own too."""
    defs = build_definitions(uri, expectations=expectations)
    every = defs.get_repository_def().asset_graph.asset_check_keys
    keys = [key for key in every if key.name.startswith("expect") or (data and key.asset_key == KEY)]
    job = dg.define_asset_job("selected", selection=dg.AssetSelection.checks(*keys), executor_def=dg.in_process_executor)
    config = {"ops": {"expect_shop__orders": {"config": {"users": [*users]}}}} if users else None
    selected = dg.Definitions.merge(defs, dg.Definitions(jobs=[job])).resolve_job_def("selected")
    result = selected.execute_in_process(instance=instance, run_config=config)
    return {f"{one.check_name}": one for one in result.get_asset_check_evaluations()}


def failed(result: dg.AssetCheckEvaluation) -> dict[object, object]:
    table = result.metadata.get("failed scopes")
    return {one.data["user"]: one.data["why"] for one in table.records} if isinstance(table, dg.TableMetadataValue) else {}


def test_a_failure_is_remembered_blocks_the_vacuum_and_is_lifted(shop: str, instance: dg.DagsterInstance) -> None:
    both = {ORDERS: suite_of(NOT_NULL, BETWEEN)}
    found = run(shop, instance, both)
    assert {name: [*failed(one)] for name, one in found.items()} == {NULL: ["bob"], BOUNDS: ["eve"]}
    with Lakehouse.open(shop) as lake:
        assert {one.user: one.code for one in lake.status() if one.code} == dict.fromkeys(("bob", "eve"), "CONSTRAINT_VIOLATION")
        (table,) = health(lake.warehouse)
        assert (table.broken_scopes, table.failed_scopes) == (0, 2)
        reports = lake.vacuum(ORDERS, look=True)
        assert {one.scope.user for one in reports if one.outcome == "failed"} == {"bob", "eve"}
        later = run(shop, instance, both, ("ada",))
        assert (later[NULL].passed, [*failed(later[NULL])]) == (False, ["bob"]), "each later result names it"
        lake.table(ORDERS).write([{"id": 1, "amount": 7}], user="bob")
        lake.flush()
        assert run(shop, instance, both)[NULL].passed
        assert run(shop, instance, {ORDERS: suite_of(NOT_NULL)})[NULL].passed
        assert {one.outcome for one in lake.vacuum(ORDERS, look=True)} == {"skipped"}, "what the suite has no more is lifted"


@pytest.mark.parametrize(("without", "blocked"), [(None, 0), (suite_of(), 0), ("{", 1)])
def test_a_suite_that_is_gone_blocks_nothing_and_one_that_cannot_be_read_does(
    shop: str, instance: dg.DagsterInstance, without: dict[str, object] | str | None, blocked: int
) -> None:
    run(shop, instance, {ORDERS: suite_of(NOT_NULL)})
    if isinstance(without, str):
        Path("broken.json").write_text(without)
    source = {} if without is None else {ORDERS: "broken.json" if isinstance(without, str) else without}
    run(shop, instance, source, data=True)
    with Lakehouse.open(shop) as lake:
        assert sum(one.outcome == "failed" for one in lake.vacuum(ORDERS, look=True)) == blocked


def test_an_expectation_that_cannot_be_evaluated_fails_alone(shop: str, instance: dg.DagsterInstance) -> None:
    wrong = [
        {"type": "expect_no_such_thing", "kwargs": {}},
        {"type": "expect_column_max_to_be_between", "kwargs": {"column": "x"}},
    ]
    found = run(shop, instance, {ORDERS: suite_of(*wrong, BETWEEN)}, ("ada",))
    unknown, absent = found["expect_no_such_thing"], found["expect_column_max_to_be_between_x"]
    assert (unknown.passed, absent.passed, found[BOUNDS].passed) == (False, False, True)
    assert "could not be evaluated" in str(failed(unknown)["ada"])


def test_a_column_may_have_two_expectations_of_one_type() -> None:
    (suite,) = suites_of({ORDERS: suite_of(BETWEEN, BETWEEN)})
    assert len({one.name for one in suite.checks}) == 2


@pytest.mark.parametrize("kind", ["object", "value", "path"])
def test_a_suite_is_an_object_a_value_or_a_file_as_great_expectations_saves_it(tmp_path: Path, kind: str) -> None:
    with old_modules():
        from great_expectations.core import ExpectationSuite
        from great_expectations.expectations.core.expect_column_values_to_not_be_null import ExpectColumnValuesToNotBeNull
        from great_expectations.expectations.metadata_types import FailureSeverity

    expected = ExpectColumnValuesToNotBeNull(column="amount", description="paid", severity=FailureSeverity.WARNING)
    suite = ExpectationSuite(name="orders", expectations=[expected])
    saved = tmp_path / "orders.json"
    saved.write_text(json.dumps(suite.to_json_dict()))
    sources: dict[str, SuiteSource] = {"object": suite, "value": suite.to_json_dict(), "path": saved}
    (found,) = suites_of({ORDERS: sources[kind]})
    (check,) = found.checks
    assert (check.name, check.only_warns, check.description) == (
        NULL,
        True,
        "paid\n\nGreat Expectations: expect_column_values_to_not_be_null(column='amount')",
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "Expecting property name"),
        ("[]", "no list `expectations`"),
        ('{"expectations": [{"type": "drop_table"}]}', "is not an expectation"),
        ('{"expectations": [{"expectation_type": "expect_x", "kwargs": {}}]}', "a version before 1.0"),
        ('{"expectations": ["expect_x", 7]}', "is not an expectation"),
        ("[" * 100_000, "recursion"),
        (None, "No such file"),
    ],
    ids=["cut off", "no suite", "no expectation", "of version 0", "no objects", "deep", "missing"],
)
def test_a_suite_that_does_not_load_says_which_file_and_why(tmp_path: Path, content: str | None, why: str) -> None:
    path = tmp_path / "shop.orders.json"
    if content is not None:
        path.write_text(content)
    (suite,) = suites_of({ORDERS: str(path)})
    assert suite.error.startswith(f"{path}: ")
    assert why in suite.error


def test_what_does_not_load_is_a_failed_check_and_keeps_nothing_else_from_loading(
    shop: str, instance: dg.DagsterInstance
) -> None:
    with Lakehouse.open(shop) as lake:
        for name in ("none", "cold"):
            lake.create_table(f"shop.{name}", type="USER", columns=COLUMNS, primary_key=["id"])
    Path("expectations").mkdir()
    for name, content in {
        "shop.orders": "{",
        "shop.gone": "[]",
        "notes": "",
        "shop.none": json.dumps(suite_of(NOT_NULL)),
    }.items():
        Path(f"expectations/{name}.json").write_text(content)
    Path("expectations/.shop.cold.json").write_text("an editor's")
    defs = build_definitions(shop)
    dg.Definitions.validate_loadable(defs)
    found = {(one.asset_key.to_user_string(), one.check_name): one for one in _executed(defs, instance)}
    orders, strays = found["shop/orders", "expectations_load"], found["health", "expectations_load"]
    assert not orders.passed
    assert str(orders.description).startswith("the suite cannot be read: expectations/shop.orders.json: Expecting property name")
    assert (strays.passed, strays.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert str(strays.description).startswith("expectations of notes, shop.gone: no such table")
    none = found["shop/none", NULL]
    assert (none.passed, none.description) == (True, "0 of 0 scopes checked, all passed")
    sensor = defs.resolve_sensor_def("health_sensor")
    with dg.build_sensor_context(instance=instance, resources=dict(defs.resources or {})) as context:
        sensor.evaluate_tick(context)
    keys = [dg.AssetCheckKey(key, "expectations_load") for key in (KEY, dg.AssetKey(["health"]))]
    newest = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    assert [newest[key].run_id for key in keys] == ["", ""], "within five minutes, without a run"


def _executed(defs: dg.Definitions, instance: dg.DagsterInstance) -> Sequence[dg.AssetCheckEvaluation]:
    return defs.resolve_job_def("check_job").execute_in_process(instance=instance).get_asset_check_evaluations()


def test_a_scope_that_cannot_be_read_or_has_older_columns_keeps_no_other_from_its_checks(
    shop: str, instance: dg.DagsterInstance
) -> None:
    with Lakehouse.open(shop) as lake:
        lake.alter_table(ORDERS, AddColumn(Column("note", "TEXT")))
    for file in Path(shop, "data/shop/orders/bob").rglob("*.parquet"):
        file.unlink()
    no_note = {"type": "expect_column_values_to_be_null", "kwargs": {"column": "note"}}
    found = run(shop, instance, {ORDERS: suite_of(BETWEEN, no_note)}, data=True)
    assert [*failed(found["expect_column_values_to_be_null_note"])] == ["bob"]
    assert {*failed(found[BOUNDS])} == {"bob", "eve"}
    assert "CORRUPT" in str(failed(found[BOUNDS])["bob"])
    assert [*failed(found["one_row_per_key"])] == ["bob"]
    assert "cannot be read" in str(failed(found["one_row_per_key"])["bob"])


TYPES = {
    "i": "INT",
    "big": "BIGINT",
    "f": "DOUBLE",
    "d": "DECIMAL(10,2)",
    "s": "TEXT",
    "b": "BOOLEAN",
    "day": "DATE",
    "ts": "TIMESTAMP",
    "u": "UUID",
    "bin": "BYTES",
}
JANUARY, MAY = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 5, 1, tzinfo=UTC)
ONE = {
    "i": 1,
    "big": (1 << 60) + 1,
    "f": 1.5,
    "d": Decimal("1.50"),
    "s": "a",
    "b": True,
    "day": date(2024, 1, 1),
    "ts": JANUARY,
    "u": "123e4567-e89b-12d3-a456-426614174000",
    "bin": b"x",
}
TWO = {**ONE, "i": 3, "big": 3, "f": 2.5, "d": Decimal("2.50"), "s": "b", "b": False, "day": date(2024, 5, 1), "ts": MAY}


def of(kind: str, **arguments: object) -> dict[str, object]:
    return {"type": f"expect_{kind}", "kwargs": arguments}


def _kinds() -> list[dict[str, object]]:
    low = {"day": "2024-01-01", "ts": "2024-01-01T00:00:00"}
    high = {"day": "2024-02-01", "ts": "2024-02-01T02:00:00+02:00"}
    numbers, ordered = ("i", "big", "f", "d"), ("i", "big", "f", "d", "day", "ts")
    return [
        *(of("column_values_to_not_be_null", column=name) for name in TYPES),
        *(of("column_values_to_be_null", column=name) for name in TYPES),
        *(of("column_values_to_be_unique", column=name) for name in TYPES if name != "bin"),
        *(
            of(f"column_{what}_to_be_between", column=name, min_value=low.get(name, 1), max_value=high.get(name, 2))
            for name in ordered
            for what in ("values", "min", "max")
        ),
        *(
            of(f"column_{what}_to_be_between", column=name, min_value=0, max_value=2)
            for name in numbers
            for what in ("mean", "sum", "stdev", "median")
        ),
        *(of("column_values_to_be_in_set", column=name, value_set=[1, 1.5]) for name in numbers),
        of("column_values_to_be_in_set", column="s", value_set=["a"]),
        of("column_values_to_match_regex", column="s", regex="^a$"),
        of("column_value_lengths_to_equal", column="s", value=1),
        of("table_row_count_to_be_between", min_value=2, max_value=5),
        of("table_columns_to_match_ordered_list", column_list=["id", *TYPES]),
        of("compound_columns_to_be_unique", column_list=["i", "s"]),
        of("column_pair_values_a_to_be_greater_than_b", column_A="big", column_B="i", or_equal=True),
        of("column_values_to_be_in_type_list", column="big", type_list=["int64", "LongType"]),
        of("column_values_to_be_in_type_list", column="s", type_list=["str", "StringType"]),
    ]


@pytest.fixture
def kinds(tmp_path: Path) -> str:
    """A column of each type, in scopes with NULLs beside values, without NULLs, with nothing but NULLs, and without rows."""
    uri = str(tmp_path / "kinds")
    with Lakehouse.open(uri) as lake:
        lake.create_namespace("shop")
        columns = [Column("id", "BIGINT"), *(Column(name, kind) for name, kind in TYPES.items())]
        table = lake.create_table(ORDERS, type="USER", columns=columns, primary_key=["id"])
        rows: dict[str, list[dict[str, object]]] = {
            "mixed": [ONE, {}, TWO],
            "full": [ONE, TWO],
            "nulls": [{}, {}],
            "empty": [ONE],
        }
        for user, of_user in rows.items():
            table.write([{"id": number, **row} for number, row in enumerate(of_user)], user=user)
        lake.flush()
        table.delete([{"id": 0}], user="empty")
        lake.flush()
    return uri


Seen = tuple[bool, int, str]


EVERY = ("mixed", "full", "nulls", "empty")


def verdicts(uri: str, expectations: Sequence[object], spark_above: int, users: Sequence[str] = EVERY) -> dict[str, list[Seen]]:
    """What each expectation found in each scope: whether it passed, rows that violate it, and why it could not be evaluated."""
    (suite,) = suites_of({ORDERS: suite_of(*expectations)})
    scopes = [Scope(TableName.parse(ORDERS), user) for user in users]
    with Lakehouse.open(uri) as lake:
        looks = look_at(lake, scopes).opened
        found = {look.user: evaluate(look, suite, range(len(suite.checks)), SparkResource(), spark_above) for look in looks}
    every = range(len(suite.checks))
    return {user: [(one[at].passed, one[at].unexpected, one[at].error) for at in every] for user, one in found.items()}


def test_each_kind_is_evaluated_over_each_type_with_nulls_and_without_rows(kinds: str) -> None:
    expectations = _kinds()
    found = verdicts(kinds, expectations, 1 << 30)
    names = [f"{one['type']} {one['kwargs']}" for one in expectations]
    assert {name: why for of_scope in found.values() for name, (_, _, why) in zip(names, of_scope, strict=True) if why} == {}
    null = [at for at, one in enumerate(expectations) if one["type"] == "expect_column_values_to_not_be_null"]
    assert {user: {of_scope[at][:2] for at in null} for user, of_scope in found.items()} == {
        "mixed": {(False, 1)},
        "full": {(True, 0)},
        "nulls": {(False, 2)},
        "empty": {(True, 0)},
    }
    assert [one[:2] for one in found["mixed"]][len(null) * 2 :][: len(TYPES) - 1] == [(True, 0)] * 8 + [(False, 2)], "u repeats"
    between = [at for at, one in enumerate(expectations) if one["type"] == "expect_column_values_to_be_between"]
    unexpected = dict(zip(("i", "big", "f", "d", "day", "ts"), (found["mixed"][at][1] for at in between), strict=True))
    assert unexpected == {"i": 1, "big": 2, "f": 1, "d": 1, "day": 1, "ts": 1}, "a NULL violates no bounds"


ON_SPARK = ("big", "d", "ts")
"""The columns over which Spark is asked for each kind at night: a job for each is a second."""


def _of_kinds(columns_in_turn: bool) -> list[dict[str, object]]:
    """Each kind over each of those columns that it takes, or over one of them, in turn."""
    kinds: dict[str, list[dict[str, object]]] = {}
    for one in _kinds():
        assert isinstance(one["kwargs"], dict)
        if (column := one["kwargs"].get("column")) is None:
            kinds.setdefault(str(one), []).append(one)
        elif column in ON_SPARK:
            kinds.setdefault(str(one["type"]), []).append(one)
    return [each for turn, ones in enumerate(kinds.values()) for each in ([ones[turn % len(ones)]] if columns_in_turn else ones)]


@pytest.mark.slow
@pytest.mark.parametrize("in_turn", [True, pytest.param(False, marks=pytest.mark.night)])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # pyspark leaves its sockets to the collector
def test_large_scopes_are_evaluated_by_spark_as_small_ones_by_pandas(kinds: str, spark: SparkSession, in_turn: bool) -> None:
    assert spark is not None
    expectations = _of_kinds(in_turn)
    users = ("mixed", "empty")  # a scope without a file is never large
    here, there = verdicts(kinds, expectations, 1 << 30, users), verdicts(kinds, expectations, 0, users)
    names = [f"{one['type']} {one['kwargs']}" for one in expectations]
    assert {
        (user, name): (small, large)
        for user in here
        for name, small, large in zip(names, here[user], there[user], strict=True)
        if small != large
    } == {}
    query = {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE i > 1"}}
    assert [one[0][:2] for one in verdicts(kinds, [query], 1 << 30, users).values()] == [(False, 0), (True, 0)], "however small"


@pytest.mark.filterwarnings("ignore:.*parse_obj_as")  # Dagster's own calls, where it reads a YAML
@pytest.mark.filterwarnings("ignore:Class `.*CodeReference")
@pytest.mark.parametrize("folder", ["component", "working directory", "missing"])
def test_a_component_takes_suites_from_its_yaml(shop: str, instance: dg.DagsterInstance, folder: str) -> None:
    file = "expectations/orders.json"
    with create_defs_folder_sandbox() as sandbox:
        attributes = {"warehouse": shop, "key_prefix": ["eu"], "expectations": {ORDERS: file}}
        place = sandbox.scaffold_component(
            WarehouseComponent,
            defs_yaml_contents={"type": "lakewarden.dagster.WarehouseComponent", "attributes": attributes},
        )
        if folder != "missing":
            saved = (place if folder == "component" else Path.cwd()) / file
            saved.parent.mkdir()
            saved.write_text(json.dumps(suite_of(NOT_NULL)))
        with sandbox.load_component_and_build_defs(place) as (_, defs):
            key, name = dg.AssetKey(["eu", *KEY.path]), "expectations_load" if folder == "missing" else NULL
            selection = dg.AssetSelection.checks(dg.AssetCheckKey(key, name))
            job = dg.define_asset_job("selected", selection=selection, executor_def=dg.in_process_executor)
            selected = dg.Definitions.merge(defs, dg.Definitions(jobs=[job])).resolve_job_def("selected")
            (found,) = selected.execute_in_process(instance=instance).get_asset_check_evaluations()
    assert not found.passed
    assert file in str(found.description) if folder == "missing" else [*failed(found)] == ["bob"]


_NOT_NEEDED = {"great_expectations", "pyspark", "delta", "py4j", "pandas", "polars", "duckdb", "sqlglot", "sqlalchemy", "alembic"}
_NOT_NEEDED |= {"dagster_graphql", "graphql", "requests", "urllib3", "confluent_kafka", "boto3", "grpc", "typer", "rich"}
_NOT_NEEDED |= {"dagster._daemon", "dagster._core.storage.event_log", "dagster._core.storage.runs.schema"}


def test_what_loads_the_code_location_loads_nothing_that_only_its_runs_need(shop: str, tmp_path: Path) -> None:
    (tmp_path / "expectations").mkdir()
    (tmp_path / f"expectations/{ORDERS}.json").write_text(json.dumps(suite_of(NOT_NULL)))
    program = (
        "import sys; from lakewarden.dagster.definitions import build_definitions;"
        f" build_definitions({shop!r}).get_repository_def(); print(*sys.modules)"
    )
    loading = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(loading, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "dagster" in (loaded := set(done.stdout.split()))
    assert not _NOT_NEEDED & loaded
