"""`lakewarden ui` in front of a real browser: what an operator sees and does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import psutil
import pytest
from dagster._core.storage.tags import PARENT_RUN_ID_TAG
from dagster_graphql import DagsterGraphQLClient

from lakewarden.catalog.state.job import this_node
from lakewarden.cli.ui import others
from lakewarden.client import Lakehouse
from tests.dagster.orchestration.test_restarts import status, wait_for
from tests.fixtures.chat import MESSAGES, contents, make_chat, write
from tests.fixtures.dagster import DAGSTER, as_shipped
from tests.fixtures.pages import Pages
from tests.fixtures.patience import PATIENCE
from tests.fixtures.servers import free_port
from tests.fixtures.ui import ui

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = [*DAGSTER, pytest.mark.slow, pytest.mark.timeout(3600)]

_LAKEWARDEN = str(Path(sys.executable).with_name("lakewarden"))
_ROOT = Path(__file__).parents[3]
_ELSEWHERE = "http://elsewhere"
"""Where another `ui` says that it is."""
_CHAT = "/locations/lakewarden/asset-groups/chat/lineage"
"""The graph of one group: the page of all assets shows only groups where there are several."""


@dataclass(frozen=True)
class Served:
    """A running `ui`, over this warehouse."""

    process: subprocess.Popen[str]
    warehouse: str
    url: str
    home: Path
    instance: dg.DagsterInstance
    warned: str
    """What it said of another `ui`, which was there when it started."""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("ui")
    warehouse, url = str(root / "warehouse"), f"http://127.0.0.1:{(port := free_port())}"
    make_chat(warehouse)
    command = [_LAKEWARDEN, "ui", "--warehouse", warehouse, "--port", str(port), "--dagster-home", str(root / "home")]
    command += ["--workspace", str(_ROOT / "workspace.yaml")]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would `ui`
    with (
        as_shipped(root / "home") as instance,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            with Lakehouse.open(warehouse) as lake, lake.noted("ui", _ELSEWHERE):
                assert "vacuum_weekly only lists, until maintenance.scheduled_deletes is set" in process.stdout.readline()
                assert f"Dagster is at {url}, for {warehouse}" in process.stdout.readline()
                assert "/fleet" in process.stdout.readline()
                warned = process.stdout.readline()
            yield Served(process, warehouse, url, root / "home", instance, warned)
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def pages(browser: Chrome, served: Served, tmp_path_factory: pytest.TempPathFactory) -> Pages:
    return Pages(browser, served.url, served.warehouse, tmp_path_factory.mktemp("shots"))


def partition(user: str) -> str:
    return f"/assets/chat/messages?view=partitions&partition={user}"


def test_the_sensor_flushes_what_another_process_wrote(pages: Pages) -> None:
    write(pages.warehouse, "bob", 50, 51)  # two rows are the policy's
    with Lakehouse.open(pages.warehouse) as lake:
        wait_for(lambda: lake.pending() == [])  # cheaper than a page that is opened again and again
        assert lake.table(MESSAGES).read(user="bob", freshness="eventual").num_rows == 4
    pages.until(lambda text: "flush_job" in text, "flushed", again=partition("bob"))


def test_a_workspace_of_ones_own_is_served_beside_the_warehouse(pages: Pages) -> None:
    pages.until(lambda text: "onboard_job" in text and "flush_job" in text, "own", again="/jobs")


def test_lineage_and_runs_are_free_of_noise(pages: Pages) -> None:
    health = _CHAT.replace("/chat/", "/lakewarden_health/")
    boxes = ("chat.messages-health", "chat.rooms-health")
    pages.until(lambda text: all(box in text for box in boxes), "lineage-health", again=health)
    pages.until(lambda text: "lakewarden/table" in text, "runs", again="/runs")
    assert all(f"lakewarden{sign}{tag}" not in pages.text for sign in "/_" for tag in ("slot", "operation"))


def test_the_port_is_taken_is_one_clear_line(pages: Pages, tmp_path: Path) -> None:
    port = pages.url.rpartition(":")[2]
    command = [_LAKEWARDEN, "ui", "--warehouse", str(tmp_path / "w"), "--port", port]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"INVALID_ARGUMENT: cannot serve on 127.0.0.1:{port}")
    assert done.stderr.count("\n") == 1


def test_of_two_that_no_lock_keeps_apart_each_is_warned_of_the_other(served: Served) -> None:
    """As of another user, or of another machine: the other one is this process, by its note."""
    assert served.warned == _warning(os.getpid(), _ELSEWHERE) + "\n"
    with Lakehouse.open(served.warehouse) as lake:
        assert others(lake) == [_warning(served.process.pid, served.url)]


def _warning(process: int, url: str) -> str:
    node = f"{this_node().rpartition(':')[0]}:{process}"
    return f"Another `lakewarden ui` ({node}, at {url}) serves this warehouse: two daemons start every run twice"


@pytest.mark.filterwarnings("ignore:Using variable_values:DeprecationWarning")  # Dagster's client does
def test_ctrl_c_is_answered_at_once_and_leaves_no_process_and_the_next_start_retries_its_run(served: Served) -> None:
    """The last of this module: it ends what the others look at."""
    process, instance = served.process, served.instance
    write(served.warehouse, "ada", 10)
    with _held_up(Path(served.warehouse, "data", ".lakewarden-owner")):
        client = DagsterGraphQLClient("127.0.0.1", port_number=served.port)
        lost = client.submit_job_execution("flush_job", repository_location_name="lakewarden")
        wait_for(lambda: bool(instance.all_logs(lost, of_type=dg.DagsterEventType.STEP_START)))
        left = psutil.Process(process.pid).children(recursive=True)
        assert process.stdout is not None
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "Stopping Dagster: runs that are under way have half a minute to end.\n"
        assert process.poll() is None, "it says so before it has stopped"
        said, _ = process.communicate(timeout=PATIENCE)
        assert (process.returncode, said) == (130, "")
        gone, alive = psutil.wait_procs(left, timeout=PATIENCE)
        assert (len(gone), alive) == (len(left), [])
    with ui(served.warehouse, served.home, served.port):
        wait_for(lambda: status(instance, lost) is dg.DagsterRunStatus.FAILURE)
        retries = dg.RunsFilter(tags={PARENT_RUN_ID_TAG: lost})
        wait_for(lambda: any(run.is_success for run in instance.get_runs(retries)))
    assert contents(served.warehouse, "ada") == {0: "ada 0", 1: "ada 1", 10: "later"}


@contextmanager
def _held_up(file: Path) -> Iterator[None]:
    """Who reads the file waits, inside the block: so does a flush, for as long as a stop takes."""
    content = file.read_bytes()
    file.unlink()
    os.mkfifo(file)
    yield
    file.unlink()
    file.write_bytes(content)
