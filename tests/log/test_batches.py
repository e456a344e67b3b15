"""Batches of many users: staged by several processes, published at one position, and each identity once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.base.clock import random_id, system_clock
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import BeingErased, InvalidArgument, SchemaChanged, StorageUnavailable, Unsupported
from lakewarden.log.objects import names
from lakewarden.log.objects.cuts.closing import close_user, leave_out, open_user
from lakewarden.log.objects.cuts.settle import CutTerms
from lakewarden.log.objects.pack import INDEXED
from lakewarden.log.objects.staging import remove_abandoned
from lakewarden.log.once import StagedPiece, WriterBatch
from lakewarden.log.position import WHOLE, position_of
from lakewarden.log.record import LogBatch
from lakewarden.log.table_log import LogTerms, TableLog
from tests.log.build import LOG, Store, joined, notes, pending_ids, view_of

SMALL = LogSettings(segment_max_rows=3, retention_seconds=0)


def log_of(store: Store, settings: LogSettings = SMALL) -> TableLog:
    """A process of its own."""
    return TableLog(store, LOG, LogTerms(settings, system_clock, random_id, str.upper, INDEXED))


def settle_all(store: Store) -> None:
    log = log_of(store)
    view = log.view()
    log.settle(view, dict.fromkeys(view.pending, view.end))


def left(store: Store) -> list[str]:
    return [found.key for found in store.list(names.home(LOG)) if "/staged/" in found.key]


def test_what_several_processes_stage_has_one_position(store: Store) -> None:
    driver = log_of(store)
    staging = driver.begin_batch()
    one = log_of(store).stage(staging, joined(notes("a", 1, 2, 3, 4), notes("b", 1)))
    two = log_of(store).stage(staging, joined(notes("b", 2), notes("c", 1)))
    assert pending_ids(store, "a") == pending_ids(store, "b") == []
    receipt = driver.publish(staging, (*one, *two))
    assert receipt is not None
    assert receipt.rows == 7
    assert {user: pending_ids(store, user) for user in "abc"} == {"a": [1, 2, 3, 4], "b": [1, 2], "c": [1]}
    view = view_of(store)
    assert {position_of(each.last_seq) for rows in view.pending.values() for each in rows.ranges} == {0}


def test_what_a_repeated_task_staged_goes_with_the_publication(store: Store) -> None:
    driver = log_of(store)
    staging = driver.begin_batch()
    driver.stage(staging, notes("a", 1))
    pieces = driver.stage(staging, notes("a", 1))
    driver.publish(staging, pieces)
    assert pending_ids(store, "a") == [1]
    assert len(left(store)) == 1


def test_a_publication_reads_what_is_new_of_the_log(store: Store) -> None:
    log, other = log_of(store), log_of(store)
    reads = []
    for number in range(30):
        store.calls.clear()
        log.append_once(notes("a", number), WriterBatch("topic/0", number, number - 1))
        assert log.published("topic/0") == number
        reads.append(store.calls["get"])
        other.append(notes("b", number))
    assert max(reads[20:]) <= max(reads[5:10])
    assert pending_ids(store, "a") == pending_ids(store, "b") == [*range(30)]


def test_to_publish_again_writes_nothing(store: Store) -> None:
    driver = log_of(store)
    staging = driver.begin_batch()
    pieces = driver.stage(staging, notes("a", 1))
    assert driver.publish(staging, pieces) is not None
    assert driver.publish(staging, pieces) is None
    driver.abandon(staging)
    assert pending_ids(store, "a") == [1]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_batch_that_no_cut_remembers_is_not_published_again(
    store: Store, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was flushed before so many others that nothing names it any more: in one cut with them, or in one of its own."""
    monkeypatch.setattr("lakewarden.log.objects.cut.REMEMBERED", 3)
    driver = log_of(store)
    staging = driver.begin_batch()
    pieces = driver.stage(staging, notes("a", 1))
    assert driver.publish(staging, pieces) is not None
    if not at_once:
        settle_all(store)
    for number in range(4):
        driver.append(notes("b", number))
    settle_all(store)
    assert left(store) == []
    for process in (driver, log_of(store)):
        with pytest.raises(StorageUnavailable, match="read before writing the rows again"):
            process.publish(staging, pieces)
    driver.append(notes("b", 9))
    assert (pending_ids(store, "a"), pending_ids(store, "b")) == ([], [9])


def test_an_abandoned_batch_leaves_nothing_and_one_of_a_dead_process_goes_two_days_later(store: Store) -> None:
    driver = log_of(store)
    staging = driver.begin_batch()
    driver.stage(staging, joined(notes("a", 1), notes("b", 1)))
    driver.abandon(staging)
    assert left(store) == []
    driver.stage(staging, notes("a", 1))
    remove_abandoned(store, LOG, view_of(store).unnamed, datetime.now(UTC) + timedelta(hours=49))
    assert left(store) == []


@pytest.mark.parametrize("settled", [False, True])
def test_a_batch_with_an_identity_is_appended_once(store: Store, settled: bool) -> None:
    assert log_of(store).append_once(joined(notes("a", 1), notes("b", 1)), WriterBatch("stream", 7)) is not None
    if settled:
        settle_all(store)
        assert view_of(store).run == ()
    log = log_of(store)
    assert log.append_once(notes("a", 2), WriterBatch("stream", 7)) is None
    assert log.append_once(notes("a", 2), WriterBatch("stream", 6)) is None
    assert log.published("stream") == 7
    assert log.published("other") is None
    assert pending_ids(store, "a") == ([] if settled else [1])
    assert len(left(store)) == (0 if settled else 1), "what was staged again is gone"
    assert log.append_once(notes("a", 3), WriterBatch("stream", 8)) is not None
    assert log.append_once(notes("a", 4), WriterBatch("other", 0)) is not None
    assert pending_ids(store, "a")[-2:] == [3, 4]


