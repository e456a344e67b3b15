"""What is lost of a ledger: runs, entries, or all behind a backup that its state was restored from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lakewarden.catalog.state.ledger import LOOKS, Attempt, Ledger, LedgerView, ObjectBatch
from lakewarden.catalog.state.ledger_runs import RunName, gaps
from lakewarden.errors import Corrupt
from lakewarden.storage.objects import Missing


@dataclass(frozen=True)
class LedgerFaults:
    """`upto`: the number up to which a ledger does not know any more what was taken."""

    upto: int
    reasons: tuple[str, ...]
    cut_off: tuple[RunName, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.reasons)

    @property
    def summary(self) -> str:
        return "; ".join(self.reasons)


def faults_of(ledger: Ledger, landed: int, cut_off: Sequence[RunName] = ()) -> LedgerFaults:
    """Compares a ledger with what its tables remember.

    Args:
        landed: the highest number that a table, or the catalog, remembers; read before the ledger.
        cut_off: runs that are known to be cut off (`Ledger.cut_off`).

    Raises:
        Corrupt: its runs have names that are no names of runs.
        Conflict: others settled batches again and again meanwhile.
    """
    before: LedgerFaults | None = None
    for _ in range(LOOKS):
        with suppress(Missing):  # a batch was settled since the look
            found = _faults_of(ledger, landed, tuple(cut_off))
            # Twice the same: a single look may show an entry that is gone and not yet the run that settled it.
            if not found or found == before:
                return found
            before = found  # a look may show entries and runs of different moments
    raise ledger.busy()


def give_up(ledger: Ledger, faults: LedgerFaults) -> None:
    """Goes on without what is lost: of each object it is not known any more with which ETag it was taken. Idempotent."""
    ledger.give_up(1, faults.upto)  # first: what is put aside is not missed then
    ledger.put_aside(faults.cut_off)


def _faults_of(ledger: Ledger, landed: int, cut_off: tuple[RunName, ...]) -> LedgerFaults:
    view = ledger.look()
    every = [*(name for name in view.runs if name not in cut_off), *(RunName(0, number, number, 0) for number in view.open)]
    reasons = [f"what was taken under the numbers {first} to {last} is lost" for first, last in gaps(every)]
    reasons += [f"the run {name} is cut off" for name in cut_off]
    upto = view.next - 1 if reasons else 0
    torn = list(_unreadable(ledger, view))
    if torn:
        reasons.append(f"the entries {', '.join(map(str, torn))} cannot be read")
    # An attempt at the open batch may have committed without being settled yet: that is a crash, and no loss.
    ahead = landed > view.settled and not _counts(ledger, landed, view)
    if ahead:
        reasons.append(f"its table has what was taken under number {landed}, and it ends at {view.next - 1}")
    return LedgerFaults(max([upto, *torn, *([landed] if ahead else [])]), tuple(reasons), cut_off)


def _unreadable(ledger: Ledger, view: LedgerView) -> Iterator[int]:
    for number in view.open:
        try:
            ledger.entry(number)
        except Corrupt:
            yield number


def _counts(ledger: Ledger, landed: int, view: LedgerView) -> bool:
    """Whether it is an attempt at the open batch. Raises `Missing`: it was settled."""
    try:
        entry = ledger.entry(landed) if landed in view.open else None
        return isinstance(entry, Attempt) and entry.batch in view.open and isinstance(ledger.entry(entry.batch), ObjectBatch)
    except Corrupt:
        return False
