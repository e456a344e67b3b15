"""What a `TableLog` has to do, whatever keeps the rows.

What goes wrong between the calls (crashes, lost answers, processes that sleep) is the simulation's part.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.base.clock import random_id, system_clock
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import BeingErased, Conflict, NotFound
from lakewarden.log.log_reader import LogReader
from lakewarden.log.logs import Logs
from lakewarden.log.position import NOTHING, end_of, position_of
from lakewarden.log.record import SEQ, decode
from lakewarden.log.table_log import LogTerms, TableLog
from lakewarden.log.view import PendingRows
from lakewarden.storage.local import LocalObjects
from tests.log.build import LOG, NOTES, ids_of, joined, notes

_KEPT = timedelta(seconds=100)


@dataclass
class House:
    """A place with one log, that any number of processes may open."""

    place: str
    now: datetime = field(default_factory=system_clock)

    def log(self) -> TableLog:
        """Another process's."""
        settings = LogSettings(retention_seconds=_KEPT.total_seconds())
        return Logs(LocalObjects(self.place)).of(LOG, lambda: LogTerms(settings, lambda: self.now, random_id, str.upper, 2))

    def ids(self, user: str) -> list[int]:
        log = self.log()
        pending = log.view().pending.get(user)
        return [] if pending is None else ids_of(log.rows(pending, (NOTES,)))

    def kept(self, user: str) -> list[int]:
        """All that subscribers can still read."""
        log = self.log()
        ranges = log.trail(NOTHING).ranges(user, NOTHING)
        return ids_of(decode([log.chunk(each) for each in ranges], ranges, (NOTES,)))


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(str(tmp_path))


def test_an_unknown_log_is_empty(house: House) -> None:
    view = house.log().view()
    assert (dict(view.pending), view.last_position, view.end, view.settled) == ({}, NOTHING, NOTHING, False)
    assert not house.log().faults()


def test_chunks_of_many_users_come_in_the_order_in_which_they_are_wanted(house: House) -> None:
    log = house.log()
    for number in range(2):
        log.append(joined(*(notes(user, number) for user in "dbca")))
    ranges = [each for user in "acb" for each in log.trail(NOTHING, set("abc")).ranges(user, NOTHING)]
    assert [bytes(each) for each in log.chunks(ranges)] == [bytes(log.chunk(each)) for each in ranges]
    assert ids_of(decode(log.chunks(ranges), ranges, (NOTES,))) == [0, 1] * 3
    assert log.chunks([]) == []


def test_rows_are_there_for_everybody_and_in_order(house: House) -> None:
    one, other = house.log(), house.log()
    first = one.append(joined(notes("u", 1, 2), notes("v", 1)))
    second = other.append(notes("u", 3))
    third = one.append(notes("u", 4))
    assert [each.rows for each in (first, second, third)] == [3, 1, 1]
    assert first.last_seq < second.last_seq < third.last_seq
    log = house.log()
    view = log.view()
    rows = log.rows(view.pending["u"], (NOTES,))
    assert ids_of(rows) == [1, 2, 3, 4]
    seqs = [int(seq) for seq in rows.column(SEQ).to_numpy()]
    assert seqs == sorted(seqs)
    assert seqs[-1] == third.last_seq <= view.end
    assert house.ids("v") == [1]
    assert view.pending["u"].rows == 4


def test_a_task_reads_what_a_job_has_planned(house: House) -> None:
    house.log().append(notes("u", 1, 2))
    planned: PendingRows = pickle.loads(pickle.dumps(house.log().view().pending["u"]))
    assert ids_of(LogReader(LocalObjects(house.place), LOG).rows(planned, (NOTES,))) == [1, 2]


def test_what_read_first_comes_directly_behind_it_or_not_at_all(house: House) -> None:
    log = house.log()
    log.append(notes("u", 1))
    read = position_of(log.view().end)
    house.log().append(notes("v", 1))
    with pytest.raises(Conflict):
        log.append(notes("u", 2), read)
    log.append(notes("u", 2), position_of(log.view().end))
    assert house.ids("u") == [1, 2]


def test_what_is_settled_is_pending_no_more_and_kept_for_a_while(house: House) -> None:
    log = house.log()
    log.append(joined(notes("u", 1), notes("v", 1)))
    view = log.view()
    log.make_durable(view)
    log.append(notes("u", 2))
    log.settle(view, {"u": view.end})
    assert (house.ids("u"), house.ids("v"), house.kept("u")) == ([2], [1], [1, 2])
    log.settle(log.view(), {user: log.view().end for user in ("u", "v")})
    assert (house.ids("u"), house.ids("v"), house.kept("u"), house.kept("v")) == ([], [], [1, 2], [1])
    assert house.log().view().settled
    assert house.log().trail(NOTHING).settled_upto("u") >= view.end
    house.now += _KEPT + timedelta(seconds=1)
    log.forget_expired(log.view())
    trail = house.log().trail(NOTHING)
    assert (house.kept("u"), trail.complete_after(NOTHING), trail.complete_after(trail.forgotten)) == ([], False, True)


def test_what_is_settled_without_keeping_is_gone(house: House) -> None:
    log = house.log()
    log.append(notes("u", 1))
    view = log.view()
    log.settle(view, {"u": view.end}, keep=False)
    assert (house.ids("u"), house.kept("u")) == ([], [])


