"""Staged batches: one user's large call becomes visible at one position, and what no segment names goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.base.clock import random_id, system_clock
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import BeingErased, Conflict, StorageRefused
from lakewarden.log.chunk import Chunk
from lakewarden.log.objects import names
from lakewarden.log.objects.cuts.closing import close_user, leave_out, open_user
from lakewarden.log.objects.cuts.settle import CutTerms
from lakewarden.log.objects.pack import INDEXED
from lakewarden.log.objects.segment import read_segment
from lakewarden.log.objects.staging import remove_abandoned, stage
from lakewarden.log.position import NOTHING, Receipt, seq_of
from lakewarden.log.table_log import LogTerms, TableLog
from tests.log.build import LOG, Store, notes, pending_ids, view_of, writer

SMALL = LogSettings(segment_max_rows=3)


def test_a_large_call_for_one_user_has_one_position(store: Store) -> None:
    receipt = writer(store, SMALL).append(notes("a", *range(8)))
    assert receipt == Receipt(8, seq_of(0, 7))
    seen = view_of(store)
    assert (len(seen.run), seen.unnamed, seen.counts.rows.tolist()) == (1, frozenset(), [8])
    assert pending_ids(store, "a") == [*range(8)]
    assert len(store.list(names.staged(LOG, seen.run[0].put_id))) == 3


def test_what_is_staged_goes_with_the_position_of_its_segment(store: Store) -> None:
    log = TableLog(store, LOG, LogTerms(SMALL, system_clock, random_id, str.upper, INDEXED))
    end = log.append(notes("a", *range(8))).last_seq
    log.append(notes("b", 1))
    log.settle(log.view(), {"a": log.view().end})
    log.settle(log.view(), {"b": log.view().end})
    assert [found.key for found in store.list(names.home(LOG)) if "/staged/" in found.key] == []
    kept = log.trail(NOTHING).ranges("a", NOTHING)
    assert (sum(each.rows for each in kept), kept[-1].last_seq) == (8, end), "the history has copies"


def test_a_batch_that_no_segment_names_is_no_part_of_the_log_and_goes_two_days_later(store: Store) -> None:
    def fails(call: str, key: str) -> None:
        if call == "create" and "/segments/" in key:
            raise StorageRefused("the disk is full")

    store.before = fails
    with pytest.raises(StorageRefused):
        writer(store, SMALL).append(notes("a", *range(8)))
    store.before = lambda call, key: None
    (staged,) = view_of(store).unnamed
    assert pending_ids(store, "a") == []
    for hours, left in ((47, 3), (49, 0)):
        remove_abandoned(store, LOG, [staged], datetime.now(UTC) + timedelta(hours=hours))
        assert len(store.list(names.staged(LOG, staged))) == left


def test_a_named_batch_stays_however_old(store: Store) -> None:
    writer(store, SMALL).append(notes("a", *range(8)))
    remove_abandoned(store, LOG, [view_of(store).run[0].put_id], datetime.now(UTC) + timedelta(days=9))
    assert pending_ids(store, "a") == [*range(8)]


def test_a_conditional_large_call_that_lost_leaves_nothing(store: Store) -> None:
    writer(store).append(notes("b", 1))
    with pytest.raises(Conflict):
        writer(store, SMALL).append(notes("a", *range(8)), NOTHING)
    assert (pending_ids(store, "a"), view_of(store).unnamed) == ([], frozenset())


def test_a_lost_object_of_a_staged_batch_is_found_and_given_up(store: Store) -> None:
    log = TableLog(store, LOG, LogTerms(SMALL, system_clock, random_id, str.upper, INDEXED))
    log.append(notes("a", *range(8)))
    log.append(notes("b", 1))
    gone = names.staged_key(LOG, view_of(store).run[0].put_id, 1)
    store.delete([gone])
    faults = log.faults()
    assert faults.positions == (0,)
    log.give_up(faults)
    assert (pending_ids(store, "a"), pending_ids(store, "b")) == ([0, 1, 2, 6, 7], [1])


def test_an_erasure_removes_what_is_staged_of_its_user(store: Store) -> None:
    for user in ("u", "v"):
        stage(store, LOG, random_id(), 1, 0, [[Chunk(user, 1, b"x")]])
    erase(store, "u")
    left = [found.key for found in store.list(names.home(LOG)) if "/staged/" in found.key]
    assert [read_segment(store, key, 0).ranges[0].user for key in left] == ["v"]


def test_rows_that_were_staged_before_an_erasure_are_refused_after_it(store: Store) -> None:
    slow = writer(store, SMALL)

    def erases(call: str, key: str) -> None:
        if call == "create" and key.endswith("2") and "/staged/" in key:
            store.after = lambda call, key: None
            erase(store, "a")

    store.after = erases
    with pytest.raises(BeingErased):
        slow.append(notes("a", *range(8)))
    assert pending_ids(store, "a") == []
    assert slow.append(notes("a", *range(8))).rows == 8
    assert pending_ids(store, "a") == [*range(8)]


def erase(store: Store, user: str) -> None:
    close_user(store, LOG, user.upper())
    leave_out(store, LOG, user, user.upper(), CutTerms(LogSettings(), random_id), now=datetime.now(UTC))
    open_user(store, LOG, user.upper())
