"""Going on without what is lost."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from lakewarden.base.clock import random_id, system_clock
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import Corrupt, InvalidArgument
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cut import EVERYBODY, LogCut, newest_cut
from lakewarden.log.objects.cuts.mend import LogFaults, faults_of, give_up, jump
from lakewarden.log.objects.cuts.settle import CutTerms, settle
from lakewarden.log.objects.trail import read_trail
from lakewarden.log.position import LAST_POSITION, NOTHING, end_of, position_of
from tests.log.build import LOG, Store, joined, notes, pending_ids, resummed, view_of, writer

at = partial(names.segment_key, LOG)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Four segments."""
    store = Store(tmp_path)
    for n in range(4):
        writer(store).append(joined(notes("u", n), notes("v", 10 + n)))
    return store


def settle_log(store: Store, *users: str, keep: bool = False) -> None:
    view = view_of(store)
    settings = LogSettings(carry_below=1)
    now = system_clock() if keep else None
    settle(store, view, dict.fromkeys(users, view.end), CutTerms(settings, random_id), now=now)


def damage(store: Store, key: str, data: bytes) -> None:
    store.delete([key])
    store.create(key, data)


def mended(store: Store) -> LogFaults:
    """The faults, after which the log is sound."""
    faults = faults_of(store, LOG)
    assert faults
    give_up(store, faults)
    assert not faults_of(store, LOG)
    view_of(store)
    return faults


def test_a_sound_log_has_no_faults(store: Store) -> None:
    assert not faults_of(store, LOG)
    settle_log(store, "u", keep=True)
    assert faults_of(store, LOG) == LogFaults(LOG)
    before = newest_cut(store, LOG)
    assert give_up(store, LogFaults(LOG)) == before == newest_cut(store, LOG)
    assert not faults_of(store, "unknown")


def test_rows_that_are_cut_off_are_corrupt(store: Store) -> None:
    damage(store, at(1), store.get(at(1))[:-1])
    with pytest.raises(Corrupt, match=r"segments/0+1 is cut off"):
        pending_ids(store, "v")


def test_missing_positions(store: Store) -> None:
    store.delete([at(0), at(2)])
    assert mended(store) == LogFaults(LOG, missing=(0, 2))
    assert pending_ids(store, "u") == [1, 3]
    assert position_of(writer(store).append(notes("u", 4)).last_seq) == 4
    cut = newest_cut(store, LOG)
    assert (cut.lost, cut.forgotten) == ((0, 2), end_of(2))
    settle_log(store, "u", "v")
    assert newest_cut(store, LOG).lost == ()


def test_a_replaced_position_keeps_what_is_there(store: Store) -> None:
    log = writer(store)
    log.append(notes("u", 4))
    writer(store).append(notes("u", 5))
    store.delete([at(5)])
    log.append(notes("u", 6))  # where the lost one was
    writer(store).append(notes("u", 7))
    store.delete([at(5)])
    log = writer(store)
    assert mended(store) == LogFaults(LOG, missing=(5,))
    assert pending_ids(store, "u") == [0, 1, 2, 3, 4, 7]


def test_a_position_that_was_put_again_is_told_and_read(store: Store) -> None:
    data = store.get(at(1))
    damage(store, at(1), resummed(data.replace(data[16:32], b"\7" * 16)))
    assert mended(store) == LogFaults(LOG, replaced=(1,))
    assert pending_ids(store, "u") == [0, 1, 2, 3]


@pytest.mark.parametrize(("cut_off", "whole"), [(0, []), (10, []), (60, []), (-1, [1])])
def test_of_an_unreadable_segment_the_whole_chunks_are_kept(store: Store, cut_off: int, whole: list[int]) -> None:
    damage(store, at(1), store.get(at(1))[:cut_off])
    assert mended(store) == LogFaults(LOG, unreadable=(1,))
    assert (pending_ids(store, "u"), pending_ids(store, "v")) == ([0, *whole, 2, 3], [10, 12, 13])


def test_lost_carry_and_history(store: Store) -> None:
    settle_log(store, "u", keep=True)
    cut = newest_cut(store, LOG)
    assert cut.carry
    assert cut.history
    store.delete([*cut.carry, *(kept.key for kept in cut.history)])
    with pytest.raises(Corrupt, match=r"carry/.* is missing .*lakewarden repair"):
        view_of(store)
    assert mended(store) == LogFaults(LOG, carry=cut.carry, history=cut.history)
    after = newest_cut(store, LOG)
    assert (after.carry, after.history, after.forgotten) == ((), (), end_of(3))
    assert view_of(store).pending == {}


