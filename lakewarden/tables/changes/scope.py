"""The changes of scopes of one table: their rows of the log, and the rows that were live before them.

What is done for each scope costs more than its rows where they are few, so the scopes of a batch go together: their chunks are
read and decoded at once, and their changes are made by one comparison of keys. Only what was live is looked up scope by scope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewarden.catalog.model import Table
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import DELETED, INSERT, POSTIMAGE, PREIMAGE
from lakewarden.delta.reading.keys import Keys
from lakewarden.delta.reading.rows import empty_rows, rows_before, upserts
from lakewarden.log.chunk import RowRange
from lakewarden.log.objects.trail import Trail
from lakewarden.log.position import NOTHING
from lakewarden.log.record import DELETE, OP, SEQ, TARGET, UPSERT, USER, before_of, decode
from lakewarden.log.stream import undeleted
from lakewarden.tables.as_of import read_as_of
from lakewarden.tables.changes.value import unexpired
from lakewarden.tables.strong_read import Place, where_it_lies
from lakewarden.tables.warehouse import Warehouse

# Makes changes of rows of the log, with the rows before them: those that the log keeps, or else those that were live before.
#
# It keeps no state: what came before is read again, so each batch can be read again, and by another process.

_TYPES = (PREIMAGE, INSERT, POSTIMAGE, DELETED)
_BEFORE, _NEW, _AFTER, _GONE = range(4)

_Indices = NDArray[np.int64]


@dataclass(frozen=True)
class TypedChanges:
    """Rows with `_seq` of their change, and the type of each."""

    rows: pa.Table
    types: pa.Array[Any]


def normalized(live: pa.Table, rows: pa.Table, primary_key: Sequence[str]) -> TypedChanges:
    """The changes that rows of one scope's log make.

    Args:
        live: the rows that were live before; as in `rows_before`.
        rows: of the log (`log.record.decode`), ascending by `_seq`.
    """
    before = rows_before(live, rows, primary_key)
    return _changes(before.rows, rows, before.prior, before.was)


def kept(rows: pa.Table) -> TypedChanges:
    """The same of rows that come with those before them (`_before`)."""
    before, was = before_of(rows)
    both = pa.concat_tables([before, rows.select(before.column_names)])
    return _changes(both, rows, np.arange(rows.num_rows), was.to_numpy(zero_copy_only=False))


def inserted(rows: pa.Table) -> TypedChanges:
    """The same where nothing was live before, each key is written once, and none is deleted."""
    return TypedChanges(rows.drop_columns([OP]), pa.repeat(INSERT, rows.num_rows))


def upserted(rows: pa.Table) -> TypedChanges:
    """The same without before images: any write of a row is an `update_postimage`, and a delete has the primary key alone."""
    deleted = pc.equal(rows.column(OP), pa.scalar(DELETE, pa.int8()))
    types = pc.if_else(deleted, DELETED, POSTIMAGE).combine_chunks()
    return TypedChanges(rows.drop_columns([OP]), cast("pa.Array[Any]", types))


def appended_and_removed(before: pa.Table, rows: pa.Table) -> TypedChanges:
    """The changes of a STREAM table, whose rows are only appended, and deleted by their `_seq`.

    Args:
        before: earlier rows of its log.
        rows: ascending by `_seq`. The delete of a row that is in neither is not a change, nor is a second one.
    """
    both = pa.concat_tables([before, rows])
    ops, seqs = both.column(OP).to_numpy(), both.column(SEQ).to_numpy()
    targets = both.column(TARGET).fill_null(pa.scalar(-1)).to_numpy()
    deletes = np.flatnonzero(ops == DELETE)
    firsts = deletes[np.unique(targets[deletes], return_index=True)[1]]
    firsts = firsts[firsts >= before.num_rows]
    inserts = np.flatnonzero(ops == UPSERT)
    at = np.minimum(np.searchsorted(seqs[inserts], targets[firsts]), max(0, len(inserts) - 1))
    found = seqs[inserts][at] == targets[firsts] if len(inserts) else np.zeros(len(firsts), bool)
    added = inserts[inserts >= before.num_rows]
    columns = both.drop_columns([OP, SEQ, TARGET])
    gone = firsts[found]
    parts = ((added, added, _NEW), (inserts[at[found]], gone, _GONE))
    return _gathered(columns, rows.column(SEQ).to_numpy(), before.num_rows, parts)


def _changes(content: pa.Table, rows: pa.Table, prior: _Indices, was: NDArray[np.bool_]) -> TypedChanges:
    """
    Args:
        content: ends with the columns of these rows of the log.
        prior: for each of them, where in `content` the row before it is; any where there was none (`was`).
    """
    first = content.num_rows - rows.num_rows
    own = np.arange(first, content.num_rows)
    comes = rows.column(OP).to_numpy() == UPSERT
    updated = own[was & comes]
    parts = (
        (prior[was & comes], updated, _BEFORE),
        (own[~was & comes], own[~was & comes], _NEW),
        (updated, updated, _AFTER),
        (prior[was & ~comes], own[was & ~comes], _GONE),
    )
    return _gathered(content, rows.column(SEQ).to_numpy(), first, parts)


def _gathered(rows: pa.Table, seqs: NDArray[Any], first: int, parts: Sequence[tuple[_Indices, _Indices, int]]) -> TypedChanges:
    """For each part, which rows, and the rows of the log that changed them; in the order of these."""
    content = np.concatenate([which for which, _, _ in parts])
    cause = np.concatenate([by for _, by, _ in parts])
    kinds = np.concatenate([np.full(len(which), kind) for which, _, kind in parts])
    order = np.lexsort((kinds, cause))
    found = rows.take(pa.array(content[order])).append_column(SEQ, pa.array(seqs[cause[order] - first]))
    return TypedChanges(found, pa.array(_TYPES).take(pa.array(kinds[order])))


_OWNER = "_owner"
"""The number of a row's user among those of a batch."""


