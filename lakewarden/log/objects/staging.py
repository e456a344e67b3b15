"""Staged batches: rows that do not fit one segment, or that several processes bring, put outside the sequence of positions.

Their objects lie under `staged/<id>/`. They become visible together, by one segment whose put has the same id and which names
them: so all rows of the batch have one position, and a watermark, a cut or a restore is before or behind all of them. A batch
that no segment names is not part of the log. It goes when no process can name it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from lakewarden.base.clock import HELD_AT_MOST
from lakewarden.errors import InvalidArgument, SchemaChanged
from lakewarden.log.chunk import Chunk
from lakewarden.log.objects import names
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cut import LogCut, newest_cut
from lakewarden.log.objects.header import NO_KEYS, Header, short
from lakewarden.log.objects.pack import FIRST, LINKED, pack_naming, pack_segment
from lakewarden.log.objects.put import Segment
from lakewarden.log.objects.segment import own_segment, read_segment
from lakewarden.log.objects.view import read_view
from lakewarden.log.once import StagedPiece, Staging, WriterBatch
from lakewarden.log.position import WHOLE
from lakewarden.storage.objects import Missing, ObjectStore

_ABANDONED = 2 * HELD_AT_MOST
"""After so long by the store's clock, the process that staged a batch names it no more: it does so within `HELD_AT_MOST`."""


class StagedBatch(NamedTuple):
    """A batch that waits for its position. A tuple, as `Segment` is."""

    put_id: str
    schema_version: int
    stored_at: int
    pieces: tuple[StagedPiece, ...]
    since: int
    """As in `Segment`."""
    once: WriterBatch | None = None
    closed: tuple[str, ...] = ()
    """As in `Staging`."""
    whole: bool = True
    """Whether its objects are there still."""

    @classmethod
    def of(cls, staging: Staging, pieces: Sequence[StagedPiece], once: WriterBatch | None) -> StagedBatch:
        """Raises:
        SchemaChanged: the table's columns were changed while the rows were staged.
        InvalidArgument: a position cannot number this many rows.
        """
        versions = {each.schema_version for each in pieces} or {FIRST}
        if len(versions) > 1:
            raise SchemaChanged("the table's columns were changed while the rows were written: nothing was; write them again")
        staged = cls(staging.put_id, versions.pop(), staging.stored_at, tuple(pieces), staging.since, once, staging.closed)
        check_rows(staged.rows)
        return staged

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.pieces)

    @property
    def users(self) -> frozenset[str]:
        return frozenset(each.user for each in self.pieces)

    def segment(self, keys: Mapping[str, int] = NO_KEYS) -> Segment:
        """The segment that names it."""
        pack = partial(pack_naming, self.put_id, self.stored_at, self.pieces, self.once, keys=keys)
        version = self.schema_version if self.pieces else None
        return Segment(self.put_id, pack, self.users, self.rows, self.since, self.closed, version, whole=self.whole)


def begin(store: ObjectStore, log_id: str, put_id: str, stored_at: int) -> Staging:
    """Begins a batch."""
    # Before the first object is put: an erasure that takes a later position may have removed what is staged.
    listed = names.listing_of(log_id, store.keys(names.segments(log_id))).last_position
    cut = newest_cut(store, log_id)
    return Staging(put_id, stored_at, max(listed, cut.last_taken), cut.closed)


def check_rows(rows: int) -> None:
    """Raises InvalidArgument: a position cannot number this many rows."""
    if rows > WHOLE:
        raise InvalidArgument(f"more than {WHOLE} rows in one call: all become visible at once, and no more can; write less")


def put_object(
    store: ObjectStore, log_id: str, staging: Staging, number: int, schema_version: int, chunks: Sequence[Chunk]
) -> list[StagedPiece]:
    """Puts chunks as one object of a batch, durably.

    Raises:
        AlreadyThere: the batch has an object of that number.
        StorageUnavailable: the store failed.
    """
    key = names.staged_key(log_id, staging.put_id, number)
    # In format 2, which has no index: the segment that names the batch says where each chunk is.
    data = pack_segment(staging.put_id, schema_version, staging.stored_at, chunks, segment_format=LINKED)
    store.create(key, data)
    header = own_segment(key, 0, data)
    assert header is not None, "an object of format 2 has no index"
    return [StagedPiece(schema_version, each.user, number, each.rows, each.offset, each.length) for each in header.ranges]


