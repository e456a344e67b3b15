"""The upload sensor over a real source: what it requests, once, and why it skips."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from lakewarden.base.connection import Location
from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.ingest import ingest_job
from lakewarden.dagster.jobs.runs import OBJECTS, TABLE
from lakewarden.dagster.lakehouse import resources_of
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration import flushing, uploads
from lakewarden.dagster.orchestration.uploads import build_upload_sensors
from lakewarden.storage.open import open_store
from tests.fixtures.children import ended, start
from tests.fixtures.dagster import DAGSTER
from tests.fixtures.minio import MinioServer
from tests.fixtures.uploads import ORDERS, make_pipeline, rows, upload

pytestmark = DAGSTER


@pytest.fixture
def shop(tmp_path: Path) -> str:
    uri = str(tmp_path / "warehouse")
    make_pipeline(uri)
    return uri


class Daemon:
    """Evaluates the sensor as Dagster's daemon does: the cursor goes from tick to tick."""

    def __init__(self, uri: str, instance: dg.DagsterInstance) -> None:
        self.uri, self.instance = uri, instance
        self.cursor: str | None = None

    def tick(self) -> tuple[list[dg.RunRequest], str]:
        """The runs that it asks for, and why it skips. What arrived is stored."""
        with Lakehouse.open(self.uri) as lake:
            (sensor,) = build_upload_sensors(Mount(self.uri), lake.warehouse.catalog.read())
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources=resources_of(Mount(self.uri))
        ) as context:
            data = sensor.evaluate_tick(context)
        self.cursor = data.cursor
        for event in data.asset_events:
            self.instance.report_runless_asset_event(event)
        return list(data.run_requests or []), data.skip_message or ""

    def run(self, request: dg.RunRequest) -> None:
        tags = {**Mount(self.uri).tags, **ingest_job.tags, **request.tags}
        done = ingest_job.execute_in_process(
            run_config=request.run_config, tags=tags, instance=self.instance, resources=resources_of(Mount(self.uri))
        )
        assert done.success

    def add_run(self, request: dg.RunRequest, status: dg.DagsterRunStatus) -> dg.DagsterRun:
        tags = {**Mount(self.uri).tags, **ingest_job.tags, **request.tags}
        return self.instance.create_run_for_job(ingest_job, run_config=request.run_config, tags=tags, status=status)

    @property
    def arrivals(self) -> list[int]:
        """The new objects of each event of the source, oldest first."""
        records = self.instance.fetch_materializations(dg.AssetKey(["sources", "uploads", "shop"]), limit=100).records[::-1]
        found = (one.asset_materialization for one in records)
        return [int(str(event.metadata["new/objects"].value)) for event in found if event]


@pytest.fixture
def daemon(shop: str, instance: dg.DagsterInstance) -> Daemon:
    return Daemon(shop, instance)


def test_what_is_new_is_ingested_once(shop: str, daemon: Daemon) -> None:
    assert daemon.tick() == ([], f"nothing new: looked at 0 objects in {shop}/uploads/shop")
    upload(shop, "a.csv", "id,item\n1,tea\n")
    upload(shop, "a.txt", "no object of the rule")
    (request,), _ = daemon.tick()
    assert request.run_config == {"ops": {"ingest": {"config": {"table": ORDERS, "objects": ["a.csv"], "only_new": True}}}}
    assert (request.tags[TABLE], request.tags[OBJECTS]) == (ORDERS, "1")
    (again,), _ = daemon.tick()
    assert again.run_key == request.run_key, "Dagster starts one run of a key"
    daemon.run(request)
    assert daemon.tick() == ([], f"nothing new: looked at 2 objects in {shop}/uploads/shop")
    assert rows(shop) == {1: "tea"}
    assert daemon.arrivals == [1]


def test_an_object_that_comes_again_with_other_content_is_new(shop: str, daemon: Daemon) -> None:
    upload(shop, "a.csv", "id,item\n1,tea\n")
    daemon.run(daemon.tick()[0][0])
    upload(shop, "a.csv", "id,item\n1,coffee\n2,cup\n")
    daemon.run(daemon.tick()[0][0])
    assert rows(shop) == {1: "coffee", 2: "cup"}
    assert daemon.arrivals == [1, 1]


@pytest.mark.slow
def test_what_is_new_in_a_bucket_is_ingested_once(minio: MinioServer, instance: dg.DagsterInstance) -> None:
    uri = minio.prefix_for("sensor")
    make_pipeline(uri)
    daemon, source = Daemon(uri, instance), open_store(Location(f"{uri}/uploads/shop"))
    source.put("deep/a.csv", b"id,item\n1,tea\n")
    source.put("bad.csv", b"id,item\n1\n")
    daemon.run(daemon.tick()[0][0])
    assert daemon.tick() == ([], f"nothing new: looked at 2 objects in {uri}/uploads/shop")
    source.put("deep/a.csv", b"id,item\n1,cup\n")
    daemon.run(daemon.tick()[0][0])
    assert rows(uri) == {1: "cup"}
    assert daemon.arrivals == [2, 1]