class Behind(Exception):  # as `Missing`
    """A flush has taken rows that the trail does not know: read the trail again."""


@dataclass(frozen=True)
class ScopeReader:
    """Reads scopes of one table from one trail, which was read from the beginning.

    Its methods raise `Missing` and `Behind` where flushes went on since: read the trail again.
    """

    warehouse: Warehouse
    table: Table
    place: Callable[[str], Place]
    trail: Trail
    since: int = 0
    """As `ChangeFeed.since`."""

    def changes(self, users: Sequence[str], after: int, upto: int, *, images: bool) -> TypedChanges:
        """The changes of these users beyond `after`, up to `upto`, with a column `_user`; user by user, and of each by `_seq`.

        Raises:
            InvalidArgument: rows since `after` are no longer kept.
        """
        self.trail.load(users)
        ranges = [[each for each in self._ranges(user, after) if each.first_seq <= upto] for user in users]
        every = [each for theirs in ranges for each in theirs]
        rows = self._decoded(every, with_before=self.table.schema.keeps_before and images).append_column(_OWNER, _owners(ranges))
        rows = rows.filter(_between(rows, after, upto)).combine_chunks()
        found = self._changes(users, rows, after, images=images)
        return _named(_without([each for each in every if each.stored_at < self.since], found), users)

    def _changes(self, users: Sequence[str], rows: pa.Table, after: int, *, images: bool) -> TypedChanges:
        if self.table.schema.keeps_before:
            found = kept(rows) if images else None
            return upserted(rows) if found is None else TypedChanges(_owned(found.rows, rows), found.types)
        scopes = list(zip(users, _apart(rows, len(users)), strict=True))
        if self.table.type == "STREAM":
            return _joined([self._of_stream(user, theirs, after) for user, theirs in scopes], rows)
        key = self.table.schema.primary_key
        complete = self.trail.complete_after(after)
        # Also without images, where the history is not complete: `as_of` raises if changes that were asked for are gone.
        looked = [(user, theirs) for user, theirs in scopes if not complete or (images and theirs.num_rows)]
        live = [_owned(self.as_of(user, after, theirs.select(key)), theirs) for user, theirs in looked]
        if not images:
            return upserted(rows)
        before = pa.concat_tables([each for each in live if each.num_rows] or [_owned(empty_rows(self.table.schema), rows)])
        key = key if len(users) == 1 else (_OWNER, *key)
        if not before.num_rows and upserts(rows) is rows and Keys(rows, key).are_distinct():
            return inserted(rows)
        return normalized(before, rows, key)

    def _of_stream(self, user: str, rows: pa.Table, after: int) -> TypedChanges:
        removes = bool(pc.any(pc.equal(rows.column(OP), pa.scalar(DELETE, pa.int8()))).as_py())
        earlier = self._earlier(user, after) if removes else rows.slice(0, 0).drop_columns([_OWNER])
        return appended_and_removed(_owned(earlier, rows), rows)

    def as_of(self, user: str, seq: int, keys: pa.Table | None = None) -> pa.Table:
        """The rows that were live then: all of them, or those with the keys of these rows."""
        if self.table.type == "STREAM":
            return undeleted(self._earlier(user, seq))
        mark = self.warehouse.erasures.mark(user)

        def read(target: ScopeTarget) -> tuple[pa.Table | None, bool]:
            return read_as_of(target, self.warehouse.log(self.table), self.trail, seq, mark, keys)

        found = where_it_lies(self.place(user), read)
        if found is None:
            raise Behind
        return found

    def _earlier(self, user: str, upto: int) -> pa.Table:
        rows = self._decoded(self._ranges(user, NOTHING))
        return rows.filter(_between(rows, NOTHING, upto))

    def _decoded(self, ranges: Sequence[RowRange], *, with_before: bool = False) -> pa.Table:
        return decode(self.warehouse.log(self.table).chunks(ranges), ranges, self.table.schemas, with_before=with_before)

    def _ranges(self, user: str, after: int) -> tuple[RowRange, ...]:
        return unexpired(self.table, self.trail.ranges(user, after), self.warehouse.clock)


