"""Processes are seen while they live, and no longer."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base import VERSION
from lakewarden.base.clock import random_id, system_clock
from lakewarden.catalog.state import processes
from lakewarden.catalog.state.job import this_node
from lakewarden.catalog.state.processes import Processes
from lakewarden.errors import PermissionDenied
from tests.fixtures.lakes import make_notes
from tests.fixtures.patience import PATIENCE


class Moving:
    def __init__(self) -> None:
        self.by = timedelta(0)

    def __call__(self) -> datetime:
        return system_clock() + self.by


@pytest.fixture
def clock() -> Moving:
    return Moving()


@pytest.fixture
def lake(tmp_path: Path, clock: Moving) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "w"), clock=clock) as opened:
        yield opened


def cluster(lake: Lakehouse) -> list[dict[str, object]]:
    (found,) = lake.sql("SELECT * FROM system.cluster")
    return found.table.to_pylist()  # type: ignore[union-attr]


def kinds(lake: Lakehouse, least: int) -> list[object]:
    """Once there are so many: a thread notes them."""
    until = time.monotonic() + PATIENCE
    while len(found := cluster(lake)) < least and time.monotonic() < until:
        time.sleep(0.01)
    return [each["kind"] for each in found]


def notes_of(tmp_path: Path) -> list[Path]:
    return [*(tmp_path / "w/_lakewarden/processes").glob("*")]


def test_a_process_is_shown_with_all_that_is_known_of_it(lake: Lakehouse) -> None:
    before = system_clock()
    with lake.noted("serve", "http://127.0.0.1:8080"):
        assert kinds(lake, 1) == ["serve"]
        (row,) = cluster(lake)
    assert (row["node_id"], row["host"], row["process_id"]) == (this_node(), platform.node(), os.getpid())
    assert (row["doing"], row["version"]) == ("http://127.0.0.1:8080", VERSION)
    assert before - timedelta(seconds=1) < row["since"] <= row["last_seen"] + timedelta(seconds=1)  # type: ignore[operator]
    assert cluster(lake) == []


def test_what_ends_soon_leaves_and_requests_nothing(lake: Lakehouse, tmp_path: Path) -> None:
    with lake.noted("command", "flush", after=60):
        assert (cluster(lake), notes_of(tmp_path)) == ([], [])


def test_one_that_is_silent_vanishes_after_its_lease(lake: Lakehouse, clock: Moving) -> None:
    with lake.noted("serve", "x"):
        assert kinds(lake, 1) == ["serve"]
        clock.by = timedelta(seconds=100)
        assert len(cluster(lake)) == 1
        clock.by = timedelta(seconds=130)
        assert cluster(lake) == []


@pytest.mark.slow
def test_one_that_was_killed_on_this_machine_vanishes_at_once_and_its_note_in_time(
    lake: Lakehouse, tmp_path: Path, clock: Moving
) -> None:
    code = (
        "import sys, time; from lakewarden import Lakehouse\n"
        "lake = Lakehouse.open(sys.argv[1]); noted = lake.noted('serve', 'x'); noted.__enter__(); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "w")]) as other:
        try:
            assert kinds(lake, 1) == ["serve"]
            assert cluster(lake)[0]["process_id"] == other.pid
        finally:
            other.kill()
        other.wait()
        assert (cluster(lake), len(notes_of(tmp_path))) == ([], 1)
    clock.by = timedelta(days=8)
    assert (cluster(lake), notes_of(tmp_path)) == ([], [])


def test_it_beats_again_and_not_in_a_warehouse_that_was_removed(
    lake: Lakehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "BEAT_SECONDS", 0.01)
    beat = Processes(lake.warehouse.state).note("serve", "x", clock=system_clock, new_id=random_id)
    assert kinds(lake, 1) == ["serve"]
    (note,) = notes_of(tmp_path)
    first = note.stat().st_mtime_ns
    until = time.monotonic() + PATIENCE
    while note.stat().st_mtime_ns == first and time.monotonic() < until:
        time.sleep(0.01)
    assert note.stat().st_mtime_ns > first
    note.unlink()
    beat.join(PATIENCE)
    assert not beat.is_alive()
    assert not note.exists()


def test_who_runs_a_job_is_shown_by_its_heartbeat(lake: Lakehouse, clock: Moving) -> None:
    make_notes(lake).write([{"id": 1, "text": "x"}], user="ann")
    jobs = lake._parts.operator.jobs
    lake.enqueue("flush", "chat.notes", user="ann")
    job = jobs.claim(lake.waiting_jobs()[0], "elsewhere:7")
    (row,) = cluster(lake)
    assert (row["kind"], row["host"], row["process_id"], row["version"]) == ("job", "elsewhere", 7, None)
    assert row["doing"] == f"flush chat.notes ({job.job_id})"
    assert "ann" not in json.dumps(row, default=str)
    clock.by = timedelta(hours=1)
    assert cluster(lake) == []


def test_a_noted_process_shows_its_jobs(lake: Lakehouse) -> None:
    make_notes(lake).write([{"id": 1, "text": "x"}], user="ann")
    lake.enqueue("flush", "chat.notes")
    with lake.noted("command", "jobs run"):
        assert kinds(lake, 1) == ["command"]
        job = lake._parts.operator.jobs.claim(lake.waiting_jobs()[0], this_node())
        (row,) = cluster(lake)
        assert row["doing"] == f"jobs run; flush chat.notes ({job.job_id})"


@pytest.mark.parametrize("role", ["anonymous", "user", "service"])
def test_only_operators_see_them(lake: Lakehouse, role: str) -> None:
    with pytest.raises(PermissionDenied):
        lake.sql("SELECT * FROM system.cluster", user="ann", role=role)
