from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import Conflict, NotFound, StorageRefused, StorageUnavailable
from lakewarden.log.objects import names
from lakewarden.log.objects.cuts.closing import remove_log, seal
from lakewarden.log.position import NOTHING, PartlyAppended, Receipt, position_of, seq_of
from tests.fixtures.patience import PATIENCE
from tests.log.build import LOG, Store, joined, notes, pending_ids, settle_all, view_of, writer


def test_rows_are_numbered_in_the_order_of_their_appends(store: Store) -> None:
    one, two = writer(store), writer(store)
    receipts = [one.append(notes("u", 1, 2)), two.append(notes("u", 3)), one.append(notes("u", 4))]
    assert receipts == [Receipt(2, seq_of(0, 1)), Receipt(1, seq_of(1, 0)), Receipt(1, seq_of(2, 0))]
    assert pending_ids(store, "u") == [1, 2, 3, 4]


def test_one_call_for_many_scopes_is_one_segment(store: Store) -> None:
    receipt = writer(store).append(joined(notes("a", 1), notes("b", 2), notes("a", 3)))
    assert receipt == Receipt(3, seq_of(0, 2))
    assert (pending_ids(store, "a"), pending_ids(store, "b")) == ([1, 3], [2])
    assert len(store.list(names.segments(LOG))) == 1


def test_no_rows_are_nothing(store: Store) -> None:
    assert writer(store).append(notes("u")) == Receipt(0, NOTHING)
    assert store.list("log") == []


def test_a_call_larger_than_a_segment_is_several(store: Store) -> None:
    receipt = writer(store, LogSettings(segment_max_rows=3)).append(joined(notes("a", *range(7)), notes("b", 1)))
    assert receipt.rows == 8
    assert pending_ids(store, "a") == [*range(7)]
    assert max(each.rows for header in view_of(store).run for each in header.ranges) == 3


def test_a_call_of_many_bytes_is_several(store: Store) -> None:
    writer(store, LogSettings(segment_max_bytes=1024)).append(joined(*(notes(f"u{n}", n) for n in range(9))))
    assert len(view_of(store).run) == 3


def test_a_failure_half_way_says_what_was_acknowledged(store: Store) -> None:
    def fail(call: str, key: str) -> None:
        if call == "create" and key.endswith("1"):
            raise StorageRefused("the disk is full")

    store.before = fail
    with pytest.raises(
        PartlyAppended, match=r"3 of 5 rows were acknowledged, all those of 1 users \('a'\); then: the disk is full"
    ) as raised:
        writer(store, LogSettings(segment_max_rows=3)).append(joined(notes("a", 1, 2, 3), notes("b", 4, 5)))
    assert (raised.value.rows, raised.value.users) == (3, frozenset("a"))
    assert (pending_ids(store, "a"), pending_ids(store, "b")) == ([1, 2, 3], [])


@pytest.mark.slow
def test_threads_share_segments(store: Store) -> None:
    shared, entered = writer(store), threading.Event()

    def hold_until_the_others_wait(call: str, _key: str) -> None:
        if call == "create" and not entered.is_set():
            entered.set()
            deadline = time.monotonic() + PATIENCE
            while len(shared.gathering._waiting) < 7:  # nothing public shows who waits
                assert time.monotonic() < deadline
                time.sleep(0.001)

    def append(thread: int) -> list[Receipt]:
        assert thread == 0 or entered.wait(PATIENCE)
        return [shared.append(notes(f"t{thread}", n)) for n in range(25)]

    store.before = hold_until_the_others_wait
    with ThreadPoolExecutor(8) as pool:
        receipts = list(pool.map(append, range(8)))
    assert all(pending_ids(store, f"t{thread}") == [*range(25)] for thread in range(8))
    assert len(view_of(store).run) < 8 * 25
    assert all([each.last_seq for each in mine] == sorted(each.last_seq for each in mine) for mine in receipts)
    assert len({each.last_seq for mine in receipts for each in mine}) == 8 * 25


def test_those_who_share_a_segment_share_its_failure(store: Store) -> None:
    shared, entered, go_on = writer(store), threading.Event(), threading.Event()

    def hold_then_fail(call: str, _key: str) -> None:
        if call == "create":
            entered.set()
            assert go_on.wait(PATIENCE)
            raise StorageRefused("the disk is full")

    store.before = hold_then_fail
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(shared.append, notes("u", 0))]
        assert entered.wait(PATIENCE)
        calls += [pool.submit(shared.append, notes("u", n)) for n in (1, 2, 3)]
        go_on.set()
        errors = [call.exception() for call in calls]
    assert [str(error) for error in errors] == ["the disk is full"] * 4
    store.before = lambda call, key: None
    assert shared.append(notes("u", 9)).rows == 1


def test_an_interrupted_leader_leaves_nobody_waiting(store: Store) -> None:
    shared, entered, go_on = writer(store), threading.Event(), threading.Event()

    class Interrupted(BaseException):
        pass

    def interrupt(call: str, _key: str) -> None:
        if call == "create" and not entered.is_set():
            entered.set()
            assert go_on.wait(PATIENCE)
            raise Interrupted

    store.before = interrupt
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(shared.append, notes("u", 1))
        assert entered.wait(PATIENCE)
        second = pool.submit(shared.append, notes("u", 2))
        go_on.set()
        assert isinstance(first.exception(PATIENCE), Interrupted)
        assert second.result(PATIENCE).rows == 1


