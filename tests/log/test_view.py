from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.base.clock import random_id
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import Corrupt
from lakewarden.log.drain import LogScope
from lakewarden.log.log_reader import LogReader
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cut import LogCut
from lakewarden.log.objects.cuts.settle import CutTerms, settle
from lakewarden.log.objects.put import WriterTerms
from lakewarden.log.objects.view import read_view, read_views, rows_of
from lakewarden.log.objects.writer import LogWriter
from lakewarden.log.position import NOTHING, end_of, seq_of
from lakewarden.storage.objects import Missing
from tests.log.build import LOG, NOTES, Store, ids_of, joined, notes, pending_ids, view_of, writer

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_an_unknown_log_is_empty(store: Store) -> None:
    view = view_of(store)
    assert (view.pending, view.end, view.last_position, view.litter) == ({}, NOTHING, NOTHING, False)


def test_pending_rows_are_counted_by_scope(store: Store) -> None:
    now = NOON
    late = LogWriter.of(store, LOG, LogSettings(), lambda: now, random_id, str.upper)
    late.append(joined(notes("a", 1, 2), notes("b", 3)))
    now = NOON - timedelta(hours=1)
    late.append(notes("a", 4))
    now = NOON + timedelta(hours=1)
    late.append(notes("a", 5))
    view = view_of(store)
    a, b = view.pending["a"], view.pending["b"]
    assert (a.rows, a.first_seq, a.last_seq, a.oldest) == (4, seq_of(0, 0), seq_of(2, 0), NOON - timedelta(hours=1))
    assert (b.rows, b.oldest) == (1, NOON)
    assert a.bytes > 3 * b.bytes - 100
    assert view.end == end_of(2)
    assert pickle.loads(pickle.dumps(a)) == a


