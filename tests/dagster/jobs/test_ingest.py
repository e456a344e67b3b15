"""Pipelines in Dagster: what a rule takes, what is booked, and what stands rejected."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from lakewarden.client import Lakehouse
from lakewarden.dagster import build_definitions
from lakewarden.dagster.jobs.ingest import ingest_job
from lakewarden.dagster.jobs.queue_job import record_job
from lakewarden.dagster.jobs.runs import OPERATION, TABLE
from tests.dagster.jobs.conftest import RunJob, runner
from tests.fixtures.dagster import DAGSTER
from tests.fixtures.uploads import ORDERS, make_pipeline, rows, upload

pytestmark = DAGSTER

SOURCE = dg.AssetKey(["sources", "uploads", "shop"])
RULE = dg.AssetKey(["shop", "orders", "ingest"])
TABLE_KEY = dg.AssetKey(["shop", "orders"])
REJECTS_KEY = dg.AssetKey(["shop", "orders_rejects"])


@pytest.fixture
def shop(tmp_path: Path) -> str:
    """A warehouse with a pipeline, and two objects uploaded for it, one of them broken."""
    uri = str(tmp_path / "warehouse")
    make_pipeline(uri)
    upload(uri, "monday.csv", "id,item\n1,tea\n2,cup\n")
    upload(uri, "torn.csv", "id,item\n3,pot\n4\n")
    return uri


@pytest.fixture
def run_job(shop: str, instance: dg.DagsterInstance) -> RunJob:
    return runner(shop, instance)


def metadata(instance: dg.DagsterInstance, key: dg.AssetKey) -> list[dict[str, object]]:
    """Of the asset's events, oldest first."""
    records = instance.fetch_materializations(key, limit=100).records[::-1]
    return [
        {name: value.value for name, value in event.metadata.items()} for one in records if (event := one.asset_materialization)
    ]


def check(instance: dg.DagsterInstance) -> dg.AssetCheckEvaluation:
    record = instance.event_log_storage.get_asset_check_execution_history(dg.AssetCheckKey(RULE, "no_rejects"), limit=1)[0]
    assert record.event is not None
    evaluation = record.event.asset_check_evaluation
    assert evaluation is not None
    return evaluation


def test_the_rule_its_table_and_its_rejects_are_booked(shop: str, run_job: RunJob, instance: dg.DagsterInstance) -> None:
    done = run_job(ingest_job, {"table": ORDERS})
    assert done.success
    assert rows(shop) == {1: "tea", 2: "cup"}
    (of_rule,) = metadata(instance, RULE)
    assert (of_rule["objects/ingested"], of_rule["objects/rejected"], of_rule["rows"]) == (1, 1, 2)
    for key in (TABLE_KEY, REJECTS_KEY):
        (of_health,) = metadata(instance, dg.AssetKey([*key.path, f"{'.'.join(key.path)}-health"]))
        assert of_health["delta/rows"] == metadata(instance, key)[0]["dagster/row_count"], "else the lineage calls it unsynced"
        (of_table,) = metadata(instance, key)
        assert isinstance(of_table["delta/version"], int)
        assert of_table["operation"] == "ingest"
        newest = instance.get_latest_materialization_event(key)
        assert newest is not None
        assert newest.asset_materialization is not None
        assert newest.asset_materialization.description == "ingest: done", "not afterwards: the run made the commit"
    evaluation = check(instance)
    assert not evaluation.passed
    assert evaluation.severity is dg.AssetCheckSeverity.WARN
    worst = evaluation.metadata["worst"]
    assert isinstance(worst, dg.TableMetadataValue)
    (shown,) = worst.records
    assert shown.data["object"] == "torn.csv"
    assert "line 3" in str(shown.data["error"])
    run = instance.get_run_by_id(done.run_id)
    assert run is not None
    assert (run.tags[OPERATION], run.tags[TABLE]) == ("ingest", ORDERS)
    before = len(metadata(instance, TABLE_KEY))
    assert run_job(record_job).success
    assert len(metadata(instance, TABLE_KEY)) == before, "no commit is booked twice"


def test_a_reject_stands_until_the_object_is_replaced(shop: str, run_job: RunJob, instance: dg.DagsterInstance) -> None:
    assert run_job(ingest_job, {"table": ORDERS}).success
    upload(shop, "torn.csv", "id,item\n3,pot\n4,jug\n")
    assert run_job(ingest_job, {"table": ORDERS}).success
    assert check(instance).passed
    assert rows(shop) == {1: "tea", 2: "cup", 3: "pot", 4: "jug"}


def test_objects_that_are_named_are_taken_again(shop: str, run_job: RunJob, instance: dg.DagsterInstance) -> None:
    """TriggerIngest: whatever the rule and the ledger say; those of the sensor are taken only if they are new."""
    upload(shop, "notes.txt", "id,item\n9,mug\n")
    assert run_job(ingest_job, {"table": ORDERS, "objects": ["monday.csv", "notes.txt"]}).success
    assert run_job(ingest_job, {"table": ORDERS, "objects": ["monday.csv"]}).success
    assert run_job(ingest_job, {"table": ORDERS, "objects": ["monday.csv"], "only_new": True}).success
    assert rows(shop) == {1: "tea", 2: "cup", 9: "mug"}
    assert [one["objects/ingested"] for one in metadata(instance, RULE)] == [2, 1, 0]


def test_an_ingest_that_is_refused_says_why(run_job: RunJob) -> None:
    failed = run_job(ingest_job, {"table": "shop.nothing"})
    (event,) = [one for one in failed.all_events if one.is_step_failure]
    assert event.step_failure_data.user_failure_data is not None
    assert "NOT_FOUND" in str(event.step_failure_data.user_failure_data.description)


def test_source_rule_and_table_are_one_lineage(shop: str, instance: dg.DagsterInstance) -> None:
    with Lakehouse.open(shop) as lake:
        assert lake.ingest(ORDERS).ingested == 1
    defs = build_definitions(shop)
    graph = defs.get_repository_def().asset_graph
    assert graph.get(RULE).parent_keys == {SOURCE}
    assert graph.get(TABLE_KEY).parent_keys == {RULE}
    assert graph.get(REJECTS_KEY).parent_keys == {RULE}
    assert graph.get(SOURCE).is_external
    assert graph.get(RULE).metadata["template"] == "csv"
    upload(shop, "tuesday.csv", "id,item\n5,can\n")
    (rule,) = (one for one in defs.assets or () if isinstance(one, dg.AssetsDefinition) and RULE in one.keys)
    done = dg.materialize([rule], instance=instance, resources=dict(defs.resources or {}))
    assert done.success
    assert rows(shop)[5] == "can"
    assert len(metadata(instance, RULE)) == 1, "*Materialize* books as the job does"


def test_two_warehouses_have_sources_and_sensors_of_their_own(shop: str, tmp_path: Path) -> None:
    make_pipeline(str(tmp_path / "us"))
    both = dg.Definitions.merge(
        build_definitions(shop, key_prefix=["eu"]), build_definitions(str(tmp_path / "us"), key_prefix=["us"])
    )
    dg.Definitions.validate_loadable(both)
    names = {sensor.name for sensor in both.get_repository_def().sensor_defs}
    assert {"eu_upload_sensor_shop__orders", "us_upload_sensor_shop__orders"} <= names
