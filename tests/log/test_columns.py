"""A table that was altered: its log takes no rows of older columns any more, and costs no append a request more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakewarden.base.clock import random_id, system_clock
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import SchemaChanged
from lakewarden.log.objects.cut import newest_cut
from lakewarden.log.objects.pack import INDEXED
from lakewarden.log.objects.put import PROBES
from lakewarden.log.once import WriterBatch
from lakewarden.log.position import position_of
from lakewarden.log.record import LogBatch
from lakewarden.log.table_log import LogTerms, TableLog
from tests.log.build import LOG, Store, notes, view_of, writer


def log_of(store: Store) -> TableLog:
    """A process of its own."""
    return TableLog(store, LOG, LogTerms(LogSettings(), system_clock, random_id, str.upper, INDEXED))


def newer(batch: LogBatch) -> LogBatch:
    return replace(batch, schema_version=2)


def pending(store: Store) -> int:
    found = view_of(store).pending.get("u")
    return 0 if found is None else found.rows


def test_who_looked_before_appends_nothing_of_older_columns_behind_its_next_look(store: Store) -> None:
    late = writer(store)
    late.append(notes("u", 1))
    log_of(store).require_columns(2)
    before = store.calls.total()
    with pytest.raises(SchemaChanged, match="schema version 1"):
        late.append(notes("u", 2))
    with pytest.raises(SchemaChanged):
        late.append(notes("u", 2))
    assert pending(store) == 1
    assert store.calls["create"] == 1 + 1 + 2 * PROBES, "what it did not know cost it the positions that were filled"
    assert before < store.calls.total()
    late.append(newer(notes("u", 2)))
    assert pending(store) == 2


def test_an_append_of_the_newest_columns_costs_what_it_did(store: Store) -> None:
    late, costs = writer(store), []
    late.append(newer(notes("u", 1)))
    log_of(store).require_columns(2)
    late.append(newer(notes("u", 2)))
    for number in (3, 4):
        before = store.calls.copy()
        late.append(newer(notes("u", number)))
        costs.append(store.calls - before)
    assert [sorted(each.items()) for each in costs] == 2 * [[("create", 1), ("list", 1)]]


def test_a_position_without_rows_is_taken_whatever_the_columns(store: Store) -> None:
    log = log_of(store)
    log.require_columns(2)
    assert log.take_position() == PROBES, "a restore has no columns"


def test_a_conditional_append_knows_at_once(store: Store) -> None:
    late = writer(store)
    late.append(notes("u", 1))
    end = position_of(view_of(store).end)
    log_of(store).require_columns(2)
    with pytest.raises(SchemaChanged):
        late.append(notes("u", 2), end)
    with pytest.raises(SchemaChanged):
        late.append(notes("u", 2), position_of(view_of(store).end))


def test_a_batch_that_was_staged_before_is_refused_and_removed(store: Store) -> None:
    log = log_of(store)
    staging = log.begin_batch()
    pieces = log.stage(staging, notes("u", 1, 2))
    log_of(store).require_columns(2)
    with pytest.raises(SchemaChanged):
        log.publish(staging, pieces, WriterBatch("stream", 1, 0))
    assert not store.keys(f"log/{LOG}/staged")
    assert (pending(store), log.published("stream")) == (0, None)
    assert log.append_once(newer(notes("u", 1)), WriterBatch("stream", 1, 0)) is not None, "the number is free"


def test_a_settled_log_still_says_so_and_one_that_was_put_back_does_not(store: Store) -> None:
    log = log_of(store)
    log.append(notes("u", 1))
    log.require_columns(2)
    view = log.view()
    log.settle(view, {"u": view.end})
    assert newest_cut(store, LOG).columns == 2
    with pytest.raises(SchemaChanged):
        writer(store).append(notes("u", 2))
    log.jump(100, {})
    writer(store).append(notes("u", 2))
    assert pending(store) == 1, "the catalog that came with an older state may know older columns only"


def test_a_later_version_is_never_taken_back(store: Store) -> None:
    log = log_of(store)
    log.require_columns(3)
    log.require_columns(2)
    with pytest.raises(SchemaChanged):
        writer(store).append(newer(notes("u", 1)))