def _owners(ranges: Sequence[Sequence[RowRange]]) -> pa.Array[Any]:
    """For each row of these chunks, the number of its user."""
    return pa.array(np.repeat(np.arange(len(ranges)), [sum(each.rows for each in theirs) for theirs in ranges]))


def _between(rows: pa.Table, after: int, upto: int) -> pa.Array[Any]:
    seqs = rows.column(SEQ).to_numpy()
    return pa.array((seqs > after) & (seqs <= upto))


def _apart(rows: pa.Table, users: int) -> Iterator[pa.Table]:
    """The rows of each user, which stand together."""
    counts = np.bincount(rows.column(_OWNER).to_numpy(), minlength=users).tolist()
    return (rows.slice(start, end - start) for start, end in pairwise(accumulate(counts, initial=0)))


def _owned(rows: pa.Table, like: pa.Table) -> pa.Table:
    """Rows with the number of the user whose others are."""
    number = like.column(_OWNER)[0] if like.num_rows else pa.scalar(0, pa.int64())
    return rows.append_column(_OWNER, pa.repeat(number, rows.num_rows))


def _joined(parts: Sequence[TypedChanges], like: pa.Table) -> TypedChanges:
    none = [like.slice(0, 0).select(parts[0].rows.column_names)] if parts else [like.slice(0, 0)]
    types: Any = pa.chunked_array([each.types for each in parts], pa.string()).combine_chunks()
    return TypedChanges(pa.concat_tables([*none, *(each.rows for each in parts)]), types)


def _without(ranges: Sequence[RowRange], found: TypedChanges) -> TypedChanges:
    """Without the changes that the rows of these chunks made."""
    if not ranges:
        return found
    seqs = found.rows.column(SEQ).to_numpy()
    firsts, lasts = _ends(sorted(ranges, key=lambda each: each.first_seq))
    at = np.searchsorted(firsts, seqs, side="right") - 1
    kept = pa.array((at < 0) | (seqs > lasts[at]))
    return TypedChanges(found.rows.filter(kept), found.types.filter(kept))


def _ends(ranges: Sequence[RowRange]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.array([each.first_seq for each in ranges]), np.array([each.last_seq for each in ranges])


def _named(found: TypedChanges, users: Sequence[str]) -> TypedChanges:
    """With the users' names in place of their numbers."""
    names = pa.array(users, pa.string()).take(found.rows.column(_OWNER).combine_chunks())
    return TypedChanges(found.rows.drop_columns([_OWNER]).append_column(USER, names), found.types)
