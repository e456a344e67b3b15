"""A user's end in one log, step by step: who slept, who came at the same time, and what is left."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden.base.clock import random_id
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import BeingErased, NotFound
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cut import decode_cut, newest_cut
from lakewarden.log.objects.cuts.closing import close_user, gone_since, leave_out, open_user, seal
from lakewarden.log.objects.cuts.mend import jump
from lakewarden.log.objects.cuts.notes import note_rewound
from lakewarden.log.objects.cuts.settle import CutTerms, settle
from lakewarden.log.objects.put import PROBES
from lakewarden.log.objects.trail import read_trail
from lakewarden.log.position import NOTHING, end_of
from lakewarden.log.record import LogBatch, before_column, before_field
from tests.fixtures.patience import PATIENCE
from tests.log.build import LOG, NOTES, Store, joined, notes, pending_ids, view_of, writer

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Crash(BaseException):
    """The process ends here."""


def erase(store: Store, user: str, reach: Reach = no_faults) -> int:
    """Closed, and left out; the last `_seq` that is settled thereby."""
    close_user(store, LOG, user.upper())
    return leave_out(
        store, LOG, user, user.upper(), CutTerms(LogSettings(), random_id, reach=reach), now=NOON + timedelta(seconds=9)
    )


def settled(store: Store, *users: str) -> None:
    """Their rows are flushed, and kept for subscribers."""
    view = view_of(store)
    marks = dict.fromkeys(users, view.end)
    settle(store, view, marks, CutTerms(LogSettings(carry_below=1), random_id), now=NOON)


def with_images(batch: LogBatch) -> LogBatch:
    """The rows before them have the text of their user, which no row that comes has."""
    rows = batch.rows
    owners = rows.column("_user").to_pylist()
    before = pa.table({"id": rows.column("id"), "text": [f"before of {user}" for user in owners]})
    schema = replace(NOTES, keeps_before=True)
    column = before_column(schema, before, pa.array([True] * len(owners)))
    return LogBatch(batch.schema_version, rows.append_column(before_field(schema), column))


def rows_of_user(store: Store, user: str) -> int:
    """All that the log still has, settled or not."""
    return sum(each.rows for each in read_trail(store, LOG, NOTHING, HeaderCache()).ranges(user, NOTHING))


def test_nothing_is_put_for_a_user_who_was_seen_to_be_closed(store: Store) -> None:
    late = writer(store)
    late.append(joined(notes("u", 1), notes("v", 1)))
    close_user(store, LOG, "U")
    for _ in range(2):
        with pytest.raises(BeingErased):
            late.append(notes("u", 2))
        with pytest.raises(BeingErased):
            writer(store).append(notes("u", 2))
    assert rows_of_user(store, "u") == 2, "the first put could not know; none comes after it"
    late.append(notes("v", 2))
    assert pending_ids(store, "v") == [1, 2]


def test_the_rows_before_a_users_rows_go_with_them(store: Store) -> None:
    """From every part of the log; a table of users has no such rows yet, and its log is the same."""
    late = writer(store)
    late.append(with_images(joined(notes("u", 1, 2), notes("v", 1), notes("w", 1))))
    settled(store, "u", "v")
    late.append(with_images(joined(notes("v", 2), notes("u", 3))))
    staging = late.begin_batch()
    late.stage(staging, with_images(joined(notes("u", 4), notes("v", 4))))
    late.publish(staging, late.stage(staging, with_images(notes("u", 5))), None)
    texts = {user: f"before of {user}".encode() for user in "uvw"}

    def objects_with(user: str) -> set[str]:
        found = store.list("")
        return {each.key.split("/")[2] for each in found if texts[user] in store.get(each.key)}

    assert objects_with("u") == {"segments", "history", "staged"}
    assert objects_with("w") == {"carry"}
    erase(store, "u")
    assert objects_with("u") == set()
    assert objects_with("v") >= {"history", "carry"}
    assert objects_with("w") == {"carry"}


@pytest.mark.parametrize("cut", [False, True], ids=["filled", "settled"])
def test_who_does_not_know_of_the_closing_finds_every_position_taken(store: Store, cut: bool) -> None:
    late = writer(store)
    late.append(notes("u", 1))

    def crash(step: str) -> None:
        if step == "erase:filled" and not cut:
            raise Crash

    try:
        erase(store, "u", crash)
    except Crash:
        assert not cut
    with pytest.raises(BeingErased):
        late.append(notes("u", 2))
    assert rows_of_user(store, "u") == (0 if cut else 1)
    assert view_of(store).last_position == PROBES


def test_a_conditional_append_looks_whether_its_user_is_closed(store: Store) -> None:
    late = writer(store)
    late.append(notes("u", 1))
    erase(store, "u")
    with pytest.raises(BeingErased):
        late.append(notes("u", 2), after=view_of(store).last_position)
    assert rows_of_user(store, "u") == 0


def test_an_append_that_slept_through_an_erasure_puts_nothing_into_the_new_start(store: Store) -> None:
    writer(store).append(notes("u", 1))

    def sleep(call: str, _key: str) -> None:
        if call == "create":
            store.before = lambda call, key: None
            erase(store, "u")
            open_user(store, LOG, "U")

    store.before = sleep
    with pytest.raises(BeingErased):
        writer(store).append(notes("u", 2))
    assert rows_of_user(store, "u") == 0
    writer(store).append(notes("u", 3))
    assert pending_ids(store, "u") == [3]


def test_an_append_whose_positions_an_erasure_fills_puts_nothing_into_the_new_start(store: Store, tmp_path: Path) -> None:
    """It finds each of them taken, and lists the log when the user is open again."""
    writer(store).append(notes("u", 1))
    slow, filled, go_on = Store(tmp_path), threading.Event(), threading.Event()

    def erase_slowly() -> None:
        def wait(step: str) -> None:
            if step == "erase:filled":
                filled.set()
                assert go_on.wait(PATIENCE)

        erase(store, "u", wait)
        open_user(store, LOG, "U")

    eraser = threading.Thread(target=erase_slowly)

    def meanwhile(call: str, _key: str) -> None:
        if call == "create" and slow.calls["create"] == 1:
            eraser.start()
            assert filled.wait(PATIENCE)
        if call == "list" and slow.calls["create"] == PROBES:
            go_on.set()
            eraser.join(PATIENCE)

    slow.before = meanwhile
    with pytest.raises(BeingErased):
        writer(slow).append(notes("u", 2))
    assert (slow.calls["create"], rows_of_user(store, "u")) == (PROBES, 0)


def test_a_user_who_began_anew_is_erased_again(store: Store) -> None:
    for _ in range(2):
        writer(store).append(notes("u", 1))
        erase(store, "u")
        assert rows_of_user(store, "u") == 0
        open_user(store, LOG, "U")


def test_two_erasures_at_once_leave_each_others_user_closed(store: Store) -> None:
    writer(store).append(joined(notes("u", 1), notes("v", 1), notes("w", 1)))

    def second(step: str) -> None:
        if step == "erase:filled":
            assert erase(store, "v") > 0

    erase(store, "u", second)
    assert newest_cut(store, LOG).closed == ("U", "V")
    assert newest_cut(store, LOG).erased.keys() == {"U", "V"}
    open_user(store, LOG, "U")
    with pytest.raises(BeingErased):
        writer(store).append(notes("v", 2))
    writer(store).append(notes("u", 2))
    assert (pending_ids(store, "u"), pending_ids(store, "v"), pending_ids(store, "w")) == ([2], [], [1])


def test_nothing_of_an_erased_user_is_left_in_the_log(store: Store) -> None:
    writer(store).append(joined(notes("u", 1), notes("v", 1), notes("w", 1)))
    settled(store, "u", "v")
    writer(store).append(joined(notes("u", 2), notes("v", 2), notes("w", 2)))
    writer(store).append(notes("u", 3))
    settle(store, view_of(store), {"u": end_of(1)}, CutTerms(LogSettings(carry_below=0), random_id), now=NOON)
    assert "u" in newest_cut(store, LOG).settled, "a cut that stays for a while names the user"
    assert rows_of_user(store, "u") == 3
    erase(store, "u")
    assert rows_of_user(store, "u") == 0
    assert [each.key for each in store.list(f"log/{LOG}") if b'"u"' in store.get(each.key)] == []
    assert (rows_of_user(store, "v"), pending_ids(store, "v"), pending_ids(store, "w")) == (2, [2], [1, 2])


def test_a_settle_keeps_who_is_closed_who_was_erased_and_who_went_back(store: Store) -> None:
    erase(store, "u")
    close_user(store, LOG, "V")
    note_rewound(store, LOG, ["W"], 3)
    before = newest_cut(store, LOG)
    writer(store).append(notes("x", 1))
    settled(store, "x")
    after = newest_cut(store, LOG)
    assert after.version > before.version
    assert (after.closed, after.erased, after.rewound) == (("U", "V"), {"U": PROBES - 1}, {"W": 3})


@pytest.mark.parametrize("open_again", [False, True])
def test_a_jump_past_a_lost_state_brings_no_erased_row_back(store: Store, open_again: bool) -> None:
    """An object with the user's rows is there again, under the name of what a lost cut had carried."""
    writer(store).append(joined(notes("u", 1), notes("v", 1)))
    settled(store, "w")
    settle(store, view_of(store), {"v": view_of(store).end}, CutTerms(LogSettings(carry_below=2), random_id))
    (carried,) = newest_cut(store, LOG).carry
    data = store.get(carried)
    erase(store, "u")
    if open_again:
        open_user(store, LOG, "U")
    store.create(names.carry_key(LOG, newest_cut(store, LOG).version + 1, "0" * 32), data)
    jump(store, LOG, 50, {}, CutTerms(LogSettings(), random_id), mark=str.upper)
    assert rows_of_user(store, "u") == 0


