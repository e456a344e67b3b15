"""One machine's clock was a year ahead for a while, and was put right: what it left behind holds nothing back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.clock import CLOCKS_DIFFER, random_id
from lakewarden.catalog.state.job_log import AlreadyActive, JobLog, claim_key
from lakewarden.client.maintain_once import CADENCES, COMPACT, MaintainOnce
from tests.fixtures.clock import Clock
from tests.fixtures.lakes import NOTES, make_notes, notes

pytestmark = pytest.mark.disk

YEAR = timedelta(days=365)
LEASE = timedelta(seconds=60)


@pytest.fixture
def clock() -> Clock:
    """The right one: that of the store, which dates objects by itself."""
    return Clock(datetime.now(UTC))


@pytest.fixture
def lake(tmp_path: Path, clock: Clock) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "warehouse"), clock=clock) as lake:
        yield lake


@pytest.fixture
def wrong(lake: Lakehouse, clock: Clock) -> Iterator[Lakehouse]:
    with Lakehouse.open(lake.warehouse.uri, clock=lambda: clock() + YEAR) as wrong:
        yield wrong


@pytest.mark.parametrize(
    ("policy", "is_due"), [("interval:60", True), ("rows:5,interval:60", True), ("rows:5", False), (None, False)]
)
def test_rows_that_it_wrote_are_due_by_an_interval(lake: Lakehouse, wrong: Lakehouse, policy: str | None, is_due: bool) -> None:
    make_notes(lake, options={"FLUSH_POLICY": policy} if policy else None)
    wrong.table(NOTES).write(notes({1: "a"}), user="ann")
    reasons = [one.reason for one in lake.due()]
    assert [reason.startswith("oldest row dated ahead, ") for reason in reasons] == [True] * is_due
    assert [(one.pending_rows, one.oldest_pending_age) for one in lake.status()] == [(1, 0.0)]
    assert [table.health.status.oldest_pending_age for table in lake.fleet().tables] == [0.0]
    lake.flush_scopes([one.pending.scope for one in lake.due()])
    assert bool(lake.pending()) == (not is_due)


def test_rows_of_a_clock_that_differs_little_wait_for_their_interval(lake: Lakehouse, clock: Clock) -> None:
    make_notes(lake, options={"FLUSH_POLICY": "interval:60"})
    with Lakehouse.open(lake.warehouse.uri, clock=lambda: clock() + CLOCKS_DIFFER / 2) as other:
        other.table(NOTES).write(notes({1: "a"}), user="ann")
    assert lake.due() == []
    clock.now += CLOCKS_DIFFER / 2 + LEASE
    assert [one.reason for one in lake.due()] == ["oldest row 1 min old of interval:60"]


def test_rows_of_a_stream_behind_its_own_expire(lake: Lakehouse, wrong: Lakehouse, clock: Clock) -> None:
    lake.create_namespace("chat")
    columns = [Column("id", "BIGINT"), Column("what", "TEXT")]
    typing = lake.create_table("chat.typing", type="STREAM", columns=columns, options={"TTL_SECONDS": "30"})
    for number, writer in enumerate((lake, wrong, lake, wrong)):
        writer.table("chat.typing").write([{"id": number, "what": "a"}], user="u")
    lake.evict()
    assert len(typing.read(user="u")) == 4
    clock.forward(31)
    lake.evict()
    # The last one stays: nothing shows when it was written.
    assert [row["id"] for row in typing.read(user="u").to_pylist()] == [3]
    typing.write([{"id": 4, "what": "a"}], user="u")
    clock.forward(31)
    lake.evict()
    assert len(typing.read(user="u")) == 0


def test_a_job_of_a_dead_runner_is_left_by_the_stores_time(lake: Lakehouse, wrong: Lakehouse, clock: Clock) -> None:
    jobs, theirs = (JobLog(one.warehouse.state, one.warehouse.clock, random_id, LEASE) for one in (lake, wrong))
    job = theirs.beat(theirs.claim(theirs.enqueue("flush", {"tables": NOTES}), "another machine:1"), "")
    assert jobs.runnable() == []
    with pytest.raises(AlreadyActive):
        jobs.enqueue("flush", {"tables": NOTES})
    clock.forward(300)
    assert [one.job_id for one in jobs.runnable()] == [job.job_id]
    jobs.enqueue("flush", {"tables": NOTES})
    assert jobs.find(job.job_id).status == "failed"


def test_a_claim_without_a_job_holds_nothing(lake: Lakehouse, clock: Clock) -> None:
    claim_key(lake.warehouse.state, "flush:a.b", "FL-1", clock() + YEAR, lambda _: None)
    claim_key(lake.warehouse.state, "flush:a.b", "FL-2", clock(), lambda _: None)
    with pytest.raises(AlreadyActive, match="FL-2"):
        claim_key(lake.warehouse.state, "flush:a.b", "FL-3", clock(), lambda _: None)


def test_a_subscription_that_died_is_gone(lake: Lakehouse, wrong: Lakehouse, clock: Clock) -> None:
    make_notes(lake)
    wrong.subscribe(f"SELECT * FROM {NOTES}", user="u")
    assert len(lake.live_queries()) == 1
    clock.forward(300)
    assert lake.live_queries() == []


def test_a_tick_of_maintenance_comes_at_its_times(lake: Lakehouse, wrong: Lakehouse, clock: Clock) -> None:
    make_notes(lake)
    MaintainOnce(wrong, dry_run=False).run()

    def is_due() -> bool:
        found = {one.action: one.outcome for one in MaintainOnce(lake, dry_run=True).run()}
        return found[COMPACT] == "due"

    assert is_due()
    MaintainOnce(lake, dry_run=False).run()
    assert not is_due()
    clock.now = CADENCES[COMPACT].last(clock.now) + timedelta(hours=1)
    assert is_due()


@pytest.mark.slow
@pytest.mark.parametrize("of_the_store", [False, True], ids=["its own", "the store's too"])
@pytest.mark.parametrize("books", [False, True], ids=["ends jobs", "books them"])
@pytest.mark.parametrize("ahead", [YEAR, timedelta(hours=1), timedelta(seconds=72)], ids=str)
def test_jobs_that_it_ended_keep_none_out_of_the_week(
    lake: Lakehouse, clock: Clock, ahead: timedelta, books: bool, of_the_store: bool
) -> None:
    root = Path(lake.warehouse.uri) / "_lakewarden"
    clock.now = clock.now.replace(hour=12)  # a clock that is an hour ahead would book tomorrow late in the evening

    def flush(of: Lakehouse, user: str) -> None:
        before = set(root.rglob("jobs/*/*"))
        of.table(NOTES).write(notes({1: "a"}), user=user)
        of.flush()
        for path in root.rglob("jobs/*/*"):
            if path not in before:  # as a store says whose clock it is, or one that is right
                at = (of if of_the_store else lake).warehouse.clock().timestamp()
                os.utime(path, (at, at))

    def jobs() -> int:
        return sum(one["jobs"] for one in lake.fleet().week)

    make_notes(lake)
    flush(lake, "ann")
    with Lakehouse.open(lake.warehouse.uri, clock=lambda: clock() + ahead) as wrong:
        flush(wrong, "bob")
        assert not books or wrong.book_fleet() == 1
    for number, user in enumerate(("cid", "dan", "eve"), 3):
        flush(lake, user)
        assert jobs() == number
        clock.forward(601)
        lake.book_fleet()
        assert jobs() == number
        (table,) = lake.fleet().tables
        newest = lake.warehouse.state.list(f"fleet/{table.table_id}")[-1].key.rpartition("/")[2]
        assert newest == table.days[-1].day == f"{clock():%Y-%m-%d}"
        assert table.days[-1].look.scopes == number
