"""What killed writers leave on a disk goes when no process can be writing it, and no sooner."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.storage.disk import TEMPORARY, machine_start, remove_leftovers

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def _left(root: Path, name: str, age: timedelta) -> Path:
    path = root / TEMPORARY / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"rows")
    moment = (NOW - age).timestamp()
    os.utime(path, (moment, moment))
    return path


@pytest.mark.parametrize(
    ("started", "left"),
    [
        (timedelta(hours=2), {"now", "an hour ago"}),
        (timedelta(days=30), {"now", "an hour ago", "three hours ago"}),
        (timedelta(), {"now"}),
    ],
    ids=["two hours ago", "a month ago", "just now"],
)
def test_what_no_process_can_be_writing_goes(tmp_path: Path, started: timedelta, left: set[str]) -> None:
    hours = {"now": 0, "an hour ago": 1, "three hours ago": 3, "yesterday": 25}
    for name, ago in hours.items():
        _left(tmp_path, name, timedelta(hours=ago))
    removed = remove_leftovers(str(tmp_path), lambda: NOW, lambda: NOW - started)
    assert {path.name for path in (tmp_path / TEMPORARY).iterdir()} == left
    assert removed == len(hours) - len(left)


def test_where_nothing_was_ever_written_there_is_nothing(tmp_path: Path) -> None:
    assert remove_leftovers(str(tmp_path / "nowhere")) == 0
    assert remove_leftovers("s3://lake/warehouse") == 0


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system does not say when it was started")
def test_the_machine_was_started_before_this_process() -> None:
    assert machine_start() < datetime.now(UTC)
    assert abs(machine_start() - machine_start()) < timedelta(hours=1), "a moment, and no duration"
