"""What is lost of a log shows: a segment names the one before it, and positions have no gap."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from lakewarden.base.clock import random_id, system_clock
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.log.chunk import Chunk
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cut import LogCut, newest_cut
from lakewarden.log.objects.cuts.closing import close_user, leave_out
from lakewarden.log.objects.cuts.next_cut import advance
from lakewarden.log.objects.cuts.settle import CutTerms
from lakewarden.log.objects.header import UNKNOWN, rows_before, same_put
from lakewarden.log.objects.links import Links
from lakewarden.log.objects.pack import pack_segment
from lakewarden.log.objects.put import WriterTerms
from lakewarden.log.objects.segment import read_put_id, read_segment
from lakewarden.log.objects.view import read_view, read_views
from lakewarden.log.objects.writer import LogWriter
from lakewarden.log.position import position_of
from lakewarden.storage.local import LocalObjects
from tests.log.build import LOG, Store, notes, pending_ids, resummed, settle_all, view_of, writer

at = partial(names.segment_key, LOG)


def linked(store: LocalObjects, position: int) -> bool:
    """Whether a segment names the one before, for sure."""
    after = read_segment(store, at(position), position).after
    return after != UNKNOWN and same_put(after, read_put_id(store, at(position - 1)))


def writer_of(store: LocalObjects, terms: WriterTerms) -> LogWriter:
    return LogWriter.of(store, LOG, LogSettings(), system_clock, random_id, str.upper, terms)


def test_a_segment_names_the_one_before(store: Store) -> None:
    one, two = writer(store), writer(store)
    one.append(notes("u", 1))  # the very first
    one.append(notes("u", 2))  # behind its own
    two.append(notes("u", 3))  # behind what it listed
    one.append(notes("u", 4))  # behind a race that it lost
    two.append(notes("u", 5), after=3)  # behind what was read
    assert [linked(store, position) for position in (1, 2, 3, 4)] == [True] * 4
    assert read_segment(store, at(0), 0).after == UNKNOWN


def test_a_link_says_how_many_rows_would_be_lost_with_the_segment_before(store: Store) -> None:
    one, two = writer(store), writer(store)
    one.append(notes("u", 1, 2))
    one.append(notes("u", 3))  # behind its own
    two.append(notes("u", 4, 5, 6))  # behind what it listed
    one.append(notes("u", 7))  # behind a race that it lost
    assert [rows_before(read_segment(store, at(position), position).after) for position in range(4)] == [None, 2, 1, 3]


def test_the_rows_of_a_segment_that_was_settled_are_not_asked_for(store: Store) -> None:
    writer(store).append(notes("u", 1))
    settle_all(store)
    writer(store).append(notes("u", 2))
    assert rows_before(read_segment(store, at(1), 1).after) is None


def test_the_first_segment_above_a_cut_names_what_the_cut_remembers(store: Store) -> None:
    writer(store).append(notes("u", 1))
    put_id = read_put_id(store, at(0))
    settle_all(store)
    store.calls.clear()
    writer(store).append(notes("u", 2))
    assert same_put(read_segment(store, at(1), 1).after, put_id)
    assert store.calls["get"] == 2, "the cut, and this test's own look"


def test_a_writer_that_goes_on_asks_for_nothing_more(store: Store) -> None:
    one = writer(store)
    one.append(notes("u", 1))
    store.calls.clear()
    one.append(notes("u", 2))
    assert store.calls == {"create": 1, "list": 1}


def test_what_was_read_is_not_read_again(store: Store) -> None:
    headers = HeaderCache()
    writer(store).append(notes("u", 1))
    end = read_view(store, LOG, headers).last_position
    store.calls.clear()
    writer_of(store, WriterTerms(headers=headers)).append(notes("u", 2), after=end)
    assert store.calls == {"create": 1, "list": 2}
    assert linked(store, 1)


def test_the_positions_that_an_erasure_fills_are_linked_too(store: Store) -> None:
    writer(store).append(notes("u", 1))
    close_user(store, LOG, "V")
    kept: list[str] = []
    store.after = lambda call, key: kept.append(key) if call == "create" and "/segments/" in key else None
    store.before = lambda call, key: all_linked(store) if call == "delete" and "/segments/" in key else None

    def all_linked(store: Store) -> None:
        store.before = lambda call, key: None
        assert [linked(store, position) for position in range(1, 9)] == [True] * 8

    leave_out(store, LOG, "v", "V", CutTerms(LogSettings(), random_id), now=system_clock())
    assert kept == [at(position) for position in range(1, 9)]


@pytest.mark.parametrize("segment_format", [1, 2])
def test_a_lost_segment_is_corrupt(store: Store, segment_format: int) -> None:
    for n in range(3):
        writer_of(store, WriterTerms(segment_format)).append(notes("u", n))
    store.delete([at(1)])
    with pytest.raises(Corrupt, match=rf"position 1 of log {LOG} in .* is lost.*lakewarden repair"):
        view_of(store)
    with pytest.raises(Corrupt, match="position 1 of log"):
        writer(store).append(notes("u", 4))
    assert len(store.list(names.segments(LOG))) == 2


def test_a_lost_cut_is_corrupt(store: Store) -> None:
    for n in range(3):
        writer(store).append(notes("u", n))
    settle_all(store)
    writer(store).append(notes("u", 4))
    store.delete([names.cut_key(LOG, 1)])
    with pytest.raises(Corrupt, match="position 0 of log"):
        view_of(store)


def test_a_lost_segment_that_a_remembering_writer_replaces_is_corrupt(store: Store) -> None:
    remembers = writer(store)
    remembers.append(notes("u", 0))
    for n in (1, 2):
        writer(store).append(notes("u", n))
    store.delete([at(1)])
    assert position_of(remembers.append(notes("u", 3)).last_seq) == 1
    with pytest.raises(Corrupt, match=r"position 1 of log .* holds another segment than .*lakewarden repair"):
        view_of(store)


def test_a_stale_header_does_not_hide_it(store: Store) -> None:
    cache, remembers = HeaderCache(), writer(store)
    remembers.append(notes("u", 0))
    for n in (1, 2):
        writer(store).append(notes("u", n))
    read_view(store, LOG, cache)
    store.delete([at(1)])
    with pytest.raises(Corrupt, match="position 1"):
        read_view(store, LOG, cache)


def test_what_is_settled_is_compared_with_nothing(store: Store) -> None:
    remembers, other = writer(store), writer(store)
    remembers.append(notes("u", 0))
    other.append(notes("u", 1))
    settle_all(store)
    other.append(notes("u", 2))
    store.create(at(1), pack_segment(random_id(), 1, 0, [Chunk("u", 1, b"too late")]))
    assert pending_ids(store, "u") == [2]


def test_a_segment_without_a_link_may_follow_any(store: Store) -> None:
    writer_of(store, WriterTerms(1)).append(notes("u", 0))
    writer_of(store, WriterTerms(1)).append(notes("u", 1))
    writer_of(store, WriterTerms(2)).append(notes("u", 2))
    writer_of(store, WriterTerms(1)).append(notes("u", 3))
    assert pending_ids(store, "u") == [0, 1, 2, 3]
    assert linked(store, 2)


def test_one_logs_fault_hides_no_others_rows(store: Store) -> None:
    for log_id in ("one", "two"):
        log = LogWriter.of(store, log_id, LogSettings(), system_clock, random_id, str.upper)
        for n in range(3):
            log.append(notes("u", n))
    store.delete([names.segment_key("one", 1)])
    views = read_views(store, HeaderCache())
    assert {log_id: view.pending["u"].rows for log_id, view in views.sound.items()} == {"two": 3}
    assert "position 1 of log one" in views.faults["one"].message


def test_a_later_kind_of_segment_is_left_to_a_later_release(store: Store) -> None:
    whole = pack_segment(random_id(), 1, 0, [Chunk("u", 1, b"x")])
    store.create(at(0), resummed(whole[:12] + b"\7" + whole[13:]))
    with pytest.raises(Unsupported, match="later release"):
        view_of(store)
    assert read_views(store, HeaderCache()).faults[LOG].code == "UNSUPPORTED"


# Positions that a repair gave up


def give_up(store: Store, *positions: int) -> None:
    advance(store, LOG, lambda cut: None if cut.lost else LogCut(**{**vars(cut), "lost": positions}))


def test_a_lost_position_is_empty(store: Store) -> None:
    for n in range(4):
        writer(store).append(notes("u", n))
    store.delete([at(1)])
    give_up(store, 1)
    assert (pending_ids(store, "u"), view_of(store).last_position) == ([0, 2, 3], 3)
    settle_all(store)
    assert newest_cut(store, LOG).lost == ()
    assert newest_cut(store, LOG).took(1, UNKNOWN) is None


def test_a_lost_position_that_was_taken_again_before_is_read(store: Store) -> None:
    remembers = writer(store)
    remembers.append(notes("u", 0))
    for n in (1, 2):
        writer(store).append(notes("u", n))
    store.delete([at(1)])
    remembers.append(notes("u", 3))
    give_up(store, 1)
    assert pending_ids(store, "u") == [0, 3, 2], "in the order of their positions"


def test_nobody_is_acknowledged_at_a_position_that_was_given_up_meanwhile(store: Store) -> None:
    remembers = writer(store)
    remembers.append(notes("u", 0))
    for n in (1, 2):
        writer(store).append(notes("u", n))
    store.delete([at(1)])

    def give_up_now(call: str, key: str) -> None:
        if call == "create" and key == at(1):
            store.after = lambda call, key: None
            give_up(store, 1)

    store.after = give_up_now
    with pytest.raises(Exception, match="may or may not have been taken at position 1"):
        remembers.append(notes("u", 3))
    assert pending_ids(store, "u") == [0, 2]
    assert position_of(remembers.append(notes("u", 4)).last_seq) == 3


def test_lost_positions_at_the_end_count_as_taken(store: Store) -> None:
    one = writer(store)
    one.append(notes("u", 0))
    give_up(store, 1, 2)
    assert view_of(store).last_position == 2
    assert position_of(writer(store).append(notes("u", 1)).last_seq) == 3
    assert read_segment(store, at(3), 3).after == UNKNOWN
    assert pending_ids(store, "u") == [0, 1]


# The floor


@pytest.mark.parametrize("conditional", [False, True])
def test_a_log_that_ends_below_what_is_settled_takes_nothing(store: Store, conditional: bool) -> None:
    writer(store).append(notes("u", 0))
    with pytest.raises(Corrupt, match=r"ends at position 0, .* up to position 1: .*lakewarden repair --restored"):
        writer_of(store, WriterTerms(floor=lambda: 1)).append(notes("u", 1), after=0 if conditional else None)
    assert pending_ids(store, "u") == [0]


def test_a_floor_that_is_unknown_or_reached_stands_against_nothing(store: Store) -> None:
    writer(store).append(notes("u", 0))
    writer_of(store, WriterTerms(floor=lambda: None)).append(notes("u", 1))
    writer_of(store, WriterTerms(floor=lambda: 1)).append(notes("u", 2))
    settle_all(store)
    writer_of(store, WriterTerms(floor=lambda: 2)).append(notes("u", 3), after=2)
    assert pending_ids(store, "u") == [3]


def test_the_floor_is_asked_for_first_and_again_after_a_long_sleep(store: Store) -> None:
    asked: list[int] = []
    now = [datetime(2026, 11, 22, tzinfo=UTC)]

    def floor() -> int:
        asked.append(len(store.list(names.segments(LOG))))
        return -1

    slow = LogWriter.of(store, LOG, LogSettings(), lambda: now[0], random_id, str.upper, WriterTerms(floor=floor))
    for seconds in (0, 59, 59, 61):
        now[0] += timedelta(seconds=seconds)
        slow.append(notes("u", seconds))
    assert asked == [0, 3]


def test_links_of_the_first_format_cost_nothing(store: Store) -> None:
    writer(store).append(notes("u", 1))
    store.calls.clear()
    assert Links(store, LOG, None, 1).before(1, LogCut()) == UNKNOWN
    assert not store.calls
