"""What a cut says, and what counts on it: whoever sleeps, lists in between, or settles late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.base.clock import random_id
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import StorageUnavailable
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.clean import clean
from lakewarden.log.objects.cut import newest_cut
from lakewarden.log.objects.cuts.mend import faults_of, give_up
from lakewarden.log.objects.cuts.next_cut import next_cut
from lakewarden.log.objects.cuts.settle import CutTerms, settle
from lakewarden.log.objects.pack import pack_segment
from lakewarden.log.objects.trail import read_trail
from lakewarden.log.objects.view import read_view
from lakewarden.log.position import Receipt, end_of, seq_of
from lakewarden.storage.objects import StoredObject
from tests.log.build import LOG, Store, joined, notes, pending_ids, settle_all, view_of, writer

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_a_put_that_was_settled_two_cuts_ago_is_acknowledged(store: Store) -> None:
    """Its writer slept before it looked at the cuts."""
    other = writer(store)

    def sleep(call: str, _key: str) -> None:
        if call == "create":
            store.after = lambda call, key: None
            settle_all(store)
            other.append(notes("v", 1))
            settle_all(store)

    store.after = sleep
    assert writer(store).append(notes("u", 1)) == Receipt(1, seq_of(0, 0))
    assert view_of(store).pending == {}


def test_what_lies_at_a_settled_position_says_nothing_of_a_lost_put(store: Store) -> None:
    """It was settled, and another came too late with a segment for the same position."""

    def lose(call: str, key: str) -> None:
        if call == "create":
            store.after = lambda call, key: None
            settle_all(store)
            store.create(key, pack_segment(random_id(), 1, 0, ()))
            raise StorageUnavailable("no answer")

    store.after = lose
    assert writer(store).append(notes("u", 1)) == Receipt(1, seq_of(0, 0))
    assert view_of(store).pending == {}


def test_a_listing_between_two_cuts_shows_one_of_those_that_stay(store: Store) -> None:
    """Two cuts come, and the oldest go, while the directory is read: no writer may take that for a log without cuts."""
    late = writer(store)
    late.append(notes("u", 0))

    def cut(times: int) -> None:
        for number in range(times):
            writer(store).append(notes("v", number))
            settle_all(store)

    def while_listing(cuts: list[StoredObject]) -> list[StoredObject]:
        cut(2)
        there = {found.key for found in store.list(names.cuts(LOG))}
        return [found for found in cuts if found.key in there]

    def sleep(call: str, _key: str) -> None:
        if call == "create":
            store.before = lambda call, key: None
            cut(5)
            store.torn = while_listing

    store.before = sleep
    late.append(notes("u", 1))
    assert pending_ids(store, "u") == [1]


def test_what_was_listed_before_a_cut_came_is_not_believed(store: Store) -> None:
    """All that the listing named is in the cache: nothing but the look at the cuts behind it tells."""
    cache = HeaderCache()
    writer(store).append(joined(notes("u", 1), notes("v", 2)))
    read_view(store, LOG, cache)

    def flush(call: str, key: str) -> None:
        if call == "list" and key == names.home(LOG):
            store.after = lambda call, key: None
            settle_all(store)

    store.after = flush
    assert read_view(store, LOG, cache).pending == {}


def test_a_cached_cut_counts_for_its_own_version_alone(store: Store) -> None:
    cache = HeaderCache()
    for number in range(2):
        writer(store).append(joined(notes("u", number), notes("v", number)))
        view = view_of(store)
        settle(store, view, {"u": view.end}, CutTerms(LogSettings(carry_below=0), random_id))
        view = read_view(store, LOG, cache)
        assert (view.cut.version, [*view.pending]) == (number + 1, ["v"])


def test_a_cut_whose_number_was_pruned_and_is_free_again_does_not_count(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says is said again in the next one."""
    monkeypatch.setattr("lakewarden.log.objects.clean._KEPT", 1)  # so that numbers are free the sooner
    for user in ("u", "v"):
        writer(store).append(notes(user, 1))
    stale = view_of(store)
    for _ in range(2):
        writer(store).append(notes("w", 1))
        view = view_of(store)
        settle(store, view, {"w": view.end}, CutTerms(LogSettings(carry_below=0), random_id))
    assert newest_cut(store, LOG).version == 2
    settle(store, stale, dict.fromkeys("uv", stale.end), CutTerms(LogSettings(), random_id))
    assert (newest_cut(store, LOG).version, view_of(store).pending) == (3, {})


