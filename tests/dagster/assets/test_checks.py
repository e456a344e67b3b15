"""The asset checks find what is wrong with a table, on pandas and on Spark, and say what they looked at."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.checks import build_table_checks
from lakewarden.dagster.assets.tables import build_table_specs
from lakewarden.dagster.lakehouse import resources_of
from lakewarden.dagster.mount import Mount
from tests.fixtures.chat import MESSAGES
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

ALL = {"one_row_per_key", "columns_as_declared", "log_and_table_agree", "flushed_in_time"}


def run_checks(uri: str, instance: dg.DagsterInstance, **config: object) -> Mapping[str, dg.AssetCheckEvaluation]:
    """The verdicts on chat.messages, by check."""
    found = execute(uri, instance, dg.AssetSelection.all_asset_checks(), **config)
    assert {one.check_name for one in found if one.asset_key.path[-1] == "rooms"} == ALL
    return {one.check_name: one for one in found if one.asset_key.path[-1] == "messages"}


def execute(
    uri: str, instance: dg.DagsterInstance, selection: dg.AssetSelection, **config: object
) -> Sequence[dg.AssetCheckEvaluation]:
    """The results of these checks, as *Execute* on their page runs them."""
    mount = Mount(uri)
    with Lakehouse.open(uri) as lake:
        catalog = lake.warehouse.catalog.read()
        defs = dg.Definitions(
            assets=build_table_specs(mount, lake.warehouse, catalog),
            asset_checks=build_table_checks(mount, catalog),
            jobs=[dg.define_asset_job("selected", selection=selection, executor_def=dg.in_process_executor)],
            resources=resources_of(mount),
        )
    run_config = {"ops": {"check_chat__messages": {"config": config}}} if config else None
    result = defs.resolve_job_def("selected").execute_in_process(instance=instance, run_config=run_config)
    return result.get_asset_check_evaluations()


def round_of(uri: str) -> str:
    """How far the checks of chat.messages have come."""
    with Lakehouse.open(uri) as lake:
        state, table_id = lake.warehouse.state, lake.table(MESSAGES).table.id
        note = next((state.get(one.key) for one in state.list("check-rounds") if table_id in one.key), None)
        return "" if note is None else str(json.loads(note)["last"])


def looked_at(evaluation: dg.AssetCheckEvaluation) -> list[str]:
    table = evaluation.metadata["looked at"]
    assert isinstance(table, dg.TableMetadataValue)
    return [str(record.data["user"]) for record in table.records]


@pytest.fixture
def ada(chat: str) -> str:
    return f"{chat}/data/chat/messages/ada"


def repeat_a_key(uri: str) -> None:
    """As another writer may: a second row of a key."""
    rows = DeltaTable(uri).to_pyarrow_table().slice(0, 1)
    write_deltalake(uri, rows, mode="append")


def test_good_tables_pass(chat: str, instance: dg.DagsterInstance) -> None:
    found = run_checks(chat, instance)
    assert set(found) == ALL
    assert all(one.passed for one in found.values())
    assert sorted(looked_at(found["one_row_per_key"])) == ["ada", "bob", "eve"]


def test_a_run_looks_at_some_scopes_and_says_which(chat: str, instance: dg.DagsterInstance) -> None:
    first = run_checks(chat, instance, scopes=2)["columns_as_declared"]
    assert first.metadata["checked"].value == "2 of 3 scopes"
    assert first.description == "2 of 3 scopes checked, all passed"
    then = looked_at(run_checks(chat, instance, scopes=2)["columns_as_declared"])
    left = {"ada", "bob", "eve"} - {*looked_at(first)}
    assert left < {*then}, "the scope that was left out comes first"
    assert looked_at(run_checks(chat, instance, users=["bob"])["columns_as_declared"]) == ["bob"]


def test_each_check_can_be_run_by_itself(chat: str, shipped_instance: dg.DagsterInstance) -> None:
    one_check = dg.AssetCheckKey(dg.AssetKey(["chat", "messages"]), "columns_as_declared")
    (one,) = execute(chat, shipped_instance, dg.AssetSelection.checks(one_check))
    assert (one.check_name, one.passed) == ("columns_as_declared", True)
    assert round_of(chat) == "", "the scopes have other checks to come"


def test_what_failed_is_not_vacuumed_and_is_checked_first(chat: str, ada: str, shipped_instance: dg.DagsterInstance) -> None:
    repeat_a_key(ada)
    found = run_checks(chat, shipped_instance)["one_row_per_key"]
    assert found.description == "3 of 3 scopes checked, 1 failed: ada. They are not vacuumed until a check passes."
    with Lakehouse.open(chat) as lake:
        (report,) = lake.vacuum(MESSAGES, user="ada", dry_run=False)
        assert report.fault is not None
        assert report.fault.code == "CONFLICT"
        lake.table(MESSAGES).write([{"id": 0, "content": "settles it"}, {"id": 1, "content": "too"}], user="ada")
        lake.flush()
    assert looked_at(run_checks(chat, shipped_instance, scopes=1)["one_row_per_key"]) == ["ada"]
    with Lakehouse.open(chat) as lake:
        assert [report.fault for report in lake.vacuum(MESSAGES, user="ada", dry_run=False)] == [None]


def test_a_check_of_other_scopes_does_not_hide_a_failure(chat: str, ada: str, shipped_instance: dg.DagsterInstance) -> None:
    repeat_a_key(ada)
    run_checks(chat, shipped_instance)
    found = run_checks(chat, shipped_instance, users=["bob", "eve"])
    assert {name for name, one in found.items() if not one.passed} == {"one_row_per_key"}
    assert found["one_row_per_key"].description == (
        "2 of 3 scopes checked, all passed. Failed before, and not checked now: 1: ada."
        " They are not vacuumed until a check passes."
    )
    failed = found["one_row_per_key"].metadata["failed scopes"]
    assert isinstance(failed, dg.TableMetadataValue)
    assert [record.data["user"] for record in failed.records] == ["ada"], "each later result names it"


def test_a_scope_that_cannot_be_read_fails_and_hides_no_other(chat: str, ada: str, instance: dg.DagsterInstance) -> None:
    for commit in Path(ada, "_delta_log").glob("*.json"):
        commit.write_text("{")
    found = run_checks(chat, instance)
    assert sorted(looked_at(found["one_row_per_key"])) == ["bob", "eve"]
    assert not found["log_and_table_agree"].passed
    failed = found["log_and_table_agree"].metadata["failed scopes"]
    assert isinstance(failed, dg.TableMetadataValue)
    assert [record.data["user"] for record in failed.records] == ["ada"]


def test_a_repeated_key_is_found(chat: str, ada: str, instance: dg.DagsterInstance) -> None:
    repeat_a_key(ada)
    found = run_checks(chat, instance)
    assert not found["one_row_per_key"].passed
    assert found["one_row_per_key"].metadata["unexpected"].value == 2
    assert found["columns_as_declared"].passed


def test_a_repeated_text_is_found(chat: str, instance: dg.DagsterInstance) -> None:
    repeat_a_key(f"{chat}/data/chat/rooms")
    found = execute(chat, instance, dg.AssetSelection.all_asset_checks())
    (rooms,) = (one for one in found if (one.asset_key.path[-1], one.check_name) == ("rooms", "one_row_per_key"))
    assert rooms.description == "1 of 1 scopes checked, 1 failed: the table. They are not vacuumed until a check passes."


@pytest.mark.night
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # pyspark leaves its sockets to the collector
def test_a_repeated_key_is_found_on_spark(chat: str, ada: str, instance: dg.DagsterInstance, spark: SparkSession) -> None:
    assert spark is not None
    assert run_checks(chat, instance, spark_above=0)["one_row_per_key"].passed
    repeat_a_key(ada)
    assert not run_checks(chat, instance, spark_above=0)["one_row_per_key"].passed


def test_a_foreign_column_is_found(chat: str, ada: str, instance: dg.DagsterInstance) -> None:
    rows = DeltaTable(ada).to_pyarrow_table()
    more = rows.append_column("extra", pa.array([1] * rows.num_rows))
    write_deltalake(ada, more, mode="overwrite", schema_mode="overwrite")
    found = run_checks(chat, instance)["columns_as_declared"]
    assert not found.passed
    assert found.metadata["unexpected"].value == 1
    failed = found.metadata["failed scopes"]
    assert isinstance(failed, dg.TableMetadataValue)
    assert [record.data["why"] for record in failed.records] == ["extra long instead of (none)"]


def test_a_row_beyond_the_log_is_found(chat: str, ada: str, instance: dg.DagsterInstance) -> None:
    rows = DeltaTable(ada).to_pyarrow_table().slice(0, 1)
    rows = rows.set_column(rows.column_names.index("id"), "id", pa.array([77], pa.int64()))
    beyond = rows.set_column(rows.column_names.index("_seq"), "_seq", pa.array([1 << 60], pa.int64()))
    write_deltalake(ada, beyond, mode="append")
    found = run_checks(chat, instance)["log_and_table_agree"]
    assert not found.passed
    assert found.metadata["unexpected"].value == 1
