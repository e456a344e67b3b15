"""What the actors were promised, and whether it is so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from lakewarden.log.drain import StrongRead
from lakewarden.log.gather import Receipt
from lakewarden.log.position import position_of, seq_of
from tests.log.simulation.stores import Row, Snapshot
from tests.log.simulation.world import Broken

Outcome = Literal["open", "acknowledged", "refused"]
"""Open: not answered yet, or with 'the rows may or may not have been taken', or never, because the writer was killed."""


@dataclass
class Written:
    """One call of append, for one user."""

    user: str
    rows: list[Row]
    began: int
    outcome: Outcome = "open"
    ended: int = 0
    last_seq: int = -1
    first_seq: int = -1
    """Not above the `_seq` of any row."""


@dataclass
class Journal:
    calls: list[Written] = field(default_factory=list)
    seqs: dict[int, int] = field(default_factory=dict)
    """The `_seq` with which a row was seen anywhere."""
    by_id: dict[int, Written] = field(default_factory=dict)
    erasing: str = ""
    """The user whose erasure has begun."""
    erased_upto: int = -1
    """The last `_seq` that the erasure left out; once it is over."""
    erased_at: int | None = None
    """When nothing of the user was left."""
    opened_at: int | None = None
    """When the user could start anew."""

    def begin(self, user: str, rows: list[Row], now: int) -> Written:
        call = Written(user, rows, now)
        self.calls.append(call)
        self.by_id.update((row.id, call) for row in rows)
        return call

    def acknowledge(self, calls: list[Written], receipt: Receipt, now: int, *, alone: bool) -> None:
        """`alone`: the call was one segment."""
        for call in calls:
            for earlier in self.calls:
                if earlier.outcome == "acknowledged" and earlier.user == call.user and earlier.ended < call.began:
                    _hold(earlier.last_seq < receipt.last_seq, "ordered", f"{receipt.last_seq} after {earlier.last_seq}")
            if self.erased_at is not None and call.user == self.erasing and call.began > self.erased_at:
                _hold(receipt.last_seq > self.erased_upto, "a new start", f"{receipt.last_seq} is not beyond what was erased")
            call.outcome, call.ended, call.last_seq = "acknowledged", now, receipt.last_seq
            if alone:
                call.first_seq = seq_of(position_of(receipt.last_seq), 0)

    def fail(self, calls: list[Written], now: int) -> None:
        for call in calls:
            call.ended = now

    def may_be_gone(self, call: Written) -> bool:
        """Whether an erasure may have taken what the call wrote."""
        return call.user == self.erasing and (self.erased_at is None or call.began < self.erased_at)

    def _check_erased(self, user: str, began: int, rows: Iterable[Row]) -> None:
        """Rows that a read shows which began when the erasure was over."""
        if user != self.erasing or self.erased_at is None or began <= self.erased_at:
            return
        for row in rows:
            call = self.by_id[row.id]
            _hold(row.seq > self.erased_upto, "erased", f"row {row.id} was erased and is read")
            _hold(not (call.ended and call.ended < self.erased_at), "erased", f"row {row.id} was written before, and is read")

    def refuse(self, calls: list[Written]) -> None:
        for call in calls:
            call.outcome = "refused"

    def saw(self, user: str, rows: list[Row]) -> None:
        """Rows as they were read from the log or from a table: of that user, in order, always with the same `_seq`."""
        for row in rows:
            call = self.by_id[row.id]
            _hold(call.user == user, "apart", f"row {row.id} of {call.user} was read as one of {user}")
            _hold(call.outcome != "refused", "refused", f"row {row.id} was refused and is there")
            _hold(self.seqs.setdefault(row.id, row.seq) == row.seq, "exactly once", f"row {row.id} has two places in the log")
            if call.outcome == "acknowledged":
                _hold(row.seq <= call.last_seq, "ordered", f"row {row.id} lies behind its receipt")
        for one, other in pairwise(rows):
            _hold(one.seq < other.seq, "ordered", f"row {other.id} is read after {one.id}")

    def strong_read(self, user: str, began: int, read: StrongRead[list[Row], Snapshot], *, dropped: bool) -> dict[str, Row]:
        """Checks a strong read that began then; what decides each key."""
        hot, cold = read.rows or [], read.cold.opened
        self.saw(user, hot)
        ids = [row.id for row in hot]
        _hold(len(set(ids)) == len(ids), "once in a read", f"hot rows {ids}")
        _hold(not cold.applied.intersection(ids), "once in a read", f"hot rows {ids} are in the table too")
        decided = {**cold.winners, **{row.key: row for row in hot}}
        self._check_erased(user, began, decided.values())
        for call in self.calls:
            counts = call.user == user and call.outcome == "acknowledged" and not self.may_be_gone(call)
            if counts and call.ended < began and not dropped:
                for row in call.rows:
                    winner = decided.get(row.key)
                    _hold(winner is not None, "durable", f"row {row.id} was acknowledged and is gone")
                    assert winner is not None
                    _hold(not self._older(winner, row, call), "durable", f"row {row.id} is hidden by the older {winner.id}")
        return decided

    def followed(self, user: str, began: int, seen: set[int]) -> None:
        """What a subscriber who looked then, and missed nothing before, has been shown; never a row of others, or one twice."""
        for call in self.calls:
            if call.user == user and call.outcome == "acknowledged" and call.ended < began and not self.may_be_gone(call):
                for row in call.rows:
                    _hold(row.id in seen, "followed", f"row {row.id} was acknowledged, and the subscriber was not shown it")

    def _older(self, winner: Row, row: Row, call: Written) -> bool:
        """Whether a row that decides a key lies before one that was acknowledged."""
        if winner.id == row.id:
            return False
        seen = self.seqs.get(row.id)
        if seen is not None:
            return winner.seq < seen
        return winner.seq < call.first_seq

    def finally_ordered(self) -> None:
        """Rows whose calls did not overlap, by the places where they were seen."""
        done = [call for call in self.calls if call.outcome == "acknowledged"]
        for one in done:
            for other in done:
                gone = self.may_be_gone(one) or self.may_be_gone(other)
                if one.user == other.user and one.ended < other.began and not gone:
                    last, first = self.seqs[one.rows[-1].id], self.seqs[other.rows[0].id]
                    _hold(last < first, "ordered", f"row {other.rows[0].id} lies before {one.rows[-1].id}")

    def finally_applied(self, user: str, applied: frozenset[int]) -> None:
        for call in self.calls:
            if call.user == user and call.outcome != "open" and not self.may_be_gone(call):
                for row in call.rows:
                    wanted = call.outcome == "acknowledged"
                    _hold(
                        (row.id in applied) == wanted, "exactly once", f"row {row.id} was {call.outcome}; applied: {not wanted}"
                    )


def _hold(kept: bool, promise: str, what: str) -> None:
    if not kept:
        raise Broken(f"{promise}: {what}")