def test_a_position_that_a_listing_missed_is_looked_at_by_name(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(3):
        writer(store).append(notes("u", n))
    listed = store.list
    monkeypatch.setattr(store, "list", lambda prefix: [each for each in listed(prefix) if not each.key.endswith("1")])
    assert pending_ids(store, "u") == [0, 1, 2]


def test_headers_are_read_once(store: Store) -> None:
    cache = HeaderCache()
    for n in range(5):
        writer(store).append(notes("u", n))
    read_view(store, LOG, cache)
    writer(store).append(notes("u", 5))
    store.calls.clear()
    assert read_view(store, LOG, cache).pending["u"].rows == 6
    assert store.calls == {"list": 2, "get": 1}


def own_writer(store: Store, cache: HeaderCache) -> LogWriter:
    """One that shares what it knows with the readers of its process."""
    terms = WriterTerms(headers=cache, keeps_own=True)
    return LogWriter.of(store, LOG, LogSettings(), lambda: NOON, random_id, str.upper, terms)


def test_what_a_process_put_itself_it_reads_no_header_of(store: Store) -> None:
    cache = HeaderCache(max_own=2)
    own = own_writer(store, cache)
    for n in range(3):
        own.append(joined(notes("u", n), notes("v", n)))
    store.calls.clear()
    view = read_view(store, LOG, cache)
    assert store.calls == {"list": 2, "get": 1}, "of the first one, which was forgotten"
    assert view.run == view_of(store).run


def test_who_lost_a_position_reads_what_the_winner_put_there(store: Store) -> None:
    cache = HeaderCache()
    own = own_writer(store, cache)
    own.append(notes("u", 0))
    writer(store).append(notes("v", 1))
    own.append(notes("u", 2))
    view = read_view(store, LOG, cache)
    found = {user: ids_of(rows_of(store, rows, (NOTES,))) for user, rows in view.pending.items()}
    assert found == {"u": [0, 2], "v": [1]}


def test_who_put_too_late_forgets_it(store: Store) -> None:
    """The position was settled between the put and the look: another segment may come to count there for a view of before."""
    cache = HeaderCache()
    own = own_writer(store, cache)
    own.append(notes("u", 0))
    writer(store).append(notes("v", 1))
    stale = view_of(store)
    settle(store, stale, dict.fromkeys(stale.pending, stale.end), CutTerms(LogSettings(), random_id))
    own.append(notes("u", 2))  # first at the settled position, which is free again
    assert (cache.header(names.segment_key(LOG, 1)), pending_ids(store, "u")) == (None, [2])


def test_a_bounded_cache_forgets_the_oldest(store: Store) -> None:
    for n in range(3):
        writer(store).append(notes("u", n))
    cache = HeaderCache(max_chunks=2 * view_of(store).run[0].weight)
    assert read_view(store, LOG, cache).pending["u"].rows == 3
    assert [cache.header(names.segment_key(LOG, n)) is None for n in range(3)] == [True, False, False]


def test_all_logs_are_found_by_one_listing_and_quiet_ones_cost_nothing(store: Store) -> None:
    def writer_of(log_id: str) -> LogWriter:
        return LogWriter.of(store, log_id, LogSettings(), lambda: NOON, random_id, str.upper)

    cache, logs = HeaderCache(), [f"log{n}" for n in range(20)]
    for log_id in logs:
        writer_of(log_id).append(notes("u", 1))
    for log_id, view in read_views(store, cache).sound.items():
        settle(store, view, {"u": view.end}, CutTerms(LogSettings(), random_id), cache=cache)
        assert not read_view(store, log_id, cache).litter
    writer_of("log7").append(notes("u", 2))
    store.calls.clear()
    views = read_views(store, cache).sound
    assert {log_id for log_id, view in views.items() if view.pending} == {"log7"}
    assert store.calls == {"list": 2, "get": 1}


def test_rows_that_are_cleaned_while_they_are_read_are_missing(store: Store) -> None:
    writer(store).append(notes("u", 1))
    view = view_of(store)
    settle(store, view, {"u": view.end}, CutTerms(LogSettings(), random_id))
    with pytest.raises(Missing):
        rows_of(store, view.pending["u"], (NOTES,))


def test_a_log_that_is_settled_while_it_is_read_is_read_again(store: Store) -> None:
    writer(store).append(joined(notes("u", 1), notes("v", 2)))

    def flush(call: str, key: str) -> None:
        if call == "list" and key == f"log/{LOG}":
            store.after = lambda call, key: None
            view = view_of(store)
            settle(store, view, {"u": view.end}, CutTerms(LogSettings(carry_below=1), random_id))

    store.after = flush
    assert [*view_of(store).pending] == ["v"]


def test_a_scope_of_the_log_can_be_read_looked_at_again_and_shipped(store: Store) -> None:
    writer(store).append(notes("u", 1, 2))
    scope = LogScope.of(LogReader(store, LOG), view_of(store), "u", (NOTES,))
    rows = scope.rows()
    assert scope.later(rows, seq_of(0, 0)).column("id").to_pylist() == [2]  # type: ignore[union-attr]
    assert scope.later(rows, seq_of(0, 1)) is None
    assert scope.later(rows, NOTHING) is rows
    writer(store).append(notes("u", 3))
    assert scope.again().rows().column("id").to_pylist() == [1, 2, 3]
    assert LogScope.of(LogReader(store, LOG), view_of(store), "nobody", (NOTES,)).rows().num_rows == 0


def test_strangers_do_no_harm(store: Store) -> None:
    writer(store).append(notes("u", 1))
    for key in ("segments/README", "cuts/x", "carry/1", "other/1", "segments/1/2"):
        store.create(f"log/{LOG}/{key}", b"?")
    assert pending_ids(store, "u") == [1]


def test_a_segment_that_somebody_took_away_is_corrupt_not_settled(store: Store) -> None:
    writer(store).append(joined(*(notes(f"u{n}", n) for n in range(10))))
    view = view_of(store)
    settle(store, view, {f"u{n}": view.end for n in range(9)}, CutTerms(LogSettings(), random_id))
    store.delete([each.key for each in store.list(f"log/{LOG}/carry")])
    with pytest.raises(Corrupt, match=r"carry/.* is missing in .*, although the newest cut \(1\) of its log needs it"):
        view_of(store)


def test_a_damaged_cut_is_corrupt(store: Store) -> None:
    store.create(names.cut_key(LOG, 1), b'{"upto": 3}')
    with pytest.raises(Corrupt, match=r"cuts/0+1 cannot be read"):
        view_of(store)


def test_a_cache_keeps_the_cuts_of_as_many_logs_as_its_bound_allows() -> None:
    """A server comes by more logs than are in use."""
    cuts = {name: LogCut(version=3, settled={f"mark{number}": 1 for number in range(40)}) for name in ("a", "b", "c")}
    cache = HeaderCache(max_notes=100)
    for name, cut in cuts.items():
        cache.keep(name, cut, ())
    assert [cache.cut(name, 3) for name in cuts] == [None, cuts["b"], cuts["c"]]
    assert cache.cut("c", 2) is None, "of another version"
