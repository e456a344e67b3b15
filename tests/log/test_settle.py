from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from lakewarden.base.clock import random_id
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import StorageUnavailable
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import ChunksInHand, HeaderCache
from lakewarden.log.objects.clean import clean
from lakewarden.log.objects.cut import LogCut, encode_cut, newest_cut
from lakewarden.log.objects.cuts import settle as settling
from lakewarden.log.objects.cuts.settle import CutTerms, settle
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.objects.segment import read_chunk
from lakewarden.log.objects.trail import read_trail
from lakewarden.log.objects.view import read_view
from lakewarden.log.position import NOTHING
from lakewarden.log.record import decode
from tests.log.build import LOG, NOTES, Store, ids_of, joined, notes, pending_ids, view_of, writer

ALWAYS, HALF, NEVER = LogSettings(carry_below=1), LogSettings(carry_below=0.5), LogSettings(carry_below=0)


class Crash(BaseException):
    """The process ends here."""


def settled(
    store: Store, *users: str, view: LogView | None = None, settings: LogSettings = HALF, reach: Reach = no_faults
) -> LogView:
    view = view or view_of(store)
    settle(store, view, dict.fromkeys(users, view.end), CutTerms(settings, random_id, reach=reach))
    return view_of(store)


def kinds(store: Store) -> list[str]:
    """What lies in the log, each kind once; of its cuts the last four stay."""
    kinds = [each.key.split("/")[2] for each in store.list("log")]
    assert kinds.count("cuts") <= 4
    return sorted(set(kinds))


def test_a_full_flush_leaves_cuts_alone(store: Store) -> None:
    for n in range(3):
        writer(store).append(joined(notes("a", n), notes("b", n)))
    view = settled(store, "a", "b")
    assert (view.cut.upto, view.cut.carry, view.cut.settled, view.pending, view.litter) == (2, (), {}, {}, False)
    assert kinds(store) == ["cuts"]
    writer(store).append(notes("a", 9))
    assert pending_ids(store, "a") == [9]
    assert settled(store, "a").cut.version == 2
    assert kinds(store) == ["cuts"]


def test_a_small_flush_only_marks(store: Store) -> None:
    writer(store).append(joined(*(notes(f"u{n}", n) for n in range(10))))
    view = settled(store, "u3")
    assert (view.cut.upto, [*view.cut.settled], len(view.pending)) == (-1, ["u3"], 9)
    assert kinds(store) == ["cuts", "segments"]
    writer(store).append(notes("u3", 33))
    assert pending_ids(store, "u3") == [33]


def test_rows_are_carried_when_little_is_left(store: Store) -> None:
    writer(store).append(joined(*(notes(f"u{n}", n) for n in range(10))))
    view = settled(store, *(f"u{n}" for n in range(8)))
    assert (view.cut.upto, len(view.cut.carry), [*view.pending], view.cut.settled) == (0, 1, ["u8", "u9"], {})
    assert kinds(store) == ["carry", "cuts"]
    assert pending_ids(store, "u9") == [9]
    assert settled(store, "u8").pending.keys() == {"u9"}
    assert settled(store, "u9").cut.carry == ()
    assert kinds(store) == ["cuts"]


def test_positions_without_open_rows_go_whatever_follows(store: Store) -> None:
    for user in ("a", "a", "b", "a"):
        writer(store).append(notes(user, 1))
    view = settled(store, "a", settings=NEVER)
    assert view.cut.upto == 1
    assert [each.key for each in store.list(names.segments(LOG))] == [names.segment_key(LOG, 2), names.segment_key(LOG, 3)]
    assert [*view.pending] == ["b"]


@pytest.mark.slow
def test_a_scope_that_cannot_be_flushed_keeps_only_its_own_rows(store: Store) -> None:
    for n in range(60):
        writer(store).append(joined(notes("poisoned", n), *(notes(f"u{i}", n) for i in range(9))))
        view = settled(store, *(f"u{i}" for i in range(9)))
        assert [*view.pending] == ["poisoned"]
        assert (len(view.run), view.cut.settled) == (0, {})
        assert len(view.cut.carry) <= 8
    assert pending_ids(store, "poisoned") == [*range(60)]
    settled(store, "poisoned")
    assert kinds(store) == ["cuts"]


