"""Two code locations in one deployment on Postgres: what one of them loses concerns the other in nothing."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import psutil
import pytest
from dagster._core.storage.tags import PARENT_RUN_ID_TAG
from dagster_graphql import DagsterGraphQLClient

from lakewarden.cli.ui import _Address, _answers
from lakewarden.client import Lakehouse
from lakewarden.dagster import alive
from tests.dagster.orchestration.test_restarts import status, wait_for
from tests.fixtures.chat import contents, make_chat, write
from tests.fixtures.dagster import DAGSTER, as_shipped
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.servers import free_port, running

pytestmark = [*DAGSTER, pytest.mark.slow, pytest.mark.disk]

CODE = """
import pathlib, time
import dagster as dg
from lakewarden.dagster import build_definitions
from lakewarden.client import Lakehouse

@dg.op
def report({name}_lake: dg.ResourceParam[Lakehouse]):
    while pathlib.Path({unfinished!r}).exists():
        time.sleep(0.1)

@dg.job(name="{name}_report_job", executor_def=dg.in_process_executor)
def report_job():
    report()

defs = dg.Definitions.merge(build_definitions({warehouse!r}, key_prefix=[{name!r}]), dg.Definitions(jobs=[report_job]))
"""
"""What a team has beside its warehouse: a run of theirs takes as long as a file exists."""

PROGRAMS = Path(sys.executable).parent


@dataclass(frozen=True)
class Location:
    """A warehouse and the code server over it, which would be a container."""

    name: str
    place: Path
    port: int

    @classmethod
    def made(cls, name: str, place: Path) -> Location:
        location = cls(name, place, free_port())
        make_chat(location.warehouse)
        write(location.warehouse, "ada", 10)  # one row: the sensor leaves it
        location.unfinished.touch()
        location._code.write_text(
            CODE.format(name=name, warehouse=location.warehouse, unfinished=str(location.unfinished)),
        )
        return location

    @property
    def warehouse(self) -> str:
        return str(self.place / self.name)

    @property
    def unfinished(self) -> Path:
        return self.place / f"{self.name}-unfinished"

    @property
    def _code(self) -> Path:
        return self.place / f"{self.name}.py"

    @property
    def data(self) -> Path:
        return self.place / self.name / "data"

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    @contextmanager
    def served(self) -> Iterator[psutil.Process]:
        where = ["--host", "127.0.0.1", "--port", str(self.port), "--location-name", self.name]
        command = [str(PROGRAMS / "dagster"), "api", "grpc", "--python-file", str(self._code), *where]
        log = self._code.with_suffix(".log")
        with log.open("ab") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
            server = psutil.Process(process.pid)
            try:
                wait_for(self._answers)
                yield server
            finally:
                kill(server)


def kill(server: psutil.Process) -> None:
    """As a container goes: the server and its runs at once, so that it tells of none."""
    if server.is_running():
        for process in (server, *server.children(recursive=True)):
            process.kill()


@contextmanager
def deployed(home: Path, *locations: Location) -> Iterator[DagsterGraphQLClient]:
    """The daemon and the web server, which know the locations by their ports."""
    workspace = home / "workspace.yaml"
    ports = [f"  - grpc_server: {{host: 127.0.0.1, port: {one.port}, location_name: {one.name}}}" for one in locations]
    workspace.write_text("\n".join(["load_from:", *ports, ""]))
    pages = _Address("127.0.0.1", free_port())
    webserver = [str(PROGRAMS / "dagster-webserver"), "-w", str(workspace), "-h", pages.host, "-p", str(pages.port)]
    daemon = [str(PROGRAMS / "dagster-daemon"), "run", "-w", str(workspace)]
    with (
        running(webserver, lambda: _answers(pages), log=home / "webserver.log"),
        running(daemon, lambda: True, log=home / "daemon.log"),
    ):
        yield DagsterGraphQLClient(pages.host, port_number=pages.port)


@pytest.mark.night
@pytest.mark.filterwarnings("ignore:Using variable_values:DeprecationWarning")  # Dagster's client does
def test_a_location_that_loses_its_process_is_retried_and_the_other_goes_on(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(alive.SESSION, raising=False)
    eu, us = (Location.made(name, tmp_path) for name in ("eu", "us"))
    home = tmp_path / "home"
    with as_shipped(home, postgres) as instance, ExitStack() as served:
        server = served.enter_context(eu.served())
        served.enter_context(us.served())
        client = served.enter_context(deployed(home, eu, us))

        theirs = client.submit_job_execution("us_report_job", repository_location_name="us")
        wait_for(lambda: status(instance, theirs) is dg.DagsterRunStatus.STARTED)
        away = eu.data.rename(tmp_path / "away")  # the flush waits for its storage: it is under way when it is killed
        lost = client.submit_job_execution("eu_flush_job", repository_location_name="eu")
        wait_for(lambda: bool(instance.all_logs(lost, of_type=dg.DagsterEventType.STEP_UP_FOR_RETRY)))
        behind = client.submit_job_execution("us_flush_job", repository_location_name="us")
        kill(server)
        away.rename(eu.data)
        assert (status(instance, lost), status(instance, behind)) == (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.QUEUED)

        served.enter_context(eu.served())
        wait_for(lambda: status(instance, behind) is dg.DagsterRunStatus.SUCCESS)
        retries = dg.RunsFilter(tags={PARENT_RUN_ID_TAG: lost})
        wait_for(lambda: any(run.is_success for run in instance.get_runs(retries)))
        (failed,) = instance.all_logs(lost, of_type=dg.DagsterEventType.RUN_FAILURE)
        assert "it gave no sign of life" in failed.message
        assert times(instance, lost)[1] <= times(instance, behind)[0], "they share one slot"

        assert status(instance, theirs) is dg.DagsterRunStatus.STARTED
        us.unfinished.unlink()
        wait_for(lambda: status(instance, theirs) is dg.DagsterRunStatus.SUCCESS)
        assert instance.get_runs(dg.RunsFilter(tags={PARENT_RUN_ID_TAG: theirs})) == []
    for location in (eu, us):
        assert contents(location.warehouse, "ada") == {0: "ada 0", 1: "ada 1", 10: "later"}
        with Lakehouse.open(location.warehouse) as lake:
            assert lake.pending() == []


def times(instance: dg.DagsterInstance, run_id: str) -> tuple[float, float]:
    """When the run started and when it ended."""
    record = instance.get_run_record_by_id(run_id)
    assert record is not None
    assert record.start_time is not None
    assert record.end_time is not None
    return record.start_time, record.end_time
