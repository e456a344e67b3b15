"""STREAM tables: rows that live in the log until their time is over, and the eviction that lets them go."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakewarden import Column, Lakehouse
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.storage.local import LocalObjects
from lakewarden.tables.client import TableClient
from tests.fixtures.lakes import NOTES, lake_fixture, log_files, make_notes, notes

_NAME = "chat.typing"
_TTL = 30


class Clock:
    """A clock that stands until somebody moves it."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 21, 8, 0, 0, 123_000, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **by: float) -> None:
        self.now += timedelta(**by)


@pytest.fixture
def clock() -> Clock:
    return Clock()


lake = lake_fixture(sql="CREATE NAMESPACE chat", clock=True)


def _stream(lake: Lakehouse, options: Mapping[str, str] | None = None, key: tuple[str, ...] = ("id",)) -> TableClient:
    columns = [Column("id", "BIGINT"), Column("what", "TEXT")]
    given = {"TTL_SECONDS": str(_TTL), **(options or {})}
    return lake.create_table(_NAME, type="STREAM", columns=columns, primary_key=key, options=given)


def _rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": id_, "what": f"w{id_}"} for id_ in ids]


def _ids(table: TableClient, user: str = "u") -> list[int]:
    return [row["id"] for row in table.read(user=user).to_pylist()]


def test_rows_vanish_when_their_time_is_over_to_the_millisecond(lake: Lakehouse, clock: Clock) -> None:
    table = _stream(lake)
    table.write(_rows(1), user="u")
    clock.forward(seconds=10)
    table.write(_rows(2), user="u")
    clock.forward(seconds=20)
    assert _ids(table) == [1, 2]
    clock.forward(milliseconds=1)
    assert _ids(table) == [2]
    clock.forward(seconds=10)
    assert _ids(table) == []
    assert len(log_files(lake)) == 2, "reading evicts nothing"


def test_rows_are_a_user_s_own(lake: Lakehouse) -> None:
    table = _stream(lake)
    table.write(_rows(1), user="u")
    table.write(_rows(2), user="v")
    assert (_ids(table), _ids(table, "v"), _ids(table, "w")) == ([1], [2], [])
    with pytest.raises(InvalidArgument, match="name the user"):
        table.read()
    with pytest.raises(InvalidArgument, match="STREAM table"):
        table.write(_rows(1))


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_a_stream_only_appends(lake: Lakehouse, mode: Any) -> None:
    table = _stream(lake)
    for _ in range(2):
        table.write(_rows(1, 1), user="u", mode=mode)
    assert _ids(table) == [1, 1, 1, 1]


def test_rows_are_deleted_by_key_or_by_seq(lake: Lakehouse) -> None:
    table = _stream(lake)
    table.write(_rows(1, 2, 1, 3), user="u")
    table.write(_rows(1), user="v")
    assert table.delete([{"id": 1}, {"id": 9}], user="u").rows == 2
    assert (_ids(table), _ids(table, "v")) == ([2, 3], [1])
    table.write(_rows(1), user="u")
    assert _ids(table) == [2, 3, 1], "a delete takes what was there, not what comes"
    last = table.write(_rows(7), user="u").last_seq
    table.delete_rows([last], user="u")
    assert _ids(table) == [2, 3, 1]


def test_a_stream_may_have_no_key(lake: Lakehouse) -> None:
    table = _stream(lake, key=())
    seq = table.write([{"what": "a"}, {"what": "a"}], user="u").last_seq
    table.delete_rows([seq], user="u")
    assert table.read(user="u").to_pylist() == [{"id": None, "what": "a"}]
    with pytest.raises(InvalidArgument):
        table.delete([{"id": 1}], user="u")


def test_eviction_takes_whole_expired_segments_and_nothing_that_lives(lake: Lakehouse, clock: Clock) -> None:
    table = _stream(lake)
    table.write(_rows(1, 2), user="u")
    table.write(_rows(3), user="v")
    clock.forward(seconds=_TTL)
    table.write(_rows(4), user="u")
    assert lake.evict(_NAME) == []
    clock.forward(milliseconds=1)
    planned = lake.evict(_NAME, dry_run=True)
    assert [(report.scope.user, report.outcome, report.metrics["rows_evicted"]) for report in planned] == [
        ("u", "planned", 2),
        ("v", "planned", 1),
    ]
    assert len(log_files(lake)) == 3
    done = lake.evict()
    assert [(report.outcome, report.metrics) for report in done] == [("done", report.metrics) for report in planned]
    assert len(log_files(lake)) == 1
    assert (_ids(table), _ids(table, "v")) == ([4], [])
    assert lake.jobs()[0].job_id.startswith("SE-")
    assert lake.evict(_NAME) == []


def test_one_user_s_rows_can_be_evicted_alone(lake: Lakehouse, clock: Clock) -> None:
    table = _stream(lake)
    table.write([{"id": 1, "what": "x", "who": user} for user in ("u", "v")], user_column="who")
    clock.forward(seconds=_TTL + 1)
    assert [report.scope.user for report in lake.evict(_NAME, user="v")] == ["v"]
    assert [report.scope.user for report in lake.evict(_NAME)] == ["u"]
    assert log_files(lake) == []


def _size_of(table: TableClient) -> int:
    return table.log.view().pending["u"].bytes