def test_a_conditional_append_follows_what_was_read_or_is_refused(store: Store) -> None:
    one = writer(store)
    first = position_of(one.append(notes("u", 1)).last_seq)
    assert position_of(one.append(notes("u", 2), after=first).last_seq) == first + 1
    with pytest.raises(Conflict, match="after position 0, which was read"):
        writer(store).append(notes("u", 3), after=first)
    settle_all(store)
    with pytest.raises(Conflict):
        writer(store).append(notes("u", 3), after=first)
    assert pending_ids(store, "u") == []


@pytest.mark.parametrize("happened", [True, False])
def test_a_put_whose_answer_was_lost_is_neither_repeated_nor_lost(store: Store, happened: bool) -> None:
    lost: list[str] = []

    def lose(call: str, key: str) -> None:
        if call == "create" and not lost:
            lost.append(key)
            raise StorageUnavailable("no answer")

    if happened:
        store.after = lose
    else:
        store.before = lose
    assert writer(store).append(notes("u", 1)) == Receipt(1, seq_of(0, 0))
    assert pending_ids(store, "u") == [1]


def test_a_lost_put_that_another_has_overtaken_moves_on(store: Store) -> None:
    other = writer(store)

    def overtake(call: str, _key: str) -> None:
        if call == "create":
            store.before = lambda call, key: None
            other.append(notes("u", 1))
            raise StorageUnavailable("no answer")

    store.before = overtake
    assert writer(store).append(notes("u", 2)) == Receipt(1, seq_of(1, 0))
    assert pending_ids(store, "u") == [1, 2]


def test_a_lost_put_that_was_flushed_meanwhile_is_acknowledged(store: Store) -> None:
    def flush(call: str, _key: str) -> None:
        if call == "create":
            store.after = lambda call, key: None
            settle_all(store)
            raise StorageUnavailable("no answer")

    store.after = flush
    assert writer(store).append(notes("u", 1)) == Receipt(1, seq_of(0, 0))
    assert view_of(store).pending == {}


def test_a_lost_put_of_which_nobody_knows_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewarden.log.objects.cut.REMEMBERED", 2)
    other = writer(store)

    def flush_much(call: str, _key: str) -> None:
        if call == "create":
            store.after = lambda call, key: None
            for n in range(3):
                other.append(notes("v", n))
            settle_all(store)
            raise StorageUnavailable("no answer")

    store.after = flush_much
    with pytest.raises(StorageUnavailable, match="may or may not have been taken at position 0"):
        writer(store).append(notes("u", 1))


def test_a_store_that_stays_away_leaves_it_open(store: Store) -> None:
    def fail(call: str, _key: str) -> None:
        if call == "create":
            store.before = away
            raise StorageUnavailable("no answer")

    def away(_call: str, _key: str) -> None:
        raise StorageUnavailable("still none")

    store.before = fail
    late = writer(store)
    with pytest.raises(StorageUnavailable, match=r"may or may not have been taken at position 0 .* still none"):
        late.append(notes("u", 1))
    store.before = lambda call, key: None
    assert late.append(notes("u", 2)) == Receipt(1, seq_of(0, 0)), "the position is tried again"


def test_a_writer_that_slept_while_its_position_was_settled_goes_on_behind(store: Store) -> None:
    slow, other = writer(store), writer(store)
    slow.append(notes("u", 0))

    def sleep(call: str, _key: str) -> None:
        if call == "create":
            store.before = lambda call, key: None
            other.append(notes("u", 1))
            other.append(notes("u", 2))
            settle_all(store)

    store.before = sleep
    assert slow.append(notes("u", 3)) == Receipt(1, seq_of(3, 0))
    assert pending_ids(store, "u") == [3]


def test_rows_that_are_flushed_before_the_writer_looks_are_not_appended_again(store: Store) -> None:
    def flush(call: str, _key: str) -> None:
        if call == "create":
            store.after = lambda call, key: None
            settle_all(store)

    store.after = flush
    assert writer(store).append(notes("u", 1)) == Receipt(1, seq_of(0, 0))
    assert view_of(store).pending == {}
    assert view_of(store).last_position == 0


def test_nobody_writes_to_a_sealed_log(store: Store) -> None:
    known = writer(store)
    known.append(notes("u", 1))
    remove_log(store, LOG)
    seal(store, LOG)
    for each in (known, writer(store)):
        for _ in range(2):
            with pytest.raises(NotFound, match="its table was dropped"):
                each.append(notes("u", 2))
    with pytest.raises(NotFound):
        writer(store).append(notes("u", 2), after=view_of(store).last_position)
    assert view_of(store).pending == {}
    assert [each.key for each in store.list("log")] == [names.cut_key(LOG, 1)]


def test_a_writer_far_behind_finds_the_end(store: Store) -> None:
    late, other = writer(store), writer(store)
    late.append(notes("u", 0))
    for n in range(60):
        other.append(notes("u", n))
    store.calls.clear()
    late.append(notes("u", 99))
    assert store.calls["create"] < 12
    assert pending_ids(store, "u")[-1] == 99
