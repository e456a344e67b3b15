"""Looks up the rows with some keys: of the log it reads the chunks that have them, of the table the files that may."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.reading.column_cache import ColdCache
from lakewarden.delta.reading.rows import matches, merged
from lakewarden.log.chunk import RowRange
from lakewarden.log.drain import read_hot
from lakewarden.log.pending_keys import Key, PendingKeys
from lakewarden.log.record import SEQ, decode
from lakewarden.log.table_log import LogReader
from lakewarden.log.view import LogView
from lakewarden.tables.reading.keys import HotKeys, key_bounds
from lakewarden.tables.reading.scope import ColdRows, Place, ReadSelection, where_it_lies


@dataclass(frozen=True)
class _HotRows:
    """The newest pending rows with some keys: a `HotScope`."""

    keys: HotKeys
    wanted: frozenset[Key]

    @property
    def end(self) -> int:
        return self.keys.end

    def rows(self) -> pa.Table:
        newest = self.keys.rows().newest
        seqs = sorted(newest[key][0] for key in self.wanted if key in newest)
        pending = self.keys.pending
        ranges = () if pending is None else tuple(each for each in pending.ranges if _has_any(each, seqs))
        rows = decode([self.keys.log.chunk(each) for each in ranges], ranges, self.keys.schemas)
        return rows.filter(pc.is_in(rows.column(SEQ), value_set=pa.array(seqs, pa.int64())))

    def later(self, rows: pa.Table, after: int) -> pa.Table | None:
        if not rows.num_rows:
            return None
        found = rows.filter(pc.greater(rows.column(SEQ), pa.scalar(after, pa.int64())))  # an expression would start threads
        return found if found.num_rows else None

    def again(self) -> _HotRows:
        return replace(self, keys=self.keys.again())


def _has_any(where: RowRange, seqs: Sequence[int]) -> bool:
    """Whether one of these, ascending, is of the chunk."""
    at = bisect_left(seqs, where.first_seq)
    return at < len(seqs) and seqs[at] <= where.last_seq


def live_rows(place: Place, log: LogReader, view: LogView, rows: pa.Table, known: PendingKeys, cache: ColdCache) -> pa.Table:
    """The live rows with the keys of `rows`: the columns of the newest schema, and `_seq`.

    Args:
        view: of the log; what is acknowledged later need not be seen.
        rows: with the columns of the primary key, of few rows.

    Raises:
        Conflict: flushes kept settling the rows while they were read.
    """

    def read(target: ScopeTarget) -> tuple[pa.Table, bool]:
        primary_key, user = target.schema.primary_key, target.scope.user or ""
        wanted = ReadSelection(bounds=key_bounds(primary_key, rows))
        keys = frozenset(zip(*(rows.column(name).to_pylist() for name in primary_key), strict=True))
        found = read_hot(
            lambda: _HotRows(HotKeys(log, view, user, target.schemas, known), keys),
            partial(ColdRows, target, wanted, cache),
        )
        cold = found.cold.rows()
        cold = cold.filter(matches(cold, rows, primary_key))
        return cold if found.rows is None else merged(cold, found.rows, primary_key), found.cold.sure

    return where_it_lies(place, read)
