"""Every event of a scope shows its newest ten commits: from the event before, and of what came in between by name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.base.connection import Location
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.metadata import SHOWN, CommitLine, line_of_entry
from lakewarden.dagster.jobs.event_log.histories import newest_lines
from lakewarden.dagster.jobs.flush import flush_job
from lakewarden.dagster.jobs.optimize import optimize_job
from lakewarden.dagster.jobs.restore import restore_job
from lakewarden.delta.reading.history import entries_below
from lakewarden.delta.replay.log_objects import commit_name
from tests.dagster.jobs.conftest import RunJob
from tests.dagster.jobs.test_jobs import materialized, observed
from tests.fixtures.bucket import path_of
from tests.fixtures.chat import MESSAGES, ROOMS, write
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

NEWEST = 25


def shown(event: dg.AssetMaterialization | dg.AssetObservation) -> list[list[str]]:
    """The lines of an event's history, below its head: version, time, operation, rows, files."""
    history = event.metadata["history"]
    assert isinstance(history, dg.MarkdownMetadataValue)
    assert len(history.value or "") < 1_000, "longer Markdown stands behind a button"
    return [line.split("|") for line in (history.value or "").splitlines()[2:]]


def test_each_event_shows_what_was_committed_before_and_by_others(
    chat: str, instance: dg.DagsterInstance, run_job: RunJob
) -> None:
    write(chat, "ada", 5)
    assert run_job(flush_job).success
    assert [(line[0], line[2:]) for line in shown(materialized(instance)[0])] == [
        ("2", ["flush", "+1", "+1"]),
        ("1", ["flush", "+1", "+1"]),
        ("0", ["flush", "+1", "+1"]),
    ]
    with Lakehouse.open(chat) as lake:  # not in Dagster
        lake.table(MESSAGES).write([{"id": 5, "content": "again"}, {"id": 6, "content": "more"}], user="ada")
        lake.flush()
    write(chat, "ada", 7)
    assert run_job(flush_job).success
    lines = shown(materialized(instance)[0])
    assert [line[0] for line in lines] == ["4", "3", "2", "1", "0"]
    assert lines[1][2:] == ["flush", "+1 ~1", "+1 -1"]
    back = {"table": MESSAGES, "user": "ada", "target": {"version": {"version": 0}}}
    assert run_job(restore_job, back).success
    assert [line[0] for line in shown(observed(instance)[0])] == ["4", "3", "2", "1", "0"], "a dry run's event has it too"


def test_what_the_event_before_shows_is_read_nowhere_else(chat: str, instance: dg.DagsterInstance, run_job: RunJob) -> None:
    for number in range(2):
        write(chat, "ada", 5 + number)
        assert run_job(flush_job).success
        for version in range(2):  # which only an event can show now
            (path_of(materialized(instance)[0].metadata["path"].value) / commit_name(version)).unlink(missing_ok=True)
    assert [line[0] for line in shown(materialized(instance)[0])] == ["3", "2", "1", "0"]


def test_a_shared_table_has_one_and_compaction_is_a_line(chat: str, instance: dg.DagsterInstance, run_job: RunJob) -> None:
    with Lakehouse.open(chat) as lake:
        for number in range(3):
            lake.table(ROOMS).write([{"room": str(number), "title": "new"}])
            lake.flush()
    assert run_job(optimize_job, {"tables": [ROOMS]}).success
    rooms = materialized(instance, dg.AssetKey(["chat", "rooms"]))
    assert [(line[0], line[2], line[4]) for line in shown(rooms[0])][:2] == [("4", "optimize", "+1 -4"), ("3", "flush", "+1")]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of commits."""
    root = tmp_path_factory.mktemp("log")
    (root / "_delta_log").mkdir()
    for version in range(NEWEST + 1):
        info = {
            "commitInfo": {"timestamp": 1_000 * version, "operation": "WRITE", "operationMetrics": {"numOutputRows": version}}
        }
        (root / commit_name(version)).write_text(json.dumps(info))
    return root


@given(version=st.integers(0, NEWEST), event=st.none() | st.integers(0, NEWEST), own=st.booleans())
def test_the_newest_ten_come_whatever_the_event_before_was_of(log: Path, version: int, event: int | None, own: bool) -> None:
    before = [] if event is None else _lines(log, event)
    found = newest_lines(Location(str(log)), version, CommitLine(version, "", "flush") if own else None, before)
    assert [line.version for line in found] == list(range(version, -1, -1))[:SHOWN]
    assert found[int(own) :] == _lines(log, version)[int(own) :]


def _lines(log: Path, newest: int) -> Sequence[CommitLine]:
    return [line_of_entry(entry) for entry in entries_below(Location(str(log)), newest + 1, SHOWN)]
