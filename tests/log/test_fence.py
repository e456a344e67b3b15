"""The fence of a table with one streaming writer: who was replaced appends nothing more, wherever it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.base.clock import random_id, system_clock
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import LostPlace
from lakewarden.log.objects.cut import newest_cut
from lakewarden.log.objects.pack import INDEXED
from lakewarden.log.once import WriterBatch, fenced
from lakewarden.log.table_log import LogTerms, TableLog
from tests.log.build import LOG, Store, notes, view_of, writer


def log_of(store: Store) -> TableLog:
    """A process of its own."""
    return TableLog(store, LOG, LogTerms(LogSettings(), system_clock, random_id, str.upper, INDEXED))


def pending(store: Store) -> int:
    found = view_of(store).pending.get("u")
    return 0 if found is None else found.rows


def test_a_stream_that_was_replaced_appends_nothing_and_others_do(store: Store) -> None:
    late = writer(store)
    with fenced(5):
        late.append(notes("u", 1))
    log_of(store).raise_fence(9, replaces=True)
    with fenced(5):
        for _ in range(2):
            with pytest.raises(LostPlace):
                late.append(notes("u", 2))
    assert pending(store) == 1, "though it had not looked at the cuts since"
    late.append(notes("u", 2))
    with fenced(9):
        late.append(notes("u", 3))
    assert pending(store) == 3


def test_a_batch_of_a_stream_that_was_replaced_is_removed_and_its_number_is_free(store: Store) -> None:
    log = log_of(store)
    staging = log.begin_batch()
    pieces = log.stage(staging, notes("u", 1, 2))
    log_of(store).raise_fence(9, replaces=True)
    with fenced(5), pytest.raises(LostPlace):
        log.publish(staging, pieces, WriterBatch("stream", 1))
    assert not store.keys(f"log/{LOG}/staged")
    assert (pending(store), log.published("stream")) == (0, None)


def test_a_stream_that_is_replaced_between_its_look_and_its_put_is_refused(tmp_path: Path) -> None:
    """Wherever the other one takes over: at each request of the publication."""
    refused = 0
    for at in range(1, 12):
        fresh = Store(tmp_path / str(at))
        log = log_of(fresh)
        log.append(notes("u", 0))
        staging = log.begin_batch()
        pieces = log.stage(staging, notes("u", 1))
        calls = 0

        def taken_over(_call: str, _key: str, at: int = at, place: Path = tmp_path / str(at)) -> None:
            nonlocal calls
            calls += 1
            if calls == at:
                log_of(Store(place)).raise_fence(9, replaces=True)

        fresh.before = taken_over
        try:
            with fenced(5):
                log.publish(staging, pieces, WriterBatch("stream", 1))
        except LostPlace:
            refused += 1
            assert pending(fresh) == 1
        else:
            assert pending(fresh) == 2
            if calls >= at:
                assert view_of(fresh).run[1].rows == 1, "it was appended before the other one took over"
    assert refused > 2


def test_a_lower_token_takes_nothing_back_and_a_flush_keeps_the_fence(store: Store) -> None:
    log = log_of(store)
    log.append(notes("u", 1))
    log.raise_fence(9, replaces=False)
    log.raise_fence(5, replaces=False)
    assert log.view().last_position == 0, "nobody was replaced: no position is filled"
    view = log.view()
    log.settle(view, {"u": view.end})
    assert (log.fence(), newest_cut(store, LOG).upto) == (9, 0)
    log.jump(100, {})
    assert log.fence() == 0, "the catalog that came with an older state may grant lower tokens"


def test_a_stream_costs_no_request_more_for_its_fence(store: Store) -> None:
    log, costs = log_of(store), []
    log.raise_fence(9, replaces=True)
    log.append(notes("u", 1))
    for token in (None, 9):
        before = store.calls.copy()
        if token is None:
            log.append(notes("u", 2))
        else:
            with fenced(token):
                log.append(notes("u", 3))
        costs.append(store.calls - before)
    assert costs[0] == costs[1]