def test_lost_history_is_corrupt_for_whoever_follows(store: Store) -> None:
    settle_log(store, "u", "v", keep=True)
    store.delete([kept.key for kept in newest_cut(store, LOG).history])
    with pytest.raises(Corrupt, match=r"history/.* is missing .*lakewarden repair"):
        read_trail(store, LOG, NOTHING, HeaderCache())
    mended(store)
    assert read_trail(store, LOG, NOTHING, HeaderCache()).history == ()


def test_the_segment_behind_says_how_many_rows_are_lost(store: Store) -> None:
    one = writer(store)
    for ids in ((100,), (101, 102), (103,), (104, 105, 106), (107,)):
        one.append(notes("w", *ids))
    assert not faults_of(store, LOG).rows
    store.delete([at(5), at(7)])
    assert dict(faults_of(store, LOG).rows) == {5: 2, 7: 3}
    assert faults_of(store, LOG).summary == "the segments of positions 5, 7 are lost"


def test_a_jump_carries_the_rows_of_carry_that_a_lost_cut_had_named(store: Store) -> None:
    settle_log(store, "u")
    assert pending_ids(store, "v") == [10, 11, 12, 13]
    assert view_of(store).carry, "else nothing is shown"
    store.delete([names.cut_key(LOG, view_of(store).cut.version)])
    jump(store, LOG, 3, {"u": end_of(3)}, CutTerms(LogSettings(), random_id), mark=str.upper)
    assert (pending_ids(store, "u"), pending_ids(store, "v")) == ([], [10, 11, 12, 13])


def test_lost_cuts_are_left_to_a_jump(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewarden.log.objects.cuts.mend.MOST_LOST", 10)
    jump(store, LOG, 100, {}, CutTerms(LogSettings(), random_id), mark=str.upper)
    writer(store).append(notes("u", 9))
    store.delete([each.key for each in store.list(names.cuts(LOG))])
    with pytest.raises(Corrupt, match=r"misses more than 10 positions between its newest cut, at -1, and 102: .* --restored"):
        faults_of(store, LOG)


def test_a_jump_goes_past_all_that_was_taken_and_keeps_what_is_open(store: Store) -> None:
    settle_log(store, "u", keep=True)
    writer(store).append(joined(notes("u", 4), notes("v", 14), notes("w", 24)))
    cut = jump(store, LOG, 70, {"u": end_of(60), "v": end_of(2)}, CutTerms(LogSettings(), random_id), mark=str.upper)
    assert (cut.upto, cut.history, cut.forgotten, cut.rewound) == (71, (), end_of(71), {EVERYBODY: 71})
    assert {user: pending_ids(store, user) for user in "uvw"} == {"u": [], "v": [13, 14], "w": [24]}
    assert position_of(writer(store).append(notes("u", 5)).last_seq) == 72
    assert pending_ids(store, "u") == [5]
    assert not faults_of(store, LOG)


def test_a_jump_takes_a_position_each_time(store: Store) -> None:
    for upto in (4, 5):
        assert jump(store, LOG, 2, {}, CutTerms(LogSettings(), random_id), mark=str.upper).upto == upto
    assert pending_ids(store, "u") == [0, 1, 2, 3]


def test_a_jump_knows_nothing_of_the_puts_that_it_passed(store: Store) -> None:
    cut = jump(store, LOG, 700, {}, CutTerms(LogSettings(), random_id), mark=str.upper)
    assert cut.took(650, "ab" * 16) is None
    assert cut.took(2, "ab" * 16) is None


def test_no_log_begins_behind_the_last_position(store: Store) -> None:
    with pytest.raises(InvalidArgument, match="the last one is"):
        jump(store, LOG, LAST_POSITION, {}, CutTerms(LogSettings(), random_id), mark=str.upper)


def test_a_restore_of_everybody_outlives_those_of_users() -> None:
    cut = LogCut(rewound={EVERYBODY: 7, "U": 9, "V": 3})
    assert [cut.rewound_to(mark) for mark in ("U", "V", "W")] == [9, 7, 7]
    assert LogCut().rewound_to("U") is None
