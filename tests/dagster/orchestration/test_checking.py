"""Checks that start by themselves: behind flushes, in one run for all that they touched, and at night."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa
import pytest

from lakewarden.catalog.model import Column
from lakewarden.client import Lakehouse
from lakewarden.dagster.jobs.runs import OPERATION
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.checking import SAMPLE
from tests.dagster.orchestration.conftest import Load
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

KEY = dg.AssetKey(["chat", "messages"])
STEP = "check_chat__messages"


@pytest.fixture
def instance(shipped_instance: dg.DagsterInstance) -> dg.DagsterInstance:
    return shipped_instance


def flushed(instance: dg.DagsterInstance, *users: str) -> None:
    for user in users:
        instance.report_runless_asset_event(dg.AssetMaterialization(KEY, partition=user))


def test_what_flushes_touched_is_checked_in_one_run(load: Load, chat: str, instance: dg.DagsterInstance) -> None:
    definitions = load(chat)
    sensor = definitions.resolve_sensor_def("check_sensor")
    resources = definitions.resources or {}

    def tick(cursor: str | None) -> tuple[dg.SensorExecutionData, str | None]:
        with dg.build_sensor_context(
            instance=instance, cursor=cursor, resources=dict(resources), repository_def=definitions.get_repository_def()
        ) as context:
            return (data := sensor.evaluate_tick(context)), data.cursor

    users = [f"u_{number}" for number in range(SAMPLE + 5)]
    assert "nothing was flushed" in (tick(None)[0].skip_message or "")
    flushed(instance, *users)
    data, cursor = tick(None)
    (request,) = data.run_requests or []
    assert {key.asset_key for key in request.asset_check_keys or []} == {KEY}
    sample = request.run_config["ops"][STEP]["config"]["users"]
    assert len(set(sample)) == SAMPLE
    assert {*sample} < {*users}
    assert "nothing was flushed" in (tick(cursor)[0].skip_message or "")
    flushed(instance, "ada")
    (request,) = tick(cursor)[0].run_requests or []
    assert request.run_config["ops"][STEP]["config"]["users"] == ["ada"]
    run = instance.create_run_for_job(
        definitions.resolve_job_def("check_job"),
        tags={OPERATION: "check", **Mount(chat).tags},
        status=dg.DagsterRunStatus.STARTED,
    )
    assert tick(cursor)[0].skip_message == "checks are under way", run.run_id


def test_the_nightly_run_is_bounded_and_runs(
    load: Load, chat: str, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWARDEN_MAINTENANCE__LOOKS_PER_RUN", "2")
    with Lakehouse.open(chat) as lake:
        lake.create_table("chat.visits", type="SHARED", columns=[Column("room", "TEXT")], primary_key=[])
        lake.table("chat.visits").direct.append([pa.table({"room": ["lobby", "lobby"]})])
    definitions = load(chat)
    schedule = definitions.resolve_schedule_def("check_nightly")
    with dg.build_schedule_context(instance=instance, resources=dict(definitions.resources or {})) as context:
        (request,) = schedule.evaluate_tick(context).run_requests or []
    job = definitions.resolve_job_def("check_job")
    result = job.execute_in_process(run_config=request.run_config, instance=instance, asset_selection=None)
    found = result.get_asset_check_evaluations()
    said = {one.asset_key.path[-1]: one.description for one in found}
    whole = "1 of 1 scopes checked, all passed"
    assert said == {"messages": "2 of 3 scopes checked, all passed", "rooms": whole, "visits": whole}
    visits = {one.check_name for one in found if one.asset_key.path[-1] == "visits"}
    assert visits == {"columns_as_declared", "log_and_table_agree", "flushed_in_time"}, "its rows may repeat"