def test_the_cuts_of_an_erasure_remember_many_before_it(store: Store) -> None:
    for number in range(12):
        erase(store, f"u{number}")
    assert [*newest_cut(store, LOG).erased] == [f"U{number}" for number in range(12)]


def test_nothing_follows_a_seal(store: Store) -> None:
    writer(store).append(notes("u", 1))
    view = view_of(store)
    seal(store, LOG)
    sealed = newest_cut(store, LOG)
    settle(store, view, {"u": view.end}, CutTerms(LogSettings(), random_id))
    close_user(store, LOG, "U")
    open_user(store, LOG, "U")
    assert newest_cut(store, LOG) == sealed
    assert decode_cut("", sealed.version, store.get(names.cut_key(LOG, sealed.version))).sealed
    with pytest.raises(NotFound):
        writer(store).append(notes("u", 1))


def test_who_keeps_a_name_asks_whether_the_user_went_meanwhile(store: Store) -> None:
    writer(store).append(joined(notes("u", 1), notes("v", 1), notes("w", 1)))
    view = view_of(store)
    users = ("u", "v", "w")
    assert gone_since(store, view, users, str.upper) == set()
    close_user(store, LOG, "V")
    assert gone_since(store, view, users, str.upper) == {"v"}
    erase(store, "u")
    open_user(store, LOG, "U")
    open_user(store, LOG, "V")
    assert gone_since(store, view, users, str.upper) == {"u"}
    seal(store, LOG)
    assert gone_since(store, view, users, str.upper) == {"u", "v", "w"}