def test_a_slower_flush_sets_no_mark_back(store: Store) -> None:
    never = LogSettings(carry_below=0)
    writer(store).append(joined(notes("u", 1), notes("v", 1)))
    early = view_of(store)
    writer(store).append(joined(notes("u", 2), notes("v", 2)))
    late = view_of(store)
    for view in (late, early):
        settle(store, view, {"u": view.end}, CutTerms(never, random_id))
    settle(store, view_of(store), {"u": early.end, "v": early.end}, CutTerms(never, random_id))
    assert (pending_ids(store, "u"), pending_ids(store, "v")) == ([], [2])


def test_a_mark_beyond_what_was_seen_is_kept(store: Store) -> None:
    """A listing may pass over the last segments, whose rows another flush has committed already."""
    writer(store).append(joined(notes("u", 1), notes("v", 1)))
    view = view_of(store)
    plan = next_cut(view, {"u": end_of(5), "v": view.end}, LogSettings())
    assert plan is not None
    assert plan.marks == {"u": end_of(5)}
    settle(store, view, {"u": end_of(5)}, CutTerms(LogSettings(), random_id))
    writer(store).append(notes("u", 2))
    assert pending_ids(store, "u") == []


def test_a_settle_keeps_the_lost_positions_that_it_does_not_pass(store: Store) -> None:
    for user in ("u", "v", "w"):
        writer(store).append(notes(user, 1))
    store.delete([names.segment_key(LOG, 1)])
    give_up(store, faults_of(store, LOG))
    for users, lost in (("w", (1,)), ("u", ())):
        view = view_of(store)
        settle(store, view, dict.fromkeys(users, view.end), CutTerms(LogSettings(carry_below=0), random_id))
        assert newest_cut(store, LOG).lost == lost


def test_cleaning_leaves_carry_and_history_of_a_cut_to_come(store: Store) -> None:
    writer(store).append(notes("u", 1))
    settle_all(store)
    made = {names.carry_key(LOG, 2, "0" * 32), names.history_key(LOG, 2, "0" * 32)}
    left = {names.carry_key(LOG, 1, "1" * 32), names.history_key(LOG, 1, "1" * 32)}
    for key in made | left:
        store.create(key, b"rows")
    clean(store, LOG)
    assert {found.key for found in store.list(names.home(LOG)) if "/cuts/" not in found.key} == made


def test_a_subscriber_in_the_middle_of_a_part_of_the_history_gets_the_rest(store: Store) -> None:
    writer(store).append(notes("u", 1, 2))
    middle = writer(store).append(notes("u", 3, 4)).last_seq - 1
    view = view_of(store)
    settle(store, view, {"u": view.end}, CutTerms(LogSettings(), random_id), now=NOON)
    assert [each.last_seq for each in read_trail(store, LOG, middle, HeaderCache()).ranges("u", middle)] == [middle + 1]


def test_history_is_forgotten_when_its_time_is_over_and_not_before(store: Store) -> None:
    writer(store).append(notes("u", 1))
    view = view_of(store)
    hour = LogSettings(retention_seconds=3600)
    settle(store, view, {"u": view.end}, CutTerms(hour, random_id), now=NOON)
    for seconds, kept in ((3600, 1), (3601, 0)):
        settle(store, view_of(store), {}, CutTerms(hour, random_id), now=NOON + timedelta(seconds=seconds))
        assert len(newest_cut(store, LOG).history) == kept
