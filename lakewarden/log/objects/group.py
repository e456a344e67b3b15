"""Groups calls into one segment: how much fits, and which conditional calls may share it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakewarden.base.setting_sections import LogSettings
from lakewarden.base.write_key import carried, carried_until, part_of
from lakewarden.errors import LakewardenError
from lakewarden.log.chunk import Chunk
from lakewarden.log.crowd import Crowd, names_in
from lakewarden.log.objects.header import NO_KEYS
from lakewarden.log.objects.staging import StagedBatch
from lakewarden.log.once import carried_token
from lakewarden.log.position import Receipt
from lakewarden.log.record import PlainRow, encoded
from lakewarden.log.touches import OwnPuts, Touched, apart, united


class Parcel(NamedTuple):
    """Rows for one segment: chunks, or a plain row. A tuple, because every write creates one."""

    schema_version: int
    chunks: Sequence[Chunk]
    rows: int
    chunk_bytes: int
    plain: PlainRow | None = None
    staged: StagedBatch | None = None
    """A batch of its own, in place of the chunks."""

    @classmethod
    def naming(cls, staged: StagedBatch) -> Parcel:
        return cls(staged.schema_version, (), staged.rows, 0, None, staged)

    @classmethod
    def of(cls, row: PlainRow) -> Parcel:
        return cls(row.schema_version, (), 1, 0, row)

    @property
    def bytes(self) -> int:
        """About as many as its rows take in a segment."""
        return self.chunk_bytes if self.plain is None else self.plain.size

    @property
    def users(self) -> frozenset[str]:
        if self.staged is not None:
            return self.staged.users
        return frozenset(names_in(self.chunks)) if self.plain is None else frozenset((self.plain.user,))

    @property
    def encoded(self) -> Sequence[Chunk]:
        plain = self.plain
        return self.chunks if plain is None else (Chunk(plain.user, 1, encoded(plain.schema, (plain.values,))),)


def parcels_of(schema_version: int, chunks: Sequence[Chunk], settings: LogSettings) -> list[Parcel]:
    """Chunks in as few segments as the limits allow, in order. A chunk is never split here."""
    if isinstance(chunks, Crowd):
        parts = chunks.portions(settings.segment_max_rows, settings.segment_max_bytes)
        return [Parcel(schema_version, part, part.rows, int(part.sizes.sum())) for part in parts]
    parcels: list[Parcel] = []
    start = rows = size = 0
    for index, chunk in enumerate(chunks):
        if index > start and not fits(rows + chunk.rows, size + len(chunk.data), settings):
            parcels.append(Parcel(schema_version, chunks[start:index], rows, size))
            start, rows, size = index, 0, 0
        rows += chunk.rows
        size += len(chunk.data)
    if chunks:
        parcels.append(Parcel(schema_version, chunks[start:], rows, size))
    return parcels


def laid_out(parcels: Sequence[Parcel]) -> tuple[Sequence[Chunk], list[int]]:
    """Returns the chunks of a segment for all of the parcels, and the ordinal of each parcel's last row.

    The plain rows of a user become one chunk, in the order of their parcels.
    """
    if len(parcels) == 1:
        return parcels[0].encoded, [parcels[0].rows - 1]
    chunks: list[Chunk] = []
    lasts = [0] * len(parcels)
    plain: dict[str, list[tuple[int, PlainRow]]] = {}
    rows = 0
    for index, parcel in enumerate(parcels):
        if parcel.plain is not None:
            plain.setdefault(parcel.plain.user, []).append((index, parcel.plain))
            continue
        chunks += parcel.chunks
        rows += parcel.rows
        lasts[index] = rows - 1
    # Plain rows come behind the chunks: their ordinals must be those of the bytes, as a reader numbers rows by the order of
    # chunks.
    for user, theirs in plain.items():
        chunks.append(Chunk(user, len(theirs), encoded(theirs[0][1].schema, [row.values for _, row in theirs])))
        for index, _ in theirs:
            rows += 1
            lasts[index] = rows - 1
    return chunks, lasts


def fits(rows: int, size: int, settings: LogSettings) -> bool:
    """Whether a segment takes this many rows, and bytes."""
    return rows <= settings.segment_max_rows and size <= settings.segment_max_bytes


@dataclass(eq=False)
class AppendCall:
    """A thread's rows on their way into the log."""

    parcels: Sequence[Parcel]
    after: int | None
    touched: Touched
    receipt: Receipt | None = None
    error: LakewardenError | None = None
    key: str = field(default_factory=carried)
    """As its segments carry it; empty for most."""
    until: float = field(default_factory=carried_until)
    """As `Segment.until`."""
    token: int | None = field(default_factory=carried_token)
    """As `Segment.token`: refused, it takes no call of others with it."""
    wake: threading.Lock = field(default_factory=threading.Lock)
    """Held until another thread has served the call, or hands the lead over to it. A lock costs a tenth of an event."""

    def keys(self, number: int = 0) -> Mapping[str, int]:
        """What the segment of one of its parcels carries for it."""
        return {part_of(self.key, number, len(self.parcels)): self.parcels[number].rows} if self.key else NO_KEYS

    @property
    def shares(self) -> bool:
        return len(self.parcels) == 1 and self.parcels[0].staged is None and self.token is None

    @property
    def over(self) -> bool:
        return self.receipt is not None or self.error is not None


class Group:
    """Calls that share a segment. `after` is where those come that are conditional."""

    def __init__(self, first: AppendCall, own: OwnPuts, settings: LogSettings) -> None:
        self._own = own
        self._settings = settings
        self._rows = first.parcels[0].rows
        self._bytes: int | None = None
        """None until a second call comes: most groups have one."""
        self.calls = [first]
        self.after = self._reached(first)
        self.touched = first.touched

    def takes(self, call: AppendCall) -> bool:
        """Whether the call goes with the others; then it is one of them."""
        first, parcel = self.calls[0], call.parcels[0]
        # A call of several segments, a staged batch and a fenced stream's call stand alone; a stream's refusal would take other
        # callers along.
        if not (first.shares and call.shares and self._goes_with(call)):
            return False
        before = first.parcels[0].bytes if self._bytes is None else self._bytes
        rows, size = self._rows + parcel.rows, before + parcel.bytes
        # A segment's header has one schema version for all of its rows.
        if not fits(rows, size, self._settings) or parcel.schema_version != first.parcels[0].schema_version:
            return False
        self._rows, self._bytes = rows, size
        self.calls.append(call)
        self.touched = united(self.touched, call.touched)
        return True

    def _goes_with(self, call: AppendCall) -> bool:
        # A conditional call may share a segment only with calls that change nothing of what it read, since all of them become
        # visible at once.
        return self._reached(call) == self.after and (self.after is None or apart(call.touched, self.touched))

    def _reached(self, call: AppendCall) -> int | None:
        return None if call.after is None else self._own.passed(call.after, call.touched)
