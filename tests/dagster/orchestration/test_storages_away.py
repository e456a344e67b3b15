"""One storage away, all else works: each sensor and schedule looks, and the code location loads."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from lakewarden.catalog.model import Column
from lakewarden.client import Lakehouse
from lakewarden.maintenance.planning.health import health
from tests.dagster.orchestration.conftest import Load
from tests.fixtures.chat import write
from tests.fixtures.dagster import DAGSTER
from tests.fixtures.minio import MinioServer
from tests.fixtures.stores_away import WAYS, far_storage, gone

pytestmark = DAGSTER


@pytest.mark.parametrize("used", [False, True])
def test_all_that_looks_by_itself_does(chat: str, load: Load, instance: dg.DagsterInstance, tmp_path: Path, used: bool) -> None:
    with Lakehouse.open(chat) as lake:
        lake.create_storage("far", type="filesystem", base=str(tmp_path / "far"))
        if used:
            columns = [Column("id", "BIGINT"), Column("content", "TEXT")]
            options = {"STORAGE_ID": "far", "FLUSH_POLICY": "rows:1"}
            far = lake.create_table("chat.far", type="USER", columns=columns, primary_key=["id"], options=options)
            far.write([{"id": 1, "content": "a"}], user="ada")
            lake.flush("chat.far")
            far.write([{"id": 2, "content": "b"}], user="ada")
    write(chat, "ada", 10, 11)
    (tmp_path / "far").rename(tmp_path / "unmounted")
    (tmp_path / "far").mkdir()
    defs = load(chat)
    dg.Definitions.validate_loadable(defs)
    look_around(defs, instance)
    run = defs.resolve_job_def("flush_job").execute_in_process(instance=instance, raise_on_error=False)
    assert run.success == (not used)
    record = defs.resolve_job_def("record_job").execute_in_process(instance=instance, raise_on_error=False)
    assert record.success == (not used)
    assert instance.get_materialized_partitions(dg.AssetKey(["chat", "messages"])) == {"ada", "bob", "eve"}
    checks = defs.resolve_job_def("check_job").execute_in_process(instance=instance, raise_on_error=False)
    judged = {one.asset_key.path[-1]: one.passed for one in checks.get_asset_check_evaluations() if one.check_name[0] == "l"}
    assert judged["messages"]
    with Lakehouse.open(chat) as lake:
        assert [(one.broken_scopes, one.failed_scopes) for one in health(lake.warehouse)] == [(0, 0)] * (3 if used else 2)
        assert not [one for one in lake.status() if one.code], "a storage that is away breaks no scope"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["refused", *(pytest.param(way, marks=pytest.mark.night) for way in WAYS if way != "refused")])
def test_a_bucket_away_is_red_by_name_and_all_else_goes_on(
    minio: MinioServer, load: Load, instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    with far_storage(minio, tmp_path / f"dagster-{way}" / "lake", monkeypatch) as far, gone(far, way, minio, monkeypatch):
        defs = load(str(far.root))
        dg.Definitions.validate_loadable(defs)
        look_around(defs, instance)
        assert not run_job(defs, instance, "flush_job").success
        with Lakehouse.open(str(far.root)) as lake:
            left = {str(one.table) for one in lake.pending()}
            assert left == {"n.far", "n.sfar"}, "the rest was flushed"
        assert not run_job(defs, instance, "record_job").success
        assert instance.get_materialized_partitions(dg.AssetKey(["n", "near"])) == {"ada", "bob"}
        checks = run_job(defs, instance, "check_job").get_asset_check_evaluations()
        passed = {one.asset_key.path[-1] for one in checks if one.passed and one.check_name == "log_and_table_agree"}
        assert {"near", "snear"} <= passed
        for job in ("optimize_job", "compact_job", "vacuum_job"):
            assert not run_job(defs, instance, job).success
        look = defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance, asset_selection=[dg.AssetKey(["health"])], raise_on_error=False
        )
        assert look.success
        (broken,) = (one for one in look.get_asset_check_evaluations() if one.check_name == "nothing_broken")
        assert not broken.passed
        assert "storage 'far'" in str(broken.description)
        worst = str(broken.metadata["worst"].value)
        assert "n.far" in worst
        assert "[check](/guess/check_all_job/playground/setup?config=" in worst
        assert "n.near" not in worst
        assert run_job(defs, instance, "check_all_job").success


def run_job(defs: dg.Definitions, instance: dg.DagsterInstance, name: str) -> dg.ExecuteInProcessResult:
    return defs.resolve_job_def(name).execute_in_process(instance=instance, raise_on_error=False)


def look_around(defs: dg.Definitions, instance: dg.DagsterInstance) -> None:
    """Evaluates each sensor and schedule; raises as they do."""
    repository = defs.get_repository_def()
    resources = repository.get_top_level_resources()
    for sensor in repository.sensor_defs:
        if sensor.name == "default_automation_condition_sensor":
            continue
        with dg.build_sensor_context(instance=instance, resources=resources, definitions=defs) as context:
            sensor.evaluate_tick(context)
    for schedule in repository.schedule_defs:
        with dg.build_schedule_context(instance=instance, resources=resources) as at:
            schedule.evaluate_tick(at)
