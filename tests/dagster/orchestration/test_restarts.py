"""`lakewarden ui` that is killed or stopped: what its next start finds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import dagster as dg
import psutil
import pytest
from dagster._cli.code_server import get_default_grpc_proxy_heartbeat_ttl
from dagster._core.storage.tags import PARENT_RUN_ID_TAG
from dagster._daemon.types import DaemonHeartbeat
from dagster._grpc.utils import default_grpc_timeout, default_sensor_grpc_timeout
from dagster_graphql import DagsterGraphQLClient

from lakewarden.cli.dagster_home import SESSION, DagsterHome, HomeServer, end_session, prepare_home
from lakewarden.cli.ui import _Address, _environment
from lakewarden.dagster.orchestration.alone import other_daemon
from lakewarden.errors import InUse
from tests.fixtures.chat import make_chat, write
from tests.fixtures.dagster import DAGSTER, as_shipped
from tests.fixtures.patience import PATIENCE
from tests.fixtures.servers import free_port
from tests.fixtures.ui import ui

pytestmark = DAGSTER

SHIPPED = Path(__file__).parents[3] / "lakewarden" / "dagster" / "dagster.yaml"


def test_a_home_is_held_by_one_ui_at_a_time(tmp_path: Path) -> None:
    home = DagsterHome(tmp_path)
    with home.held() as former:
        assert former is None
        home.record(served := HomeServer("a-session", 17, "http://127.0.0.1:3000"))
        with pytest.raises(InUse, match=r"process 17, at http://127.0.0.1:3000.* start every run twice"), home.held():
            pass
    with home.held() as former:
        assert former == served


def test_processes_of_a_session_end_with_their_children(tmp_path: Path) -> None:
    wait = "import time; time.sleep(600)"
    program = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', '{wait}']).pid, flush=True); {wait}"
    session = str(tmp_path)
    command, environment = [sys.executable, "-c", program], {**os.environ, SESSION: session}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        parent.wait()
        assert child.is_running(), "kill -9 of a parent leaves its children"
        assert end_session(session) == 1
        assert not child.is_running()
    assert end_session(session) == 0


def test_settings_of_an_earlier_release_are_replaced_and_those_of_a_user_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = SHIPPED.read_text()
    home = prepare_home(tmp_path / "home", SHIPPED)
    settings = home.path / "dagster.yaml"
    assert settings.read_text() == shipped
    settings.write_text("telemetry: { enabled: false }\n")
    prepare_home(home.path, SHIPPED)
    assert settings.read_text() == "telemetry: { enabled: false }\n"
    monkeypatch.setattr("lakewarden.cli.dagster_home._SHIPPED_BEFORE", {sha256(settings.read_bytes()).hexdigest()})
    prepare_home(home.path, SHIPPED)
    assert settings.read_text() == shipped


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_settings_that_a_user_changed_name_our_modules_where_they_are_now(tmp_path: Path, quote: str) -> None:
    now = "lakewarden.dagster.jobs.event_log.packed_storage"
    assert f"module: {now}\n" in SHIPPED.read_text()
    changed = SHIPPED.read_text().replace(now, f"{quote}{now}{quote}") + "retention: { schedule: { purge_after_days: 3 } }\n"
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(changed.replace(now, "lakewarden.dagster.jobs.event_log.packed"))
    for _ in range(2):
        prepare_home(home, SHIPPED)
        assert (home / "dagster.yaml").read_text() == changed


@pytest.fixture
def instance(shipped_instance: dg.DagsterInstance) -> dg.DagsterInstance:
    shipped_instance.wipe_daemon_heartbeats()
    return shipped_instance


def test_another_daemon_is_seen_by_its_advancing_beats(instance: dg.DagsterInstance) -> None:
    seconds = [10_000.0]

    def beat() -> None:
        instance.add_daemon_heartbeat(DaemonHeartbeat(seconds[0], "SENSOR", "another", None))

    def sleep(duration: float) -> None:
        seconds[0] += duration
        if int(seconds[0]) % 30 == 0:
            beat()

    assert other_daemon(instance, sleep, seconds[0]) is None, "an instance that had no daemon yet"
    beat()
    assert other_daemon(instance, sleep, seconds[0]) == "another"
    assert other_daemon(instance, lambda _: None, seconds[0]) is None, "it has ended, a moment ago"


def test_the_code_server_outlives_a_busy_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seconds: Callable[[], int] = get_default_grpc_proxy_heartbeat_ttl
    assert seconds() == 30, "Dagster starts no other when it has ended one"
    assert default_grpc_timeout() == 60
    for name, value in _environment(str(tmp_path), DagsterHome(tmp_path), _Address("127.0.0.1", 3000)).items():
        monkeypatch.setenv(name, value)
    assert seconds() == 86_400
    assert default_sensor_grpc_timeout() == 600, "a tick that reads a long log"


@pytest.mark.night
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Using variable_values:DeprecationWarning")  # Dagster's client does
@pytest.mark.parametrize("storage", ["sqlite", "postgres"])
def test_a_run_that_lost_its_process_is_retried_at_the_next_start(
    storage: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    warehouse, home, port = str(tmp_path / "warehouse"), tmp_path / "home", free_port()
    make_chat(warehouse)
    for number in range(50):  # the run is stopped in the middle of them
        write(warehouse, f"u{number}", 1)
    with as_shipped(home, request.getfixturevalue("postgres") if storage == "postgres" else None) as instance:
        with ui(warehouse, home, port) as killed:
            client = DagsterGraphQLClient("127.0.0.1", port_number=port)
            lost = client.submit_job_execution("flush_job", repository_location_name="lakewarden")
            wait_for(lambda: status(instance, lost) is dg.DagsterRunStatus.STARTED)
            killed.stop_in_its_tracks()
        if storage == "postgres":  # for the beats of a shared storage, `ui` waits: another test has that
            instance.wipe_daemon_heartbeats()
        with ui(warehouse, home, port) as started:
            assert any("vacuum_weekly only lists" in line for line in started.said)
            assert any("A former `ui`" in line and "they are ended" in line for line in started.said)
            wait_for(lambda: status(instance, lost) is dg.DagsterRunStatus.FAILURE)
            retries = dg.RunsFilter(tags={PARENT_RUN_ID_TAG: lost})
            wait_for(lambda: any(run.is_success for run in instance.get_runs(retries)))


def status(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRunStatus | None:
    run = instance.get_run_by_id(run_id)
    return run.status if run else None


def wait_for(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.1)