def test_rows_keep_their_numbers_when_they_move(store: Store) -> None:
    writer(store).append(joined(notes("a", 1), notes("b", 2, 3)))
    writer(store).append(notes("b", 4))
    before = [(each.first_seq, each.rows, each.stored_at) for each in view_of(store).pending["b"].ranges]
    for _ in range(3):
        view = settled(store, "a", settings=ALWAYS)
        assert [(each.first_seq, each.rows, each.stored_at) for each in view.pending["b"].ranges] == before
        writer(store).append(notes("a", 1))


def test_a_watermark_within_a_segment_settles_only_what_lies_before(store: Store) -> None:
    writer(store).append(notes("u", 1, 2))
    writer(store).append(notes("u", 3, 4))
    view = view_of(store)
    settle(store, view, {"u": view.end - (1 << 27)}, CutTerms(HALF, random_id))
    assert pending_ids(store, "u") == [3, 4]


def test_settled_rows_are_kept_and_then_forgotten(store: Store) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(3):
        writer(store).append(joined(notes("a", number), notes("b", number)))
        view = view_of(store)
        moment = now + timedelta(seconds=1800 * number)
        settle(store, view, {"a": view.end}, CutTerms(NEVER, random_id), now=moment)
    assert (view_of(store).cut.history, kinds(store)) == ((), ["cuts", "segments"]), "nothing has left the log yet"
    view = view_of(store)
    settle(store, view, {"b": view.end}, CutTerms(NEVER, random_id), now=now)
    assert kinds(store) == ["cuts", "history"]
    trail = read_trail(store, LOG, NOTHING, HeaderCache())
    assert [(each.first_seq >> 28, each.user) for each in trail.ranges("a", NOTHING)] == [(n, "a") for n in range(3)]
    assert (trail.complete_after(NOTHING), read_trail(store, LOG, trail.end, HeaderCache()).history) == (True, ())
    settle(store, view_of(store), {}, CutTerms(NEVER, random_id), now=now + timedelta(seconds=3601))
    assert kinds(store) == ["cuts"]
    late = read_trail(store, LOG, NOTHING, HeaderCache())
    assert (late.ranges("a", NOTHING), late.complete_after(NOTHING), late.complete_after(late.end)) == ((), False, True)


@pytest.mark.slow
def test_many_small_parts_of_the_history_become_one(store: Store) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(70):
        writer(store).append(notes("a", number))
        view = view_of(store)
        settle(store, view, {"a": view.end}, CutTerms(HALF, random_id), now=now + timedelta(seconds=number))
    cut = view_of(store).cut
    assert sorted(kept.small for kept in cut.history) == [False, False, *[True] * 6]
    trail = read_trail(store, LOG, NOTHING, HeaderCache())
    assert [each.first_seq >> 28 for each in trail.ranges("a", NOTHING)] == [*range(70)]


def test_who_settles_again_and_again_reads_only_what_is_settled(store: Store) -> None:
    """Parts of the history are remembered until they are joined."""
    now, cache = datetime(2026, 1, 1, tzinfo=UTC), HeaderCache()
    for number in range(34):
        writer(store).append(notes("a", number))
        view = read_view(store, LOG, cache)
        store.calls.clear()
        settle(store, view, {"a": view.end}, CutTerms(HALF, random_id), now=now + timedelta(seconds=number), cache=cache)
        assert store.calls == {"get": 1, "create": 3 if number == 32 else 2, "list": 1, "delete": 1}
    assert [kept.small for kept in view_of(store).cut.history] == [False, True, True]
    trail = read_trail(store, LOG, NOTHING, HeaderCache())
    assert [each.first_seq >> 28 for each in trail.ranges("a", NOTHING)] == [*range(34)]


def test_settling_nothing_new_makes_no_cut(store: Store) -> None:
    writer(store).append(joined(notes("a", 1), notes("b", 2, 3, 4)))
    first = settled(store, "a", settings=NEVER)
    assert settled(store, "a", settings=NEVER).cut == first.cut
    assert settled(store, "nobody", settings=NEVER).cut == first.cut


