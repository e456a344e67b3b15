"""The changes of one scope: its rows of the log, and the rows that were live before them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import Table
from lakewarden.changes.normalize import Typed, appended_and_removed, kept, normalized, upserted
from lakewarden.changes.value import typed
from lakewarden.delta.reading.bounds import Bound
from lakewarden.delta.reading.rows import empty_rows, matches
from lakewarden.log.chunk import RowRange
from lakewarden.log.position import NOTHING
from lakewarden.log.record import DELETE, OP, SEQ, decode
from lakewarden.log.stream import is_over, undeleted
from lakewarden.log.view import Trail
from lakewarden.operations.reading.as_of import read_as_of
from lakewarden.operations.reading.keys import key_bounds
from lakewarden.operations.reading.scope import Place, where_it_lies
from lakewarden.target import ScopeTarget
from lakewarden.warehouse import Warehouse


class Behind(Exception):  # as `Missing`
    """A flush has taken rows that the trail does not know: read the trail again."""


@dataclass(frozen=True)
class ScopeReader:
    """Reads scopes of one table from one trail, which was read from the beginning.

    Its methods raise `Missing` and `Behind` where flushes went on since: read the trail again.
    """

    warehouse: Warehouse
    table: Table
    trail: Trail
    since: int = 0
    """As `ChangeFeed.since`."""

    def changes(self, user: str, place: Place, after: int, upto: int, *, images: bool) -> Typed:
        """The changes beyond `after`, up to `upto`.

        Raises:
            InvalidArgument: rows since `after` are no longer kept.
        """
        ranges = [each for each in self._ranges(user, after) if each.first_seq <= upto]
        return _without(
            [each for each in ranges if each.stored_at < self.since], self._changes(user, place, after, upto, ranges, images)
        )

    def _changes(self, user: str, place: Place, after: int, upto: int, ranges: Sequence[RowRange], images: bool) -> Typed:
        keeps = self.table.schema.keeps_before
        rows = self._decoded(ranges, with_before=keeps and images).filter((pc.field(SEQ) > after) & (pc.field(SEQ) <= upto))
        if keeps:
            return kept(rows) if images else upserted(rows)
        if self.table.type == "STREAM":
            removes = bool(pc.any(pc.equal(rows.column(OP), pa.scalar(DELETE, pa.int8()))).as_py())
            return appended_and_removed(self._earlier(user, after) if removes else rows.slice(0, 0), rows)
        key = self.table.schema.primary_key
        complete = self.trail.complete_after(after)
        if complete and not (images and rows.num_rows):
            return normalized(empty_rows(self.table.schema), rows, key) if images else upserted(rows)
        before = self.as_of(user, place, after, key_bounds(key, rows) if rows.num_rows else ())
        return normalized(before.filter(matches(before, rows, key)), rows, key) if images else upserted(rows)

    def as_of(self, user: str, place: Place, seq: int, bounds: Sequence[Bound] = ()) -> pa.Table:
        """The rows that were live then; those outside of the bounds may be missing."""
        if self.table.type == "STREAM":
            return undeleted(self._earlier(user, seq))
        mark = self.warehouse.erasures.mark(user)

        def read(target: ScopeTarget) -> tuple[pa.Table | None, bool]:
            return read_as_of(target, self.warehouse.log(self.table), self.trail, seq, mark, bounds)

        found = where_it_lies(place, read)
        if found is None:
            raise Behind
        return found

    def _earlier(self, user: str, upto: int) -> pa.Table:
        return self._decoded(self._ranges(user, NOTHING)).filter(pc.field(SEQ) <= upto)

    def _decoded(self, ranges: Sequence[RowRange], *, with_before: bool = False) -> pa.Table:
        log = self.warehouse.log(self.table)
        return decode([log.chunk(each) for each in ranges], ranges, self.table.schemas, with_before=with_before)

    def _ranges(self, user: str, after: int) -> tuple[RowRange, ...]:
        """Of a STREAM table those that have not expired."""
        ranges, ttl = self.trail.ranges(user, after), self.table.options.ttl_seconds
        if self.table.type != "STREAM" or ttl is None:
            return ranges
        now = self.warehouse.clock()
        return tuple(each for each in ranges if not is_over(each, ttl, now))


def _without(ranges: Sequence[RowRange], found: Typed) -> Typed:
    """Without the changes that the rows of these chunks made."""
    if not ranges:
        return found
    seqs = found.rows.column(SEQ).to_numpy()
    kept = np.ones(len(seqs), bool)
    for each in ranges:
        kept &= (seqs < each.first_seq) | (seqs > each.last_seq)
    return Typed(found.rows.filter(kept), found.types.filter(pa.array(kept)))


def shaped(found: Typed, schema: pa.Schema, user: str) -> pa.Table:
    """Changes in the form of `schema`."""
    return typed(found.rows, found.types, schema, user)
