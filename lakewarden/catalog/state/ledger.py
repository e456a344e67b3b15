"""One pipeline's ledger under `_lakewarden/pipelines/<pipeline id>/`: entries by their numbers, and runs of what is known.

Numbers are never used again: the newest run says how far they went, and an entry at or below that is void, as one that a paused
process creates again. So a process that created an entry looks whether it still counts. Runs follow each other without a gap.

In the place of runs that are lost stands one of the level `LOST`. What it covers, and each object that no run knows, may have
been taken with any ETag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, TypeVar

import msgspec

from lakewarden.catalog.state import ledger_runs
from lakewarden.catalog.state.ledger_runs import KnownObject, Records, RunName
from lakewarden.errors import Conflict, Corrupt
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore
from lakewarden.storage.sources import SourceObject
from lakewarden.storage.sums import kept_as

T = TypeVar("T")

# The entries of a ledger: batches, which say what is to be taken, and attempts at them, which say how it went.
#
# They share one sequence of numbers. An attempt counts if the table's Delta log has its number, or the catalog if the table has
# no schema; of the attempts at a batch, one counts.

Outcome = Literal["ingested", "rejected", "left"]
"""`left`: it was gone, or had another ETag, when it was read: the batch counts without it, and it is not known."""

FORMAT = 1


@dataclass(frozen=True)
class OfferedObject:
    """An object of a batch, as it was listed."""

    object: SourceObject
    replaces: bool = False
    """Whether earlier rows of the object may be in the table: it was known with another ETag, or is forced."""


@dataclass(frozen=True)
class ObjectBatch:
    """The objects that are taken together."""

    number: int
    job_id: str
    at: datetime
    objects: tuple[OfferedObject, ...]
    format: int = FORMAT


@dataclass(frozen=True)
class ObjectFate:
    """What became of one object."""

    outcome: Outcome
    rows: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Attempt:
    """What an attempt at a batch made of its objects, in their order; named before its commit."""

    number: int
    batch: int
    job_id: str
    at: datetime
    taken: tuple[ObjectFate, ...]
    format: int = FORMAT


Entry = ObjectBatch | Attempt


class _Tagged(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of them, as JSON has it."""

    batch: ObjectBatch | None = None
    attempt: Attempt | None = None


def encode(entry: Entry) -> bytes:
    return msgspec.json.encode(_Tagged(batch=entry) if isinstance(entry, ObjectBatch) else _Tagged(attempt=entry))


def decode(data: bytes, name: str) -> Entry:
    """`name` says in a message where the bytes came from.

    Raises:
        Corrupt: they are no entry, or one of a newer format.
    """
    found = kept_as(_Tagged, data, f"{name} is not an entry of a ledger")
    entry = found.batch or found.attempt
    if entry is None or entry.format != FORMAT:
        raise Corrupt(f"{name} is not an entry of a ledger of format {FORMAT}")
    return entry


ROOT = "pipelines"


def forget_ledger(store: ObjectStore, pipeline_id: str) -> None:
    """Removes the ledger of a pipeline that was dropped."""
    store.delete(store.keys(f"{ROOT}/{pipeline_id}"))


_ENTRIES, _RUNS, _ASIDE = "entries", "known", "aside"
_ATTEMPTS = 20

LOOKS = 1_000
"""Looks at a ledger that others change meanwhile, each of which is a batch of theirs."""


@dataclass(frozen=True)
class LedgerView:
    """What one listing of a ledger shows."""

    settled: int
    """The number up to which runs say all."""
    runs: tuple[RunName, ...]
    open: tuple[int, ...]
    """The numbers of the entries above that, in order."""

    @property
    def next(self) -> int:
        return max(self.settled, *self.open, 0) + 1

    @property
    def lost(self) -> tuple[RunName, ...]:
        """Those that stand for lost runs."""
        return tuple(name for name in self.runs if name.is_lost)

    def is_certain(self, number: int) -> bool:
        """Whether what was taken under that number is known."""
        return not any(name.covers(number) for name in self.lost)


