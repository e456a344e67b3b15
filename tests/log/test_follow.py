"""A view that follows the last one is the view that is read anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.base.clock import random_id, system_clock
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import Corrupt
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cuts.closing import close_user, leave_out, open_user, remove_log
from lakewarden.log.objects.cuts.mend import faults_of, give_up
from lakewarden.log.objects.cuts.settle import CutTerms, settle
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.objects.put import WriterTerms
from lakewarden.log.objects.view import read_view, rows_of
from lakewarden.log.objects.writer import LogWriter
from tests.fixtures.bucket import fresh_place
from tests.fixtures.examples import examples
from tests.log.build import LOG, NOTES, Store, ids_of, joined, notes, view_of, writer

USERS = ("u", "v", "w")
CROWD = tuple(f"crowd{number}" for number in range(12))


def at(position: int) -> str:
    return names.segment_key(LOG, position)


def look(store: Store, cache: HeaderCache, *users: str) -> LogView:
    return read_view(store, LOG, cache, users)


def ids(store: Store, view: LogView, user: str) -> list[int]:
    pending = view.pending_of((user,)).get(user)
    return [] if pending is None else ids_of(rows_of(store, pending, (NOTES,)))


def began(store: Store, segments: int = 3) -> HeaderCache:
    """A cache with the view of a log that has as many segments of `u`, who was looked up."""
    cache, foreign = HeaderCache(), writer(store)
    for number in range(segments):
        foreign.append(notes("u", number))
    assert ids(store, look(store, cache, "u"), "u") == [*range(segments)]
    return cache


def settled(store: Store, *users: str) -> None:
    view = view_of(store)
    settle(store, view, dict.fromkeys(users, view.end), CutTerms(LogSettings(), random_id))


_ACTIONS = st.one_of(
    st.tuples(st.sampled_from(("own", "foreign", "settle", "leave out")), st.sampled_from(USERS)),
    st.tuples(st.sampled_from(("own", "foreign", "settle", "look", "look at all")), st.just("u")),
    st.tuples(st.just("many"), st.just("w")),
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(_ACTIONS, max_size=25))
def test_whatever_happens_it_shows_what_a_new_reader_sees(actions: list[tuple[str, str]]) -> None:
    _check_followed(actions)


@pytest.mark.night
@settings(max_examples=200, deadline=None)
@given(st.lists(_ACTIONS, max_size=25))
def test_whatever_happens_in_more_orders(actions: list[tuple[str, str]]) -> None:
    _check_followed(actions)


def _check_followed(actions: list[tuple[str, str]]) -> None:
    with fresh_place("disk") as place:
        store, cache = Store(Path(str(place))), HeaderCache()
        own = LogWriter.of(
            store, LOG, LogSettings(), system_clock, random_id, str.upper, WriterTerms(headers=cache, keeps_own=True)
        )
        foreign = writer(store)
        for number, (action, user) in enumerate(actions):
            match action:
                case "own":
                    own.append(joined(notes(user, number), notes("all", number)))
                case "foreign":
                    foreign.append(notes(user, number, -number))
                case "many":
                    foreign.append(joined(*(notes(each, number) for each in CROWD), notes(user, number)))
                case "settle":
                    settled(store, user)
                case "leave out":
                    close_user(store, LOG, user.upper())
                    leave_out(store, LOG, user, user.upper(), CutTerms(LogSettings(), random_id), now=system_clock())
                    open_user(store, LOG, user.upper())
                case "look at all":
                    assert read_view(store, LOG, cache).run == view_of(store).run
            every = (*USERS, "all", *CROWD)
            seen, fresh = look(store, cache, *every), view_of(store)
            assert (seen.cut, seen.carry, seen.run, seen.unnamed) == (fresh.cut, fresh.carry, fresh.run, fresh.unnamed)
            assert seen.pending_of(every) == fresh.pending_of(every)
            assert seen.weight == fresh.weight


def test_only_what_is_new_is_read(store: Store) -> None:
    cache = began(store)
    writer(store).append(notes("v", 7))
    listed: list[str] = []
    store.before = lambda call, key: listed.append(key) if call == "list" else None
    store.calls.clear()
    assert look(store, cache, "v").pending_of(("v",))["v"].rows == 1
    assert (store.calls, listed) == ({"list": 2, "get": 1}, [names.segments(LOG), names.cuts(LOG)])


def test_the_former_view_stays_as_it_was(store: Store) -> None:
    cache, foreign = began(store), writer(store)
    views = []
    for number in range(3, 40):
        foreign.append(notes("u" if number % 3 else "v", number))
        views.append(look(store, cache, "u"))
        assert number in ids(store, views[-1], "u" if number % 3 else "v")
    for last, view in enumerate(views, 3):
        assert ids(store, view, "u") == [number for number in range(last + 1) if number < 3 or number % 3]
        assert ids(store, view, "v") == [number for number in range(3, last + 1) if not number % 3]


def test_a_log_that_another_process_settles_is_read_anew(store: Store) -> None:
    cache = began(store)
    writer(store).append(joined(notes("u", 3), notes("v", *range(100))))
    look(store, cache, "u")
    settled(store, "u")
    assert store.has(at(3)), "only a mark says what is settled of it"
    assert ids(store, look(store, cache, "u"), "u") == []
    writer(store).append(notes("u", 7))
    assert ids(store, look(store, cache, "u"), "u") == [7]


def test_a_log_that_is_settled_while_it_is_followed_is_read_anew(store: Store) -> None:
    cache = began(store)
    writer(store).append(joined(notes("u", 7), notes("v", *range(100))))

    def flush(call: str, key: str) -> None:
        if call == "list" and key == names.segments(LOG):
            store.after = lambda call, key: None
            settled(store, "u")

    store.after = flush
    assert ids(store, look(store, cache, "u"), "u") == []


def test_a_dropped_log_is_not_followed(store: Store) -> None:
    cache = began(store)
    remove_log(store, LOG)
    seen = look(store, cache, "u")
    assert (seen.cut.sealed, ids(store, seen, "u")) == (True, [])


@pytest.mark.parametrize("position", [2, 3])
def test_what_is_lost_before_later_segments_is_noticed(store: Store, position: int) -> None:
    """The last segment that is known, and the first one that is not."""
    cache = began(store)
    for number in (3, 4):
        writer(store).append(notes("v", number))
    store.delete([at(position)])
    with pytest.raises(Corrupt, match=f"position {position} of log"):
        look(store, cache, "u")


def test_a_log_that_ends_before_what_is_known_is_read_anew(store: Store) -> None:
    """Its state was restored from a backup."""
    cache = began(store)
    store.delete([at(1), at(2)])
    assert ids(store, look(store, cache, "u"), "u") == [0]


def test_a_segment_that_is_not_behind_what_is_known_is_noticed(store: Store) -> None:
    """The last segment that is known was lost, and another put there by who did not know."""
    remembers = writer(store)
    remembers.append(notes("u", 0))
    writer(store).append(notes("u", 1))
    cache = HeaderCache()
    look(store, cache, "u")
    store.delete([at(1)])
    remembers.append(notes("u", 2))
    assert ids(store, look(store, HeaderCache(), "u"), "u") == [0, 2]
    remembers.append(notes("u", 3))
    assert ids(store, look(store, cache, "u"), "u") == [0, 2, 3]


def test_a_position_that_was_given_up_is_not_followed(store: Store) -> None:
    cache = began(store)
    for number in (3, 4):
        writer(store).append(notes("u", number))
    store.delete([at(3)])
    give_up(store, faults_of(store, LOG))
    assert ids(store, look(store, cache, "u"), "u") == [0, 1, 2, 4]
    writer(store).append(notes("u", 5))
    assert ids(store, look(store, cache, "u"), "u") == [0, 1, 2, 4, 5]


def test_who_reads_all_notices_what_is_lost_before_what_is_known(store: Store) -> None:
    cache = began(store)
    store.delete([at(1)])
    assert look(store, cache, "v").pending_of(("v",)) == {}
    with pytest.raises(Corrupt, match="position 1 of log"):
        read_view(store, LOG, cache)


def test_a_batch_that_is_named_meanwhile_is_not_abandoned(store: Store) -> None:
    began(store)
    log = writer(store)
    staging = log.begin_batch()
    pieces = log.stage(staging, notes("v", 1, 2, 3))
    cache = HeaderCache()
    assert len(look(store, cache, "v").unnamed) == 1
    log.publish(staging, pieces, None)
    seen = look(store, cache, "v")
    assert (ids(store, seen, "v"), seen.unnamed) == ([1, 2, 3], frozenset())


def test_views_are_bounded_by_what_they_hold(store: Store) -> None:
    bounded = HeaderCache(max_chunks=4)
    foreign = writer(store)
    for number in range(4):
        foreign.append(notes("u", number))
    assert look(store, bounded, "u") is bounded.view(LOG)
    foreign.append(notes("u", 4))
    assert look(store, bounded, "u").pending_of(("u",))["u"].rows == 5
    assert bounded.view(LOG) is None
    assert look(store, bounded, "u").pending_of(("u",))["u"].rows == 5


def test_a_header_out_of_the_listing_is_looked_at_by_name(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = began(store)
    for number in (3, 4):
        writer(store).append(notes("u", number))
    listed = store.list
    monkeypatch.setattr(store, "list", lambda prefix: [each for each in listed(prefix) if each.key != at(3)])
    assert ids(store, look(store, cache, "u"), "u") == [0, 1, 2, 3, 4]