def stage(
    store: ObjectStore, log_id: str, put_id: str, schema_version: int, stored_at: int, objects: Iterable[Sequence[Chunk]]
) -> StagedBatch:
    """Puts chunks of one user, durably, an object for each sequence, as they come.

    Raises:
        InvalidArgument: a position cannot number this many rows, or they are of several users.
        StorageUnavailable: the store failed.
        LakewardenError: what `objects` raises. After any error, what was put is not part of the log.
    """
    staging = begin(store, log_id, put_id, stored_at)
    pieces: list[StagedPiece] = []
    user: str | None = None
    rows = 0
    for number, chunks in enumerate(objects):
        user, rows = _one_user(chunks, user), rows + sum(chunk.rows for chunk in chunks)
        # While they come, and not at the end: a caller need not write 2^28 rows to learn that they are too many.
        check_rows(rows)
        pieces += put_object(store, log_id, staging, number, schema_version, chunks)
    return StagedBatch.of(staging, pieces, None)


def _one_user(chunks: Sequence[Chunk], before: str | None) -> str:
    users = {chunk.user for chunk in chunks} | ({before} if before is not None else set())
    if len(users) > 1:
        raise InvalidArgument("rows of several users in a call whose rows become visible at once: write each user's by itself")
    return users.pop()


def abandon(store: ObjectStore, log_id: str, put_id: str) -> None:
    """Removes what was put of a batch that no segment names, or will."""
    store.delete(store.keys(names.staged(log_id, put_id)))


def discard(store: ObjectStore, log_id: str, put_id: str) -> None:
    """Removes a batch whose call failed, unless a segment names it all the same."""
    view = read_view(store, log_id, HeaderCache(0), ())
    if not is_named(put_id, view.cut, view.run):
        abandon(store, log_id, put_id)


def remove_others(store: ObjectStore, log_id: str, put_id: str, pieces: Iterable[StagedPiece]) -> bool:
    """Removes objects of a batch that are not among these: tasks put them that were repeated. Whether these are there."""
    wanted = {names.staged_key(log_id, put_id, each.object) for each in pieces}
    there = store.keys(names.staged(log_id, put_id))
    store.delete([key for key in there if key not in wanted])
    return wanted.issubset(there)


def remove_abandoned(store: ObjectStore, log_id: str, unnamed: Iterable[str], now: datetime) -> None:
    """Removes those of the batches that are too old to be named.

    Args:
        unnamed: ids that no segment of some view names.
    """
    old = [put_id for put_id in unnamed if _age(store, log_id, put_id, now) >= _ABANDONED]
    if not old:
        return
    view = read_view(store, log_id, HeaderCache(0), ())  # behind the look at their age
    # A batch may have been named between the view and the look at its age; a named one is part of the log.
    for put_id in old:
        if not is_named(put_id, view.cut, view.run):
            store.delete(store.keys(names.staged(log_id, put_id)))


def remove_of(store: ObjectStore, log_id: str, user: str, unnamed: Iterable[str]) -> None:
    """Removes a closed user's batches that no segment names: none will, since the user's appends are refused."""
    for put_id in unnamed:
        keys = store.keys(names.staged(log_id, put_id))
        # All objects of the batch: it is published whole or not at all, and without the user's it never can be.
        if any(_holds(store, key, user) for key in keys):
            store.delete(keys)


def is_named(put_id: str, cut: LogCut, run: Sequence[Header]) -> bool:
    """Whether a segment of this view names the batch, or one did that is settled."""
    # Of settled puts, only as long as the cut remembers them (`REMEMBERED`).
    return put_id in {header.put_id for header in run} or short(put_id) in cut.taken


def _age(store: ObjectStore, log_id: str, put_id: str, now: datetime) -> timedelta:
    # By the youngest object: a batch whose tasks are still staging is not old.
    return min((now - found.modified for found in store.list(names.staged(log_id, put_id))), default=_ABANDONED)


def _holds(store: ObjectStore, key: str, user: str) -> bool:
    try:
        return bool(read_segment(store, key, 0).of({user}))
    except Missing:
        return False