@dataclass
class Ledger:
    """The ledger of one pipeline; `store` is rooted at `_lakewarden/`."""

    store: ObjectStore
    pipeline_id: str
    _whole: dict[RunName, Records] = field(default_factory=dict)
    """Runs that were read whole; they never change."""

    def busy(self) -> Conflict:
        """The error of who looked at it so often."""
        return Conflict(f"the ledger of {self.pipeline_id} was changed by others {LOOKS} times meanwhile; try again")

    def looked(self, read: Callable[[LedgerView], T | None], look: Callable[[], LedgerView] | None = None) -> T:
        """What `read` finds by a view; by another, where it finds None, or what the view names was settled or merged since.

        Raises:
            Conflict: others changed the ledger at each look.
        """
        for _ in range(LOOKS):
            view = (look or self.look)()
            with suppress(Missing):
                if (found := read(view)) is not None:
                    return found
        raise self.busy()

    def look(self) -> LedgerView:
        home = f"{ROOT}/{self.pipeline_id}"
        names: list[RunName] = []
        numbers: list[int] = []
        for key in self.store.keys(home):
            kind, _, name = key.removeprefix(f"{home}/").partition("/")
            if kind == _RUNS:
                names.append(RunName.parse(name))
            elif kind == _ENTRIES:
                numbers.append(int(name))
        settled = max((name.last for name in names), default=0)
        # Merged runs are gone, and their records with them.
        self._whole = {name: rows for name, rows in self._whole.items() if name in names}
        return LedgerView(settled, tuple(names), tuple(sorted(number for number in numbers if number > settled)))

    def open_batch(self, view: LedgerView) -> ObjectBatch | None:
        """Returns the batch that is not settled, if there is one. Attempts at earlier batches may stand beside it.

        Raises:
            Missing: it was settled since the view.
            Corrupt: an entry cannot be read.
        """
        entries = map(self.entry, view.open)
        return next((entry for entry in entries if isinstance(entry, ObjectBatch)), None)

    def attempt(self, number: int, batch: ObjectBatch) -> Attempt | None:
        """Returns the attempt of that number, which counts for the batch; None where it is settled.

        Raises:
            Corrupt: the ledger has never heard of it.
        """
        with suppress(Missing):
            entry = self.entry(number)
            if isinstance(entry, Attempt) and entry.batch == batch.number:
                return entry
        # Looked at again: the entry may have been settled and removed since. Only a ledger that ends before the number is older
        # than its table.
        if self.look().settled < number:
            raise Corrupt(
                f"the table has what was taken under number {number}, which the ledger of {self.pipeline_id} lacks: it is older"
                " than its table; lakewarden repair goes on behind it"
            )
        return None

    def add(self, entry: Entry) -> bool:
        """Creates an entry durably; returns whether it counts. If not, another process was faster, or this one was paused."""
        key = self._entry(entry.number)
        try:
            self.store.create(key, encode(entry))
        except AlreadyThere:
            return False
        # The number was settled and its entry removed while this process slept: what it creates there is void.
        if self.look().settled >= entry.number:
            self.store.delete([key])
            return False
        return True

    def settle(self, batch: ObjectBatch, attempt: Attempt) -> None:
        """Makes what the attempt took known, and removes the entries up to it. Idempotent; call it when the attempt counts."""
        pairs = zip(batch.objects, attempt.taken, strict=True)
        # What was gone, or had changed, was not taken: it must be offered again.
        took = [(one.object.key, one.object.etag) for one, taken in pairs if taken.outcome != "left"]
        rows = ledger_runs.records_of(took, attempt.number)
        view = self.look()
        # From the last settled number on: numbers of attempts that died in between are covered too, so runs have no gap.
        if view.settled < attempt.number:
            # First the run, then the entries go: a crash in between leaves entries that the run makes void.
            self._keep(RunName(0, view.settled + 1, attempt.number, len(rows)), rows)
        self._tidy()

    def give_up(self, first: int, last: int) -> None:
        """Notes that what was taken under these numbers is not known any more, and removes the entries among them. Idempotent."""
        self._keep(RunName(ledger_runs.LOST, first, last, 0), ledger_runs.records_of((), 0))
        self._tidy()

    def pass_over(self, view: LedgerView) -> None:
        """Takes what was lost for new. Idempotent."""
        for name in view.lost:
            # First the run in its place: without one there would be a gap, which is a loss again.
            self._keep(replace(name, level=ledger_runs.PASSED), ledger_runs.records_of((), 0))
        self.store.delete([self._run(name) for name in view.lost])

    def known(self, view: LedgerView, keys: Sequence[str]) -> dict[str, KnownObject]:
        """What the ledger knows of these objects.

        Raises:
            Missing: runs were merged since the view: look again.
        """
        digests = {ledger_runs.digest(key): key for key in keys}
        found: dict[str, KnownObject] = {}
        for name in (name for name in view.runs if name.count):
            for one, known in self._look_up(name, list(digests)).items():
                key = digests[one]
                # Objects are taken again under a new ETag; the later number is what holds.
                found[key] = max(known, found.get(key, known), key=lambda known: known.number)
        if not view.lost:
            return found
        # An object that no certain run knows may be in the lost ones, with any ETag
        # (docs/decisions/0101-a-ledger-behind-its-tables.md).
        unknown = KnownObject(None, max(name.last for name in view.lost))
        certain = {key: known for key, known in found.items() if view.is_certain(known.number)}
        return {key: certain.get(key, unknown) for key in keys}

    def remember(self, objects: Sequence[tuple[str, str]], view: LedgerView) -> None:
        """Makes objects, as (key, ETag), known as taken, although nothing was taken of them. `view` has no open batch."""
        if not objects:
            return
        rows = ledger_runs.records_of(objects, view.next)
        self._keep(RunName(0, view.settled + 1, view.next, len(rows)), rows)
        self._tidy()

    def _look_up(self, name: RunName, digests: Sequence[tuple[int, int]]) -> dict[tuple[int, int], KnownObject]:
        if name in self._whole:
            return ledger_runs.found_in(self._whole[name], digests)
        if ledger_runs.is_read_whole(name, len(digests)):
            self._whole[name] = self._read(name)
            return ledger_runs.found_in(self._whole[name], digests)
        return ledger_runs.look_up(self.store, self._run(name), name, digests)

    def _read(self, name: RunName) -> Records:
        return ledger_runs.read_run(self.store, self._run(name), name)

    def _tidy(self) -> None:
        """Merges runs, and removes void entries and runs that a merged one covers."""
        for _ in range(_ATTEMPTS):
            view = self.look()
            self._remove_void(view)
            group = ledger_runs.to_merge(view.runs)
            if not group:
                return
            with suppress(Missing):  # another process merges them
                rows = ledger_runs.merged([self._whole[name] if name in self._whole else self._read(name) for name in group])
                # First the merged run: both together say the same as it alone, so a crash in between loses nothing.
                self._keep(RunName(group[0].level + 1, group[0].first, group[-1].last, len(rows)), rows)
                self.store.delete([self._run(name) for name in group])

    def _remove_void(self, view: LedgerView) -> None:
        void = [key for key in self.store.keys(f"{ROOT}/{self.pipeline_id}/{_ENTRIES}") if int(key[-20:]) <= view.settled]
        self.store.delete(void)

    def _keep(self, name: RunName, rows: Records) -> None:
        data = rows.astype(ledger_runs.RECORD).tobytes()  # NumPy joins arrays in the machine's own order of bytes
        with suppress(AlreadyThere):  # by another process: what it holds follows from its name
            self.store.create(self._run(name), data)

    def entry(self, number: int) -> Entry:
        """Raises:
        Missing, Corrupt: there is no such entry, or none that can be read.
        """
        key = self._entry(number)
        return decode(self.store.get(key), f"{self.store.uri}/{key}")

    def cut_off(self) -> list[RunName]:
        """The runs that do not have the records that their names say."""
        found = self.store.list(f"{ROOT}/{self.pipeline_id}/{_RUNS}")
        sizes = {RunName.parse(one.key.rpartition("/")[2]): one.size for one in found}
        return [name for name, size in sizes.items() if size != name.count * ledger_runs.RECORD.itemsize]

    def put_aside(self, names: Sequence[RunName]) -> None:
        """Moves runs to where they count no more."""
        for name in names:
            with suppress(Missing, AlreadyThere):
                # A copy first: a repair deletes nothing (docs/decisions/0021-repair.md).
                self.store.create(f"{ROOT}/{self.pipeline_id}/{_ASIDE}/{name}", self.store.get(self._run(name)))
        self.store.delete([self._run(name) for name in names])

    def _entry(self, number: int) -> str:
        return f"{ROOT}/{self.pipeline_id}/{_ENTRIES}/{number:020d}"

    def _run(self, name: RunName) -> str:
        return f"{ROOT}/{self.pipeline_id}/{_RUNS}/{name}"
