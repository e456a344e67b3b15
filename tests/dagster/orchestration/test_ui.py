"""`lakewarden ui` in front of a real browser: what an operator sees and does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from lakewarden.client import Lakehouse
from tests.fixtures.chat import MESSAGES, make_chat
from tests.fixtures.dagster import DAGSTER
from tests.fixtures.pages import Pages
from tests.fixtures.patience import PATIENCE
from tests.fixtures.servers import free_port

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = [*DAGSTER, pytest.mark.slow, pytest.mark.timeout(3600)]

_LAKEWARDEN = str(Path(sys.executable).with_name("lakewarden"))
_ROOT = Path(__file__).parents[3]
_CHAT = "/locations/lakewarden/asset-groups/chat/lineage"
"""The graph of one group: the page of all assets shows only groups where there are several."""


@dataclass(frozen=True)
class Served:
    """A running `ui`, over this warehouse."""

    process: subprocess.Popen[str]
    warehouse: str
    url: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("ui")
    warehouse, url = str(root / "warehouse"), f"http://127.0.0.1:{(port := free_port())}"
    make_chat(warehouse)
    command = [_LAKEWARDEN, "ui", "--warehouse", warehouse, "--port", str(port), "--dagster-home", str(root / "home")]
    command += ["--workspace", str(_ROOT / "workspace.yaml")]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would `ui`
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            assert "vacuum_weekly only lists, until maintenance.scheduled_deletes is set" in process.stdout.readline()
            assert f"Dagster is at {url}, for {warehouse}" in process.stdout.readline()
            assert "/fleet" in process.stdout.readline()
            yield Served(process, warehouse, url)
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def pages(browser: Chrome, served: Served, tmp_path_factory: pytest.TempPathFactory) -> Pages:
    return Pages(browser, served.url, served.warehouse, tmp_path_factory.mktemp("shots"))


def partition(user: str) -> str:
    return f"/assets/chat/messages?view=partitions&partition={user}"


def test_the_sensor_flushes_what_another_process_wrote(pages: Pages) -> None:
    program = "from tests.fixtures.chat import write; import sys; write(sys.argv[1], 'bob', 50, 51)"  # two rows are the policy's
    subprocess.run([sys.executable, "-c", program, pages.warehouse], check=True, env={**os.environ, "PYTHONPATH": str(_ROOT)})
    pages.until(lambda text: "flush_job" in text, "flushed", again=partition("bob"))
    with Lakehouse.open(pages.warehouse) as lake:
        assert lake.table(MESSAGES).read(user="bob", freshness="eventual").num_rows == 4
        assert lake.pending() == []


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


def test_another_ui_that_no_lock_sees_is_warned_of_the_first(served: Served, tmp_path: Path) -> None:
    """As of another user, or of another machine."""
    command = [
        _LAKEWARDEN,
        "ui",
        "--warehouse",
        served.warehouse,
        "--port",
        str(free_port()),
        "--dagster-home",
        str(tmp_path / "home"),
    ]
    away = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=away) as process:
        try:
            assert process.stderr is not None
            assert f":{served.process.pid}, at {served.url}) serves this warehouse" in process.stderr.readline()
        finally:
            process.terminate()


def test_ctrl_c_is_answered_at_once_and_leaves_no_process(served: Served) -> None:
    """The last of this module: it ends what the others look at."""
    process = served.process
    left = psutil.Process(process.pid).children(recursive=True)
    assert process.stdout is not None
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "Stopping Dagster: runs that are under way have half a minute to end.\n"
    assert process.poll() is None, "it says so before it has stopped"
    said, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (130, "")
    gone, alive = psutil.wait_procs(left, timeout=PATIENCE)
    assert (len(gone), alive) == (len(left), [])