@pytest.mark.parametrize(("strategy", "left"), [("time_based", [3]), ("size_based", [2, 3]), ("hybrid", [3])])
def test_a_strategy_evicts_by_what_it_is_called_after(lake: Lakehouse, clock: Clock, strategy: str, left: list[int]) -> None:
    """Three writes of one size: two have expired, and two fit."""
    sized = _stream(lake)
    sized.write(_rows(1), user="u")
    one = _size_of(sized)
    lake.drop_table(_NAME)
    table = _stream(lake, {"EVICTION_STRATEGY": strategy, "MAX_STREAM_SIZE_BYTES": str(2 * one)})
    table.write(_rows(1), user="u")
    table.write(_rows(2), user="u")
    clock.forward(seconds=_TTL + 1)
    table.write(_rows(3), user="u")
    lake.evict(_NAME)
    clock.now -= timedelta(seconds=_TTL + 1)
    assert _ids(table) == left


def test_a_size_is_each_scope_s_own_and_zero_is_any(lake: Lakehouse) -> None:
    table = _stream(lake, {"EVICTION_STRATEGY": "size_based"})
    for id_ in range(5):
        table.write(_rows(id_), user="u")
    table.write(_rows(9), user="v")
    assert lake.evict(_NAME) == []
    limit = _size_of(table) // 5 * 3 // 2  # one write and a half
    lake.drop_table(_NAME)
    table = _stream(lake, {"EVICTION_STRATEGY": "hybrid", "MAX_STREAM_SIZE_BYTES": str(limit)})
    for id_ in range(5):
        table.write([{"id": id_, "what": f"w{id_}", "who": user} for user in ("u", "v")], user_column="who")
    table.write(_rows(9), user="w")
    lake.evict(_NAME)
    assert (_ids(table), _ids(table, "v"), _ids(table, "w")) == ([4], [4], [9])


def test_what_a_stream_does_not_do(lake: Lakehouse) -> None:
    table = _stream(lake)
    table.write(_rows(1), user="u")
    for attempt in (
        lambda: lake.flush(_NAME),
        lambda: lake.compact(_NAME),
        lambda: lake.optimize(_NAME),
        lambda: lake.vacuum(_NAME),
        lambda: lake.restore(_NAME, user="u", version=0),
        lambda: lake.enqueue("flush", _NAME),
        lambda: lake.plan(_NAME),
        lambda: lake.tag(_NAME, "t", user="u"),
        lambda: table.history(user="u"),
    ):
        with pytest.raises(Unsupported, match="STREAM"):
            attempt()
    assert _ids(table) == [1]


def test_streams_are_left_out_of_what_is_flushed(lake: Lakehouse) -> None:
    _stream(lake).write(_rows(1), user="u")
    make_notes(lake, options={"FLUSH_POLICY": "rows:1"}).write(notes({1: "a"}), user="u")
    assert {str(pending.table) for pending in lake.pending()} == {NOTES}
    assert {status.table for status in lake.status()} == {NOTES}
    assert {str(due.pending.table) for due in lake.due()} == {NOTES}
    assert {str(report.scope.table) for report in lake.flush()} == {NOTES}
    lake.compact()
    lake.optimize()
    assert all(finding.passed for finding in lake.check())
    assert lake.plan() == []
    assert _ids(lake.table(_NAME)) == [1]
    assert not list(Path(lake.warehouse.uri).glob("data/chat/typing*"))


def test_only_streams_are_evicted(lake: Lakehouse) -> None:
    make_notes(lake)
    with pytest.raises(Unsupported, match="never expire"):
        lake.evict(NOTES)
    with pytest.raises(Unsupported):
        lake.enqueue("evict", NOTES)


def test_an_eviction_can_be_queued(lake: Lakehouse, clock: Clock) -> None:
    _stream(lake).write(_rows(1), user="u")
    clock.forward(seconds=_TTL + 1)
    queued = lake.enqueue("evict", _NAME)
    (job,) = lake.run_jobs()
    assert (job.job_id, job.status) == (queued.job_id, "completed")
    assert log_files(lake) == []


def test_a_dropped_stream_leaves_nothing(lake: Lakehouse) -> None:
    table = _stream(lake)
    table.write(_rows(1), user="u")
    lake.drop_table(_NAME)
    assert log_files(lake) == []


@pytest.mark.slow
@pytest.mark.disk
def test_a_million_expired_rows_go_without_being_read(lake: Lakehouse, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _stream(lake)
    count = 1_000_000
    users = pa.array([f"u{number}" for number in range(100)]).take(np.arange(count) % 100)
    rows = pa.table({"id": pa.array(np.arange(count)), "what": pa.repeat("typing …", count), "who": users})
    table.write(rows, user_column="who")
    table.write(_rows(1), user="late")
    clock.forward(seconds=_TTL + 1)
    table.write(_rows(2), user="late")
    stored = sum(path.stat().st_size for path in Path(lake.warehouse.uri).glob("_lakewarden/log/*/segments/*"))
    read: list[int] = []
    get_range = LocalObjects.get_range

    def counted(self: LocalObjects, key: str, start: int, length: int) -> bytes:
        found = get_range(self, key, start, length)
        read.append(len(found))
        return found

    monkeypatch.setattr(LocalObjects, "get_range", counted)
    reports = lake.evict(_NAME)
    assert sum(report.metrics["rows_evicted"] for report in reports) == count + 1
    assert sum(read) < stored / 20, "headers alone"
    assert len(log_files(lake)) == 1
    assert _ids(table, "late") == [2]