@pytest.mark.slow
@pytest.mark.parametrize("versions", [1, pytest.param(2, marks=pytest.mark.night)])
def test_objects_count_once_by_the_sensor_and_by_triggers_at_once(shop: str, daemon: Daemon, versions: int) -> None:
    """The same objects delivered twice, by two runs, beside TriggerIngest, each in a process of its own, as new versions come."""
    for version in range(versions):
        for number in range(4):
            upload(shop, f"{number}.csv", f"id,item\n{number},first{version}\n")
        (request,), _ = daemon.tick()
        for number in range(4):  # a new ETag, after the sensor saw the old one
            upload(shop, f"{number}.csv", f"id,item\n{number},version{version}\n")
        doors = [start(_run, shop, request.run_config), start(_trigger, shop, "2.csv")]
        upload(shop, "0.csv", f"id,item\n0,meanwhile{version}\n")
        daemon.run(request)
        assert [ended(door) for door in doors] == [0, 0]
        for request in daemon.tick()[0]:
            daemon.run(request)
        newest = dict.fromkeys(range(1, 4), f"version{version}")
        assert rows(shop) == {0: f"meanwhile{version}", **newest}
    with Lakehouse.open(shop) as lake:
        assert lake.ingest(ORDERS).batches == 0
        assert not lake.pipelines.standing_rejects(ORDERS)


def _run(uri: str, config: dict[str, object]) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        resources = resources_of(Mount(uri))
        assert ingest_job.execute_in_process(run_config=config, instance=instance, resources=resources).success


def _trigger(uri: str, key: str) -> None:
    with Lakehouse.open(uri) as lake:
        # Known, where the sensor's run found this trigger's batch open and finished it.
        assert lake.k3.trigger_ingest("shop", "orders", key)["status"] in ("INGEST_STATUS_INGESTED", "INGEST_STATUS_KNOWN")


def test_a_tick_requests_so_many_and_lists_so_many(shop: str, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "OBJECTS_PER_RUN", 2)
    monkeypatch.setattr(uploads, "LISTED_PER_TICK", 4)
    for number in range(5):
        upload(shop, f"{number}.csv", f"id,item\n{number},tea\n")
    taken = 0
    for _ in range(8):
        requests, _ = daemon.tick()
        for request in requests:
            taken += int(request.tags[OBJECTS])
            assert int(request.tags[OBJECTS]) <= 2
            daemon.run(request)
    assert taken == 5
    assert set(rows(shop)) == set(range(5))


def test_it_says_what_it_waits_for(shop: str, daemon: Daemon) -> None:
    upload(shop, "a.csv", "id,item\n1,tea\n")
    (request,), _ = daemon.tick()
    with Lakehouse.open(shop) as lake:
        (rule,) = lake.pipelines.rules()
        lake.disable_engine("shop")
        assert daemon.tick() == ([], "engine disabled: shop")
        lake.enable_engine("shop")
        lake.pipelines.edit_rule(rule.id, {"ENABLED": False})
        assert daemon.tick()[1].startswith(f"rule {rule.id} is disabled: ALTER RULE")
        lake.pipelines.edit_rule(rule.id, {"ENABLED": True, "GLOBS": ["*.tsv"]})
        assert daemon.tick()[1].startswith("nothing new")
        lake.pipelines.edit_rule(rule.id, {"GLOBS": ["*.csv"]})
    daemon.add_run(request, dg.DagsterRunStatus.STARTED)
    assert "an ingest is under way: ingest_job" in daemon.tick()[1]


def test_a_run_that_failed_is_tried_again_after_a_while(shop: str, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    upload(shop, "a.csv", "id,item\n1,tea\n")
    (request,), _ = daemon.tick()
    daemon.add_run(request, dg.DagsterRunStatus.FAILURE)
    assert daemon.tick()[1].startswith("1 runs failed, the last of them ")
    monkeypatch.setattr(flushing, "FIRST_WAIT", timedelta(0))
    (again,), _ = daemon.tick()
    assert again.run_key != request.run_key
    daemon.run(again)
    assert rows(shop) == {1: "tea"}


def test_a_dropped_table_takes_nothing_any_more(shop: str, instance: dg.DagsterInstance) -> None:
    with Lakehouse.open(shop) as lake:
        sensors = build_upload_sensors(Mount(shop), lake.warehouse.catalog.read())
        lake.drop_table(ORDERS)
    with dg.build_sensor_context(instance=instance, resources=resources_of(Mount(shop))) as context:
        assert "was dropped" in str(sensors[0].evaluate_tick(context).skip_message)
    with Lakehouse.open(shop) as lake:
        assert build_upload_sensors(Mount(shop), lake.warehouse.catalog.read()) == []
