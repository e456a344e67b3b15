"""A run that failed for good is reported once: to a real HTTP server, with what failed and where to look."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import dagster as dg
import pytest

from lakewarden.client import Lakehouse
from lakewarden.dagster import FailedAssetCheck, FailedRun, Webhook, build_definitions
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.reloading import VARIABLE as DAGSTER_URL
from lakewarden.errors import InvalidArgument
from tests.dagster.orchestration.conftest import Receiver
from tests.dagster.orchestration.test_check_alerts import Ticks
from tests.fixtures.chat import MESSAGES, write
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER


Report = Callable[[dg.Definitions, str, Mapping[str, object], Mapping[str, str]], str]


@pytest.fixture
def report(instance: dg.DagsterInstance) -> Report:
    """Runs a job that fails, shows it to the alert sensor as the daemon does, and returns why the sensor skipped."""

    def run(defs: dg.Definitions, job: str, config: Mapping[str, object], tags: Mapping[str, str]) -> str:
        op = job.removesuffix("_job")
        result = defs.resolve_job_def(job).execute_in_process(
            instance=instance, run_config={"ops": {op: {"config": dict(config)}}}, tags=dict(tags), raise_on_error=False
        )
        assert not result.success
        run = instance.get_run_by_id(result.run_id)
        assert run
        (ended,) = (event for event in result.all_events if event.event_type is dg.DagsterEventType.RUN_FAILURE)
        sensor = defs.resolve_sensor_def("alert_sensor")
        with dg.build_run_status_sensor_context("alert_sensor", ended, instance, run) as context:
            said = sensor(context.for_run_failure())
        return said.skip_message or "" if isinstance(said, dg.SkipReason) else ""

    return run


def break_table(chat: str, user: str) -> None:
    """The scope cannot be read any more."""
    (Path(chat) / "data" / "chat" / "messages" / user / "_delta_log" / f"{1:020}.json").write_text("no JSON")


@pytest.mark.disk
def test_a_failed_flush_is_posted_with_its_scopes_and_its_page(
    chat: str, receiver: Receiver, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALERTS", receiver.url)
    monkeypatch.setenv("TOKEN", "Bearer secret")
    monkeypatch.setenv(DAGSTER_URL, "http://dagster.example:3000/")
    hook = Webhook(dg.EnvVar("ALERTS"), {"Authorization": dg.EnvVar("TOKEN")})
    assert "ALERTS" not in repr(hook)
    defs = build_definitions(chat, on_failure=hook)
    for user in ("ada", "bob"):
        write(chat, user, 10)
    break_table(chat, "ada")
    assert report(defs, "flush_job", {"tables": [MESSAGES]}, {}) == ""
    (body,) = receiver.bodies
    assert receiver.headers[0]["Authorization"] == "Bearer secret"
    assert body["warehouse"] == chat
    assert (body["job"], body["code"], body["tables"]) == ("flush_job", "CORRUPT", [MESSAGES])
    assert body["scopes"] == [f"{MESSAGES}[ada]"]
    assert body["url"] == f"http://dagster.example:3000/runs/{body['run_id']}"
    assert "1 of 2 scopes failed" in str(body["message"])
    assert str(body["text"]).startswith(f"flush_job failed on {chat}: 1 of 2 scopes failed")
    with Lakehouse.open(chat) as lake:
        assert [one.user for one in lake.pending()] == ["ada"], "bob's rows are flushed"


def test_a_function_gets_the_runs_of_its_warehouse_once_they_are_given_up(chat: str, report: Report, tmp_path: Path) -> None:
    found: list[FailedRun | FailedAssetCheck] = []
    defs = build_definitions(chat, on_failure=found.append)
    config = {"table": "chat.nothing", "to": "nowhere"}
    assert "will be retried" in report(defs, "move_job", config, {"dagster/will_retry": "true"})
    assert "not of this warehouse" in report(defs, "move_job", config, Mount(str(tmp_path / "us")).tags)
    assert found == []
    report(defs, "move_job", config, {})
    assert [(one.job, one.code, one.tables, one.scopes) for one in found] == [("move_job", "NOT_FOUND", ("chat.nothing",), ())]


def test_a_webhook_that_does_not_take_it_fails_the_tick(receiver: Receiver) -> None:
    failed = FailedRun("/lake", "flush_job", "1", "/runs/1", (), (), None, "gone")
    with pytest.raises(OSError, match="404"):
        Webhook(f"{receiver.url}/gone")(failed)
    with pytest.raises(InvalidArgument, match="must begin with http"):
        Webhook("file:///etc/passwd")(failed)
    with pytest.raises(InvalidArgument, match="NO_SUCH is not set"):
        Webhook(dg.EnvVar("NO_SUCH"))(failed)


@pytest.mark.disk
def test_the_alert_of_a_run_that_was_refused_is_sent_again(
    chat: str, receiver: Receiver, report: Report, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALERTS", f"{receiver.url}/moved")
    defs = build_definitions(chat, on_failure=Webhook(dg.EnvVar("ALERTS")))
    write(chat, "ada", 10)
    break_table(chat, "ada")
    again = Ticks(defs, instance)
    with pytest.raises(Exception, match="another address"):
        report(defs, "flush_job", {"tables": [MESSAGES]}, {})
    with pytest.raises(Exception, match="another address"):
        again()
    monkeypatch.setenv("ALERTS", receiver.url)
    receiver.bodies.clear()
    again()
    again()
    (body,) = [one for one in receiver.bodies if "check" not in one]
    assert (body["job"], body["code"], body["scopes"]) == ("flush_job", "CORRUPT", [f"{MESSAGES}[ada]"])


def failed_run() -> FailedRun:
    return FailedRun("w", "flush_job", "1", "/runs/1", (), (), None, "died")


@pytest.mark.parametrize(("path", "why"), [("/moved", "another address"), ("/slow", "did not answer within 0.5 s")])
def test_a_webhook_that_sends_on_or_trickles_fails_the_tick(receiver: Receiver, path: str, why: str) -> None:
    began = time.monotonic()
    with pytest.raises(OSError, match=why):
        Webhook(f"{receiver.url}{path}", timeout_seconds=0.5)(failed_run())
    assert time.monotonic() - began < 2.5, "before the server has sent its last byte"
    assert len(receiver.bodies) == 1, "no GET follows"
    for thread in threading.enumerate():
        if thread.name == "webhook":
            thread.join(10)
