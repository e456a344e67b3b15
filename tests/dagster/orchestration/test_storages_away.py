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