def test_an_erased_user_is_gone_and_begins_anew_behind_it(house: House) -> None:
    slept, log = house.log(), house.log()
    slept.append(notes("u", 1))
    last = log.append(joined(notes("u", 2), notes("v", 1))).last_seq
    view = log.view()
    log.close_user("U")
    with pytest.raises(BeingErased):
        house.log().append(notes("u", 3))
    assert house.log().signs("U").shut
    assert not house.log().signs("V").shut
    found: list[int] = []
    upto = log.leave_out("u", house.now, found=lambda pending: found.append(pending.rows))
    assert (found, upto >= last) == ([2], True)
    assert (house.ids("u"), house.kept("u"), house.ids("v")) == ([], [], [1])
    assert log.gone_since(view, {"u", "v"}) == {"u"}
    log.open_user("U")
    signs = house.log().signs("U")
    assert (signs.closed, signs.erased, house.log().signs("V").erased) == (False, position_of(upto), None)
    assert slept.append(notes("u", 4)).last_seq > upto
    assert house.ids("u") == [4]


def test_a_restore_is_noted_behind_what_came_before_it(house: House) -> None:
    log = house.log()
    before = position_of(log.append(joined(notes("u", 1), notes("v", 1))).last_seq)
    log.note_rewound(["U"])
    after = position_of(log.append(notes("u", 2)).last_seq)
    rewound = house.log().trail(NOTHING).signs("U").rewound
    assert rewound is not None
    assert before < rewound < after
    assert house.log().signs("V").rewound is None


def test_a_direct_write_is_noted_below_its_position_until_it_is_closed_whatever_is_settled(house: House) -> None:
    log = house.log()
    before = log.append(notes("u", 1)).last_seq
    assert log.direct_upto() is None
    log.open_direct("one")
    position = log.take_position()
    log.append(notes("u", 2))
    log.open_direct("two")
    for other in (log, house.log()):
        assert before <= (other.direct_upto() or 0) < end_of(position)
    view = log.view()
    log.settle(view, {"u": view.end})
    assert before <= (house.log().direct_upto() or 0) < end_of(position)
    log.close_direct("one")
    assert (log.direct_upto() or 0) >= end_of(position)
    log.close_direct("two")
    log.close_direct("two")
    assert house.log().direct_upto() is None


def test_a_direct_write_is_noted_behind_what_was_settled(house: House) -> None:
    log = house.log()
    log.append(notes("u", 1))
    view = log.view()
    log.settle(view, {"u": view.end}, keep=False)
    house.now += _KEPT + timedelta(seconds=1)
    log.forget_expired(log.view())
    house.log().open_direct("one")
    assert (house.log().direct_upto() or 0) >= view.end, "though no segment is left"


def test_a_barrier_takes_the_place_of_writes_that_went_quiet(house: House) -> None:
    log = house.log()
    before = log.append(notes("u", 1)).last_seq
    assert not log.open_direct("dead")
    log.append(notes("u", 2))
    other = house.log()
    assert not other.replace_quiet("early")
    assert log.is_noted("dead")
    house.now += timedelta(seconds=121)
    assert log.open_direct("alive"), "another went quiet"
    log.renew_direct("alive")
    view = log.view()
    assert log.has_quiet(view)
    log.settle(view, {"u": view.end})
    assert other.replace_quiet("barrier")
    assert [log.is_noted(id_) for id_ in ("dead", "alive", "barrier")] == [False, True, True]
    assert log.direct_upto() == end_of(position_of(before)), "the barrier stands where the dead one stood"
    log.renew_direct("dead")
    assert not log.is_noted("dead"), "what was given up stays so"
    log.close_direct("barrier")
    assert (log.direct_upto() or 0) > before


def test_a_log_goes_on_behind_what_a_lost_state_knew(house: House) -> None:
    log = house.log()
    log.append(joined(notes("u", 1), notes("v", 1)))
    end = log.view().end
    log.jump(1000, {"u": end})
    assert (house.ids("u"), house.ids("v")) == ([], [1])
    assert position_of(house.log().append(notes("u", 2)).last_seq) > 1000
    restarted = house.log().signs("V").restarted
    assert restarted is not None
    assert restarted > 1000


def test_nothing_comes_into_the_log_of_a_dropped_table(house: House) -> None:
    slept = house.log()
    slept.append(notes("u", 1))
    view = slept.view()
    house.log().drop()
    for log in (slept, house.log()):
        with pytest.raises(NotFound):
            log.append(notes("u", 2))
    assert house.log().signs("U").dropped
    assert house.log().gone_since(view, {"u"}) == {"u"}
    assert house.ids("u") == []


def test_a_process_has_one_object_of_a_log(tmp_path: Path) -> None:
    terms = LogTerms(LogSettings(), system_clock, random_id, str.upper, 2)
    logs = Logs(LocalObjects(str(tmp_path)), kept=2)
    held = logs.of("a", lambda: terms)
    assert logs.of("a", lambda: terms) is held
    for name in "bcd":
        logs.of(name, lambda: terms)
    assert logs.of("a", lambda: terms) is held, "held, though others were used since"
    assert logs.opened("a") is held
    with pytest.raises(KeyError):
        logs.opened("b")