def test_two_that_settle_at_once_are_both_heard(store: Store) -> None:
    writer(store).append(joined(*(notes(f"u{n}", n) for n in range(8))))
    stale = view_of(store)
    settled(store, "u1", settings=NEVER)
    view = settled(store, "u2", view=stale, settings=NEVER)
    assert {*view.cut.settled} == {"u1", "u2"}
    last = settled(store, *(f"u{n}" for n in range(8)), view=stale)
    assert (last.cut.upto, last.pending) == (0, {})


def test_who_makes_a_cut_too_late_reads_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that was pruned is free again: the cut that takes it does not count, nor does its carry stay."""
    monkeypatch.setattr("lakewarden.log.objects.clean._KEPT", 1)  # so that it is free the sooner
    for user in ("a", "b"):
        writer(store).append(notes(user, 1))
    stale = view_of(store)
    settled(store, "a", settings=NEVER)
    writer(store).append(notes("c", 3))
    settled(store, "c", settings=NEVER)
    assert newest_cut(store, LOG).version == 2
    view = settled(store, "b", view=stale, settings=ALWAYS)
    assert (view.cut.upto, view.pending) == (2, {})
    assert kinds(store) == ["cuts"]


def test_a_cut_whose_answer_was_lost_is_looked_for(store: Store) -> None:
    writer(store).append(notes("u", 1))

    def lose(call: str, _key: str) -> None:
        if call == "create":
            store.after = lambda call, key: None
            raise StorageUnavailable("no answer")

    store.after = lose
    view = settled(store, "u")
    assert (view.cut.version, view.pending) == (1, {})


def test_a_store_that_takes_no_cut_is_unavailable_and_loses_nothing(store: Store) -> None:
    writer(store).append(notes("u", 1))

    def refuse(call: str, _key: str) -> None:
        if call == "create":
            raise StorageUnavailable("not now")

    store.before = refuse
    with pytest.raises(StorageUnavailable, match="not now"):
        settled(store, "u")
    assert pending_ids(store, "u") == [1]


@pytest.mark.parametrize("place", ["settle:carried", "settle:cut", "settle:confirmed", "clean:removed"])
def test_a_crash_anywhere_loses_nothing_and_the_next_one_cleans_up(store: Store, place: str) -> None:
    writer(store).append(joined(notes("a", 1), notes("b", 2)))
    settled(store, "a", settings=ALWAYS)
    writer(store).append(joined(notes("a", 3), notes("b", 4)))

    def crash(step: str) -> None:
        if step == place:
            raise Crash

    with pytest.raises(Crash):
        settled(store, "a", settings=ALWAYS, reach=crash)
    assert pending_ids(store, "b") == [2, 4]
    view = settled(store, "a", settings=ALWAYS)
    assert pending_ids(store, "b") == [2, 4]
    assert not view.litter
    settled(store, "b")
    assert "segments" not in kinds(store)
    assert kinds(store).count("cuts") == 1


def waiting(store: Store, *users: str, view: LogView | None = None) -> None:
    """Settles, and removes nothing below eight objects."""
    view = view or view_of(store)
    settle(store, view, dict.fromkeys(users, view.end), CutTerms(HALF, random_id), worth=8)


def test_few_objects_wait_for_a_later_flush(store: Store) -> None:
    left = []
    for n in range(9):
        writer(store).append(notes("a", n))
        waiting(store, "a")
        assert pending_ids(store, "a") == []
        left.append(len(store.list(names.segments(LOG))))
    assert left == [1, 2, 3, 4, 5, 0, 1, 2, 3], "with the sixth there are two old cuts, too"
    assert view_of(store).litter


def test_large_ones_go_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewarden.log.objects.cuts.settle.SMALL", 100)
    writer(store).append(notes("a", 1))
    waiting(store, "a")
    assert kinds(store) == ["cuts"]


def test_who_was_overtaken_leaves_nothing_behind(store: Store) -> None:
    """What it made for a cut that another one made has rows of users who were erased meanwhile, maybe."""
    writer(store).append(joined(notes("a", 1), notes("b", 2)))
    stale = view_of(store)
    settled(store, "b", settings=NEVER)
    waiting(store, "a", view=stale)
    assert kinds(store) == ["cuts"]


def test_cleaning_an_empty_log_does_nothing(store: Store) -> None:
    clean(store, LOG)
    assert store.list("log") == []


def test_a_cut_that_was_replaced_while_it_was_read_does_not_count(store: Store) -> None:
    """Listed as the newest, pruned, and made again by one that slept: what is read is not what was listed."""
    store.create(names.cut_key(LOG, 1), encode_cut(LogCut(upto=1)))

    def replace(call: str, _key: str) -> None:
        if call == "get":
            store.before = lambda call, key: None
            store.create(names.cut_key(LOG, 2), encode_cut(LogCut(upto=2)))
            store.delete([names.cut_key(LOG, 1)])
            store.create(names.cut_key(LOG, 1), encode_cut(LogCut(upto=9)))

    store.before = replace
    assert newest_cut(store, LOG).upto == 2


_NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def in_hand(monkeypatch: pytest.MonkeyPatch) -> ChunksInHand:
    made = ChunksInHand(lambda: _NOW)
    monkeypatch.setattr(settling, "IN_HAND", made)
    return made


def _read(store: Store, in_hand: ChunksInHand, *users: str) -> LogView:
    """As a flush does: the chunks are in hand."""
    view = view_of(store)
    for each in (each for user in users for each in view.pending[user].ranges):
        read_chunk(store, each, partial(in_hand.keep, store))
    store.calls.clear()
    return view


def _settle(store: Store, view: LogView, *users: str) -> None:
    settle(store, view, dict.fromkeys(users, view.end), CutTerms(HALF, random_id), now=_NOW)


def _kept(store: Store, user: str) -> list[int]:
    """What subscribers are shown."""
    ranges = read_trail(store, LOG, NOTHING, HeaderCache()).ranges(user, NOTHING)
    return ids_of(decode([read_chunk(store, each) for each in ranges], ranges, (NOTES,)))


def test_what_a_flush_has_read_is_not_read_again_for_the_history(store: Store, in_hand: ChunksInHand) -> None:
    writer(store).append(joined(notes("a", 1), notes("b", 2)))
    _settle(store, _read(store, in_hand, "a", "b"), "a", "b")
    assert (store.calls["get"], _kept(store, "a"), _kept(store, "b")) == (0, [1], [2])


def test_what_it_has_not_read_is_read(store: Store, in_hand: ChunksInHand) -> None:
    """What stays in the log is copied from where it is; so is what another job flushed."""
    writer(store).append(joined(*(notes(user, *range(many)) for user, many in (("a", 50), ("b", 1)))))
    _settle(store, _read(store, in_hand, "a", "b"), "a")
    assert (store.calls["get"], _kept(store, "a"), pending_ids(store, "b")) == (1, [*range(50)], [0])
    writer(store).append(joined(notes("a", 51), notes("b", 52)))
    _settle(store, _read(store, in_hand, "a"), "a", "b")
    assert (store.calls["get"], _kept(store, "b")) == (2, [0, 52])


@pytest.mark.parametrize("away", [timedelta(minutes=1), timedelta(days=3), -timedelta(days=3)])
def test_rows_of_a_log_that_was_swept_do_not_come_back(store: Store, in_hand: ChunksInHand, away: timedelta) -> None:
    writer(store).append(notes("a", 1))
    view = _read(store, in_hand, "a")
    store.delete(store.keys())
    in_hand._clock = lambda: _NOW + away
    _settle(store, view, "a")
    assert kinds(store) == ["cuts"]


def test_what_was_read_of_a_segment_is_not_taken_for_another_of_its_name(store: Store, in_hand: ChunksInHand) -> None:
    writer(store).append(notes("a", 1))
    _read(store, in_hand, "a")
    store.delete(store.keys())
    writer(store).append(notes("a", 7))
    _settle(store, view_of(store), "a")
    assert _kept(store, "a") == [7]