def test_an_attempt_with_another_number_stands_for_the_batch(store: Store) -> None:
    log = log_of(store)
    assert log.append_once(notes("a", 1), WriterBatch("topic", 10, above=4)) is not None
    assert log.append_once(notes("a", 1, 2), WriterBatch("topic", 12, above=4)) is None
    assert log.append_once(notes("a", 3), WriterBatch("topic", 12, above=10)) is not None
    assert log.published("topic") == 12


def test_a_batch_without_rows_keeps_its_identity(store: Store) -> None:
    log = log_of(store)
    empty = LogBatch(1, notes("a", 1).rows.slice(0, 0))
    assert log.append_once(empty, WriterBatch("topic", 3)) is not None
    assert log.append_once(notes("a", 1), WriterBatch("topic", 3)) is None
    settle_all(store)
    assert log_of(store).published("topic") == 3


def test_a_batch_that_two_processes_publish_at_once_is_there_once(store: Store) -> None:
    """The second process publishes between the first one's look and its put."""
    one, two = log_of(store), log_of(store)
    once = WriterBatch("stream", 1)
    staging = one.begin_batch()
    pieces = one.stage(staging, notes("a", 1))

    def meanwhile(call: str, key: str) -> None:
        if call == "create" and "/segments/" in key:
            store.before = lambda call, key: None
            assert two.append_once(notes("a", 1), once) is not None

    store.before = meanwhile
    assert one.publish(staging, pieces, once) is None
    assert pending_ids(store, "a") == [1]


def test_a_publication_whose_answer_was_lost_is_not_repeated(store: Store) -> None:
    log = log_of(store)
    staging = log.begin_batch()
    pieces = log.stage(staging, notes("a", 1))

    def fails(call: str, key: str) -> None:
        if call == "create" and "/segments/" in key:
            raise StorageUnavailable("the answer was lost")

    store.after = fails
    assert log.publish(staging, pieces, WriterBatch("s", 1)) is not None, "the next look shows that it is there"
    store.after = lambda call, key: None
    assert log_of(store).append_once(notes("a", 1), WriterBatch("s", 1)) is None
    assert pending_ids(store, "a") == [1]


def test_rows_of_a_batch_are_erased_with_their_user_alone(store: Store) -> None:
    log = log_of(store)
    log.append_once(joined(notes("a", 1), notes("b", 1)), WriterBatch("stream", 1))
    waiting = log.begin_batch()
    pieces = log.stage(waiting, joined(notes("a", 2), notes("b", 2)))
    close_user(store, LOG, "A")
    leave_out(store, LOG, "a", "A", CutTerms(SMALL, random_id), now=datetime.now(UTC))
    assert left(store) == [], "nothing of the user is staged"
    for _ in range(2):
        with pytest.raises(BeingErased):
            log.publish(waiting, pieces)
        open_user(store, LOG, "A")
    assert (pending_ids(store, "a"), pending_ids(store, "b")) == ([], [1])
    assert log.published("stream") == 1


def test_a_batch_that_was_begun_during_an_erasure_has_no_rows_of_the_user(store: Store) -> None:
    log, begun = log_of(store), []

    def begin(place: str) -> None:
        """Behind the positions of the erasure, and before it removes what is staged."""
        if place == "erase:filled":
            for rows in (joined(notes("a", 1), notes("b", 1)), notes("b", 2)):
                staging = log.begin_batch()
                begun.append((staging, log.stage(staging, rows)))

    close_user(store, LOG, "A")
    leave_out(store, LOG, "a", "A", CutTerms(SMALL, random_id, reach=begin), now=datetime.now(UTC))
    open_user(store, LOG, "A")
    with pytest.raises(BeingErased):
        log.publish(*begun[0])
    log.publish(*begun[1])
    assert (pending_ids(store, "a"), pending_ids(store, "b")) == ([], [2])


def test_a_user_of_a_batch_is_flushed_without_the_others(store: Store) -> None:
    log = log_of(store)
    log.append_once(joined(notes("a", 1), notes("b", *range(20))), WriterBatch("stream", 1))
    log.settle(log.view(), {"b": log.view().end})
    assert (pending_ids(store, "a"), pending_ids(store, "b")) == ([1], [])
    assert log_of(store).published("stream") == 1
    assert left(store) == [], "what was left is carried"


def test_what_cannot_be_published_is_refused(store: Store) -> None:
    log = log_of(store)
    staging = log.begin_batch()
    with pytest.raises(SchemaChanged, match="columns were changed"):
        log.publish(staging, [StagedPiece(1, "a", 0, 1, 0, 1), StagedPiece(2, "a", 0, 1, 0, 1)])
    with pytest.raises(InvalidArgument, match="more than"):
        log.publish(staging, [StagedPiece(1, "a", 0, WHOLE + 1, 0, 1)])
    old = TableLog(store, LOG, LogTerms(SMALL, system_clock, random_id, str.upper, 2))
    with pytest.raises(Unsupported, match="upgrade"):
        old.begin_batch()
