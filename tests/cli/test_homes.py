"""Dagster's home: one that cannot be written is told as such, and one warehouse has one daemon."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.state import processes
from lakewarden.cli.dagster_home import DagsterHome, alone
from lakewarden.cli.main import main
from lakewarden.cli.ui import _last_line, others
from lakewarden.errors import InUse
from tests.fixtures.patience import PATIENCE


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/nowhere", "/sys/home"])
def test_a_home_that_cannot_be_written_is_named(
    tmp_path: Path, warehouse_uri: str, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(SystemExit) as ended:
        main(["--warehouse", warehouse_uri, "ui", "--dagster-home", str(tmp_path / place)])
    said = capsys.readouterr().err
    assert ended.value.code
    assert "INVALID_ARGUMENT" in said
    assert "--dagster-home" in said


def test_two_homes_do_not_serve_one_warehouse(tmp_path: Path) -> None:
    with alone("/lake", DagsterHome(tmp_path / "one"), "http://127.0.0.1:3000", tmp_path):
        with pytest.raises(InUse, match=r"3000, with the Dagster home .*/one\) serves the warehouse /lake"):  # noqa: SIM117
            with alone("/lake", DagsterHome(tmp_path / "two"), "http://127.0.0.1:3001", tmp_path):
                pass
        with alone("/other", DagsterHome(tmp_path / "two"), "http://127.0.0.1:3001", tmp_path):
            pass
    with alone("/lake", DagsterHome(tmp_path / "two"), "http://127.0.0.1:3001", tmp_path):
        pass


def test_a_warehouse_by_another_name_is_the_same_one(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "link").symlink_to("lake")
    with (
        alone(str(tmp_path / "lake"), DagsterHome(tmp_path / "one"), "http://127.0.0.1:3000", tmp_path),
        pytest.raises(InUse, match="serves the warehouse"),
        alone(str(tmp_path / "link"), DagsterHome(tmp_path / "two"), "http://127.0.0.1:3001", tmp_path),
    ):
        pass


def test_a_ui_of_another_machine_is_seen_by_its_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lakehouse.open(str(tmp_path / "lake")) as lake, monkeypatch.context() as elsewhere:
        elsewhere.setattr(processes, "this_node", lambda: "elsewhere:7")
        with lake.noted("ui", "http://10.0.0.7:3000"), lake.noted("serve", "http://10.0.0.7:8080"):
            until = time.monotonic() + PATIENCE
            while len([*(tmp_path / "lake/_lakewarden/processes").glob("*")]) < 2 and time.monotonic() < until:
                time.sleep(0.01)
            (warning,) = others(lake)
            assert warning.startswith("Another `lakewarden ui` (elsewhere:7, at http://10.0.0.7:3000) serves this warehouse")
        assert others(lake) == []
        lake.warehouse.state.put("processes/garbled", b"{")
        (warning,) = others(lake)
        assert warning.endswith("is not known (CORRUPT): processes/garbled is not the note of a process: b'{'")


def test_dagsters_end_is_said_in_one_short_line_without_escapes(tmp_path: Path) -> None:
    log = tmp_path / "ui.log"
    log.write_text("x" * 20_000 + "\n" + "".join(f"\x1b[32mline {n}\x1b[0m {'y' * 900}\r\n" for n in range(50)) + "\n")
    assert _last_line(log) == f"line 49 {'y' * 191}…"
    log.write_text("\x1b[31mException: dagster-daemon process shut down unexpectedly with return code -9\x1b[0m\n\n")
    assert _last_line(log) == "Exception: dagster-daemon process shut down unexpectedly with return code -9"
    log.write_text("")
    assert _last_line(log) == "its log is empty"
