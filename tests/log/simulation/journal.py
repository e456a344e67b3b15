"""What the actors were promised, and whether it is so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from lakewarden.log.drain import StrongRead
from lakewarden.log.position import Receipt, position_of, seq_of
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
    whole: bool = True
    """Whether its rows have one position, and are visible together."""
    put_at: tuple[int, int] | None = None
    """Where and when a segment of it was put, at a position that was chosen by a listing of this call."""


@dataclass
class Erasure:
    """Of one user."""

    closed_at: int | None = None
    """When nothing of the user was taken any more."""
    opening: bool = False
    upto: int = -1
    """The last `_seq` that it left out."""
    left_out_at: int = -1
    """When the log had nothing of the user."""
    erased_at: int | None = None
    """When nothing of the user was left."""
    opened_at: int | None = None
    """When the user could start anew."""


@dataclass
class Journal:
    calls: list[Written] = field(default_factory=list)
    seqs: dict[int, int] = field(default_factory=dict)
    """The `_seq` with which a row was seen anywhere."""
    befores: dict[int, int | None] = field(default_factory=dict)
    """What a row was seen to have before it."""
    by_id: dict[int, Written] = field(default_factory=dict)
    erasures: dict[str, Erasure] = field(default_factory=dict)
    """By user, those that have begun."""
    lost: set[int] = field(default_factory=set)
    """Rows that a repair gave up."""
    gone_back: set[int] = field(default_factory=set)
    """Rows that a restore may have hidden or dropped."""
    taken_back: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Those that came before a restore and were not in the table: whose they are, and the version that the restore made. They
    never come again."""
    lost_position: int | None = None
    """Who remembers it may take it again, and then has a place below rows that were acknowledged before. A flush that had read
    what was there may pass over it."""

    lost_at: int = -1
    given_up_at: int | None = None
    """When the cut that gives it up was made."""

    def begin(self, user: str, rows: list[Row], now: int, *, whole: bool = True) -> Written:
        call = Written(user, rows, now, whole=whole)
        self.calls.append(call)
        self.by_id.update((row.id, call) for row in rows)
        return call

    def acknowledge(self, calls: list[Written], receipt: Receipt, now: int, *, alone: bool) -> None:
        """`alone`: the call was one segment."""
        for call in calls:
            for earlier in self.calls:
                before = earlier.outcome == "acknowledged" and earlier.user == call.user and earlier.ended < call.began
                if before and position_of(receipt.last_seq) != self.lost_position:
                    _hold(earlier.last_seq < receipt.last_seq, "ordered", f"{receipt.last_seq} after {earlier.last_seq}")
            self._check_taken(call, position_of(receipt.last_seq))
            over = self.erased_before(call.user, call.began)
            if over is not None:
                _hold(receipt.last_seq > over.upto, "a new start", f"{receipt.last_seq} is not beyond what was erased")
            self._check_not_kept(call, receipt)
            call.outcome, call.ended, call.last_seq = "acknowledged", now, receipt.last_seq
            if alone:
                call.first_seq = seq_of(position_of(receipt.last_seq), 0)

    def fail(self, calls: list[Written], now: int) -> None:
        for call in calls:
            call.ended = now

    def erased_before(self, user: str, moment: int) -> Erasure | None:
        """The user's erasure, if it was over by then."""
        erasure = self.erasures.get(user)
        return erasure if erasure is not None and erasure.erased_at is not None and erasure.erased_at < moment else None

    def may_be_gone(self, call: Written) -> bool:
        """Whether an erasure may have taken what the call wrote."""
        return call.user in self.erasures and self.erased_before(call.user, call.began) is None

    def _check_taken(self, call: Written, position: int) -> None:
        """What is neither taken of a user who is being erased, nor at a position that a repair gave up."""
        erasure = self.erasures.get(call.user)
        if erasure is not None and erasure.closed_at is not None and not erasure.opening:
            _hold(call.began <= erasure.closed_at, "erased", f"rows of {call.user} were taken, who is being erased")
        if position == self.lost_position and self.given_up_at is not None:
            _hold(call.began <= self.given_up_at, "lost", f"rows were taken at position {position}, which was given up")

    def _check_not_kept(self, call: Written, receipt: Receipt) -> None:
        """Who listed before an erasure, and put what came too late because of it, is told."""
        erasure = self.erasures.get(call.user)
        if erasure is None or call.put_at is None or not call.put_at[1] > erasure.left_out_at >= 0:
            return
        late, upto = call.put_at[0], position_of(erasure.upto)
        kept = late <= upto < position_of(receipt.last_seq)
        _hold(not kept, "erased", f"rows that were put at {late} by who slept through the erasure were appended again")

    def _check_erased(self, user: str, began: int, rows: Iterable[Row]) -> None:
        """Rows that a read shows which began when the erasure was over."""
        erasure = self.erased_before(user, began)
        if erasure is None or erasure.erased_at is None:
            return
        for row in rows:
            call = self.by_id[row.id]
            _hold(row.seq > erasure.upto, "erased", f"row {row.id} was erased and is read")
            _hold(not (call.ended and call.ended < erasure.erased_at), "erased", f"row {row.id} was written before, and is read")

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
            kept = self.befores.setdefault(row.id, row.before)
            _hold(kept == row.before, "images", f"the row before row {row.id} was {kept}, and is {row.before}")
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
        self._check_whole(user, {*ids, *cold.applied})
        for call in self.calls:
            counts = call.user == user and call.outcome == "acknowledged" and not self.may_be_gone(call)
            if counts and call.ended < began and not dropped:
                for row in self._kept(call):
                    winner = decided.get(row.key)
                    _hold(winner is not None, "durable", f"row {row.id} was acknowledged and is gone")
                    assert winner is not None
                    _hold(not self._older(winner, row, call), "durable", f"row {row.id} is hidden by the older {winner.id}")
        return decided

    def _check_whole(self, user: str, there: set[int]) -> None:
        """Of a call for one user all rows are seen, or none."""
        for call in self.calls:
            if call.whole and call.user == user and not self.may_be_gone(call) and not self._displaced(call):
                seen = [row.id in there for row in call.rows]
                _hold(all(seen) or not any(seen), "together", f"of the rows of one call, only some are read: {seen}")

    def followed(self, user: str, began: int, seen: set[int]) -> None:
        """What a subscriber who looked then, and missed nothing before, has been shown; never a row of others, or one twice."""
        for call in self.calls:
            if call.user == user and call.outcome == "acknowledged" and call.ended < began and not self.may_be_gone(call):
                for row in self._kept(call):
                    _hold(row.id in seen, "followed", f"row {row.id} was acknowledged, and the subscriber was not shown it")

    def _kept(self, call: Written) -> list[Row]:
        if position_of(call.last_seq) == self.lost_position and call.ended >= self.lost_at:
            return []
        return [row for row in call.rows if row.id not in self.lost and row.id not in self.gone_back]

    def _displaced(self, call: Written) -> bool:
        """Whether the call's rows were lost, or stand where others were lost."""
        return len(self._kept(call)) < len(call.rows)

    def _older(self, winner: Row, row: Row, call: Written) -> bool:
        """Whether a row that decides a key lies before one that was acknowledged."""
        if winner.id == row.id:
            return False
        seen = self.seqs.get(row.id)
        if seen is not None:
            return winner.seq < seen
        return winner.seq < call.first_seq

    def set_back(self, user: str, began: int, version: int, applied: frozenset[int], dropped: set[int]) -> None:
        """A restore made that version of the user's table; it was asked for at `began`."""
        calls = [call for call in self.calls if call.user == user and call.outcome == "acknowledged" and call.ended < began]
        before = {row.id for call in calls for row in call.rows} - applied
        self.gone_back |= applied | dropped
        self.taken_back.update(dict.fromkeys(before | dropped, (user, version)))

    def restore_lost(self, user: str, version: int) -> None:
        """The machine stopped, and the user's table is at that version."""
        self.taken_back = {row: made for row, made in self.taken_back.items() if made[0] != user or made[1] <= version}

    def applies(self, user: str, rows: list[Row]) -> None:
        """Rows that come into the user's table."""
        self.saw(user, rows)
        back = [row.id for row in rows if row.id in self.taken_back]
        _hold(not back, "restored", f"rows {back} of {user} come back behind the restore that took them out")

    def finally_ordered(self) -> None:
        """Rows whose calls did not overlap, by the places where they were seen."""
        done = [call for call in self.calls if call.outcome == "acknowledged"]
        for one in done:
            for other in done:
                gone = any(self.may_be_gone(call) or self._displaced(call) for call in (one, other))
                if one.user == other.user and one.ended < other.began and not gone:
                    last, first = self.seqs[one.rows[-1].id], self.seqs[other.rows[0].id]
                    _hold(last < first, "ordered", f"row {other.rows[0].id} lies before {one.rows[-1].id}")

    def finally_imaged(self, applied: frozenset[int]) -> None:
        """The row before each row, by the places in the log. A power cut may take it from a row that was not acknowledged."""
        last: dict[str, Row] = {}
        every = sorted((self.seqs[row.id], row) for call in self.calls for row in call.rows if row.id in applied)
        for _, row in every:
            before, found = last.get(row.key), self.befores[row.id]
            wanted = 0 if before is None or before.value is None else before.id
            cut = found not in (0, None) and found not in applied and self.by_id[row.id].outcome != "acknowledged"
            _hold(cut or found == wanted, "images", f"the row before row {row.id} is {wanted}, and its image is {found}")
            last[row.key] = row

    def finally_applied(self, user: str, applied: frozenset[int]) -> None:
        for call in self.calls:
            if call.user == user and call.outcome != "open" and not self.may_be_gone(call):
                for row in self._kept(call):
                    wanted = call.outcome == "acknowledged"
                    _hold(
                        (row.id in applied) == wanted, "exactly once", f"row {row.id} was {call.outcome}; applied: {not wanted}"
                    )


def _hold(kept: bool, promise: str, what: str) -> None:
    if not kept:
        raise Broken(f"{promise}: {what}")
