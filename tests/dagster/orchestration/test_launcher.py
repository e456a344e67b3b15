"""Runs whose process is gone: the daemon's own monitoring fails them, retries them, and frees what they held."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.launcher import DefaultRunLauncher, LaunchRunContext, WorkerStatus
from dagster._core.test_utils import create_test_daemon_workspace_context
from dagster._core.workspace.load_target import EmptyWorkspaceTarget
from dagster._daemon.auto_run_reexecution import event_log_consumer
from dagster._daemon.auto_run_reexecution.event_log_consumer import EventLogConsumerDaemon, _create_cursor_key
from dagster._daemon.monitoring import execute_run_monitoring_iteration

from lakewarden.cli import dagster_home
from lakewarden.dagster import alive
from lakewarden.dagster.alive import key_of, last_beat
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.runs import OPERATION
from lakewarden.dagster.orchestration.launcher import SILENT_SECONDS, Watch, WatchingRunLauncher, begin_reading
from tests.fixtures.dagster import DAGSTER, as_shipped

pytestmark = DAGSTER

ROOT = Path(__file__).parents[3]
CURSORS = {_create_cursor_key(kind) for kind in event_log_consumer.DAGSTER_EVENT_TYPES}


@pytest.fixture(params=["sqlite", "postgres"])
def instance(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """With the settings that `lakewarden ui` gives it, in the session `new`."""
    monkeypatch.setenv(alive.SESSION, "new")
    server = request.getfixturevalue("postgres") if request.param == "postgres" else None
    with as_shipped(tmp_path / "dagster", server) as instance:
        yield instance


def started(instance: dg.DagsterInstance) -> dg.DagsterRun:
    return instance.create_run_for_job(flush_job, tags={OPERATION: "flush"}, status=dg.DagsterRunStatus.STARTED)


def monitor(instance: dg.DagsterInstance) -> None:
    """What the daemon does every ten seconds."""
    with create_test_daemon_workspace_context(EmptyWorkspaceTarget(), instance) as context:
        assert set(execute_run_monitoring_iteration(context, logging.getLogger("test"))) == {None}


def of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRun:
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    return found


def test_a_run_of_an_ended_ui_fails_at_the_next_start_and_is_retried(instance: dg.DagsterInstance) -> None:
    run = started(instance)
    instance.daemon_cursor_storage.set_cursor_values({key_of(run.run_id): "old 3"})
    monitor(instance)
    found = of(instance, run)
    assert found.status is dg.DagsterRunStatus.FAILURE
    assert found.tags["dagster/will_retry"] == "true"
    (failed,) = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE)
    assert "it belonged to a `lakewarden ui` that has ended" in failed.message


def test_a_run_that_falls_silent_fails_and_one_that_beats_does_not(instance: dg.DagsterInstance) -> None:
    seconds = [0.0]
    assert isinstance(instance.run_launcher, WatchingRunLauncher)
    instance.run_launcher._watch = Watch("new", lambda: seconds[0])
    silent, speaking = started(instance), started(instance)
    for beat in range(3):
        instance.daemon_cursor_storage.set_cursor_values({key_of(speaking.run_id): f"new {beat}"})
        for run in (silent, speaking):
            result = instance.run_launcher.check_run_worker_health(run)
            assert (result.status is WorkerStatus.RUNNING) == (run is speaking or seconds[0] < SILENT_SECONDS)
        seconds[0] += SILENT_SECONDS / 2
    assert last_beat(instance, silent.run_id) is None


def failures_read(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs whose failure the daemon reads, as it does every five seconds."""
    read: list[str] = []

    def note(_: object, records: Sequence[dg.RunRecord], __: logging.Logger) -> Iterator[None]:
        read.extend(record.dagster_run.run_id for record in records)
        return iter(())

    monkeypatch.setattr(event_log_consumer, "consume_new_runs_for_automatic_reexecution", note)
    with create_test_daemon_workspace_context(EmptyWorkspaceTarget(), instance) as context:
        assert set(EventLogConsumerDaemon().run_iteration(context)) == {None}
    return read


def test_a_failure_before_the_daemon_first_reads_is_read(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    old, run = started(instance), started(instance)
    instance.report_run_failed(old)
    begin_reading(instance)
    instance.daemon_cursor_storage.set_cursor_values({key_of(run.run_id): "old 3"})
    monitor(instance)
    begin_reading(instance)
    assert failures_read(instance, monkeypatch) == [run.run_id]
    begin_reading(instance)
    assert failures_read(instance, monkeypatch) == [], "a cursor that is there stays where it is"


def test_what_is_launched_is_read_from_its_beginning(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DefaultRunLauncher, "launch_run", lambda self, context: None)
    assert instance.daemon_cursor_storage.get_cursor_values(CURSORS) == {}
    run = started(instance)
    end = instance.event_log_storage.get_maximum_record_id()
    instance.run_launcher.launch_run(LaunchRunContext(dagster_run=run, workspace=None))
    assert instance.daemon_cursor_storage.get_cursor_values(CURSORS) == dict.fromkeys(CURSORS, str(end or 0))


def test_a_process_beats_while_it_has_the_warehouse(instance: dg.DagsterInstance) -> None:
    run = started(instance)
    with alive.alive(instance, run.run_id):
        pass
    assert last_beat(instance, run.run_id) == "new 0"
    monitor(instance)
    assert of(instance, run).status is dg.DagsterRunStatus.STARTED


def test_a_run_whose_last_event_is_stored_has_succeeded(instance: dg.DagsterInstance) -> None:
    run = started(instance)
    instance.daemon_cursor_storage.set_cursor_values({key_of(run.run_id): "old 3"})
    with pytest.MonkeyPatch.context() as killed:
        killed.setattr(type(instance.run_storage), "handle_run_event", lambda *_: None)
        instance.report_dagster_event(dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, run.job_name), run.run_id)
    assert of(instance, run).status is dg.DagsterRunStatus.STARTED
    monitor(instance)
    assert of(instance, run).status is dg.DagsterRunStatus.SUCCESS
    assert not instance.all_logs(run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE)


def test_runs_of_other_projects_are_left_alone() -> None:
    seconds = [0.0]
    watch = Watch("", lambda: seconds[0])
    assert watch.why_gone("theirs", None, beats=False) is None
    seconds[0] = 10 * SILENT_SECONDS
    assert watch.why_gone("theirs", None, beats=False) is None


def test_other_machines_sessions_are_judged_by_silence_alone() -> None:
    watch = Watch("", lambda: 0.0)
    assert watch.why_gone("run", "another-host 7", beats=True) is None


def test_the_variable_is_the_one_that_ui_sets() -> None:
    assert alive.SESSION == dagster_home.SESSION
