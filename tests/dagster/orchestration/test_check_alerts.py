"""A check that turned failed is reported once: of rows, of freshness, of expectations, behind refusals and restarts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationPlanned

from lakewarden.client import Lakehouse
from lakewarden.dagster import FailedAssetCheck, FailedRun, Webhook, build_definitions
from lakewarden.dagster.orchestration.reloading import VARIABLE as DAGSTER_URL
from tests.dagster.orchestration.conftest import Receiver
from tests.dagster.orchestration.test_health import events_of_a_tick, with_interval, write_long_ago
from tests.fixtures.chat import MESSAGES
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

KEY = dg.AssetKey(["chat", "messages"])
LATE = "flushed_in_time"


class Ticks:
    """The sensor as the daemon runs it: a tick that fails keeps its cursor."""

    def __init__(self, definitions: dg.Definitions, instance: dg.DagsterInstance, cursor: str | None = None) -> None:
        self.definitions, self.instance, self.cursor = definitions, instance, cursor

    def __call__(self) -> str:
        sensor = self.definitions.resolve_sensor_def("check_alert_sensor")
        with dg.build_sensor_context(instance=self.instance, cursor=self.cursor) as context:
            found = sensor.evaluate_tick(context)
        self.cursor = found.cursor
        return found.skip_message or ""


def evaluate(instance: dg.DagsterInstance, check: str, *, passed: bool, **metadata: dg.MetadataValue) -> None:
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(KEY, check, passed, description="of a test", metadata=metadata)  # as a sensor reports it
    )


def test_a_late_table_is_posted_once_for_each_time_that_it_turns_late(
    chat: str, receiver: Receiver, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DAGSTER_URL, "http://dagster.example:3000/")
    with_interval(chat)
    definitions = build_definitions(chat, on_failure=Webhook(receiver.url))
    tick = Ticks(definitions, instance)
    events_of_a_tick(definitions, instance)
    assert tick() == "no check is failed"
    write_long_ago(chat, "ada")
    for _ in range(2):
        events_of_a_tick(definitions, instance)
        tick()
    (body,) = receiver.bodies
    assert (body["check"], body["asset"], body["severity"], body["code"]) == (LATE, "chat/messages", "ERROR", None)
    assert (body["warehouse"], body["tables"], body["scopes"]) == (chat, [MESSAGES], [f"{MESSAGES}[ada]"])
    assert (body["job"], body["run_id"]) == ("health_sensor", "")
    assert body["url"] == f"http://dagster.example:3000/assets/chat/messages?view=checks&checkDetail={LATE}"
    assert str(body["text"]).startswith(f"{LATE} of chat/messages failed on {chat}: 1 of 3 scopes are late")
    Ticks(build_definitions(chat, on_failure=Webhook(receiver.url)), instance, tick.cursor)()
    assert len(receiver.bodies) == 1, "a restart repeats nothing"
    with Lakehouse.open(chat) as lake:
        lake.flush()
    events_of_a_tick(definitions, instance)
    assert tick() == "no check is failed"
    write_long_ago(chat, "bob")
    events_of_a_tick(definitions, instance)
    tick()
    assert [one["scopes"] for one in receiver.bodies[1:]] == [[f"{MESSAGES}[bob]"]]


@pytest.mark.slow
def test_a_failed_expectation_is_reported_with_its_run(chat: str, instance: dg.DagsterInstance) -> None:
    suite = {
        "expectations": [{"type": "expect_column_values_to_be_null", "kwargs": {"column": "content"}, "severity": "warning"}]
    }
    found: list[FailedRun | FailedAssetCheck] = []
    definitions = build_definitions(chat, on_failure=found.append, expectations={MESSAGES: suite})
    result = definitions.resolve_job_def("check_job").execute_in_process(instance=instance)
    tick = Ticks(definitions, instance)
    tick()
    tick()
    (one,) = found
    assert isinstance(one, FailedAssetCheck)
    assert (one.check, one.severity, one.job, one.run_id) == (
        "expect_column_values_to_be_null_content",
        "WARN",
        "check_job",
        result.run_id,
    )
    assert tuple(sorted(one.scopes)) == tuple(f"{MESSAGES}[{user}]" for user in ("ada", "bob", "eve"))


def refusing(found: list[str], refused: Mapping[str, Exception]) -> Callable[[FailedRun | FailedAssetCheck], None]:
    def take(failed: FailedRun | FailedAssetCheck) -> None:
        assert isinstance(failed, FailedAssetCheck)
        if failed.check in refused:
            raise refused[failed.check]
        found.append(failed.check)

    return take


def test_what_is_refused_fails_the_tick_keeps_back_no_other_and_is_sent_again(chat: str, instance: dg.DagsterInstance) -> None:
    found, refused = list[str](), {LATE: OSError("404"), "columns_as_declared": OSError("403")}
    tick = Ticks(build_definitions(chat, on_failure=refusing(found, refused)), instance)
    evaluate(instance, LATE, passed=False)
    with pytest.raises(Exception, match="404"):
        tick()
    evaluate(instance, "log_and_table_agree", passed=False)
    assert "1 are sent again" in tick()
    assert found == ["log_and_table_agree"]
    with pytest.raises(Exception, match="404"):
        tick()
    evaluate(instance, "columns_as_declared", passed=False)
    refused.pop(LATE)
    tick()
    assert found == ["log_and_table_agree", LATE]
    evaluate(instance, "columns_as_declared", passed=True)
    assert tick() == "0 checks and runs reported; 2 checks are failed"
    assert found == ["log_and_table_agree", LATE], "it passed before it could be reported"


def test_what_sums_up_other_checks_is_not_reported_and_what_is_being_evaluated_is_as_before(
    chat: str, instance: dg.DagsterInstance
) -> None:
    found = list[str]()
    tick = Ticks(build_definitions(chat, on_failure=refusing(found, {})), instance)
    for check in ("nothing_late", "nothing_broken", "all_checks_pass"):
        instance.report_runless_asset_event(dg.AssetCheckEvaluation(dg.AssetKey(["health"]), check, False))
    tick()
    assert found == ["nothing_broken"]
    evaluate(instance, LATE, passed=False)
    tick()
    planned = dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED
    run = instance.create_run_for_job(build_definitions(chat).resolve_job_def("check_job"))
    instance.report_dagster_event(dg.DagsterEvent(planned.value, run.job_name, event_specific_data=_planned()), run.run_id)
    tick()
    assert found == ["nothing_broken", LATE]
    assert tick.cursor
    assert set(json.loads(tick.cursor)) == {"health:nothing_broken", f"chat/messages:{LATE}"}


def _planned() -> AssetCheckEvaluationPlanned:
    return AssetCheckEvaluationPlanned(asset_key=KEY, check_name=LATE)


def test_two_warehouses_report_their_own(chat: str, receiver: Receiver, tmp_path: Path) -> None:
    us = str(tmp_path / "us")
    with Lakehouse.open(us) as lake:
        lake.create_namespace("chat")
    definitions = dg.Definitions.merge(
        build_definitions(chat, key_prefix=["eu"], on_failure=Webhook(receiver.url)), build_definitions(us, key_prefix=["us"])
    )
    sensors = {one.name for one in definitions.sensors or ()}
    assert "eu_check_alert_sensor" in sensors
    assert not any(name.startswith("us_") and "alert" in name for name in sensors)
