"""Looks up keys in a scope: reads nothing but keys, of the log each once, and of the table those that may be equal."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.reading.bounds import key_bounds
from lakewarden.delta.reading.column_cache import ColdCache
from lakewarden.delta.reading.keys import Key, Keys, key_values
from lakewarden.delta.reading.rows import matches, merged
from lakewarden.log.chunk import RowRange
from lakewarden.log.drain import read_hot
from lakewarden.log.log_reader import LogReader
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.record import SEQ, USER, decode
from lakewarden.log.touches import Touched
from lakewarden.log.view import PendingRows
from lakewarden.tables.keys.pending import Newest, PendingKeys
from lakewarden.tables.strong_read import ColdRows, Place, ReadSelection, where_it_lies

FEW_KEYS = 100
"""Rows of a write up to which each key counts by itself: its live row is looked up alone, and it is compared with concurrent
writes. For more, the live rows that may have one of the keys are gone through, and the write conflicts with all rows."""


@dataclass(frozen=True)
class _Hot:
    """The newest pending rows of some keys, as far as they are newer than the table."""

    newest: Newest
    after: int = -1

    def signs(self, rows: pa.Table, primary_key: Sequence[str]) -> list[bool | None]:
        """For each row, whether its key is live; None where the table decides."""
        if not self.newest:
            return [None] * rows.num_rows  # as for most rows that are many
        found = [self.newest.get(key, (-1, False)) for key in key_values(rows, primary_key)]
        return [live if seq > self.after else None for seq, live in found]


@dataclass(frozen=True)
class _Pending:
    """What two `HotScope`s (log.drain) look up."""

    log: LogReader
    view: LogView
    user: str
    schemas: tuple[TableSchema, ...]
    known: PendingKeys
    wanted: pa.Table
    """Rows with the keys that are looked up."""

    @property
    def end(self) -> int:
        return self.view.end

    @cached_property
    def pending(self) -> PendingRows | None:
        return self.view.pending_of((self.user,)).get(self.user)

    def newest(self) -> Newest:
        return self.known.of(self.log, self.pending, self.schemas, self.wanted) if self.pending else {}

    def again(self) -> Self:
        log = self.log.anew()
        view = log.view((self.user,))
        log.make_durable(view)
        return replace(self, view=view)


class HotKeys(_Pending):
    """Whether the keys are pending."""

    def rows(self) -> _Hot:
        return _Hot(self.newest())

    def later(self, rows: _Hot, after: int) -> _Hot:
        return _Hot(rows.newest, after)


def first_live(place: Place, log: LogReader, view: LogView, rows: pa.Table, known: PendingKeys, cache: ColdCache) -> Key | None:
    """Returns the first key of `rows` that a live row of the scope has; None where no live row has any.

    Args:
        view: of the log; what is acknowledged later need not be seen.
        rows: with the columns of the primary key.

    Raises:
        Conflict: flushes kept settling the rows while they were read.
    """

    def read(target: ScopeTarget) -> tuple[Key | None, bool]:
        primary_key = target.schema.primary_key
        wanted = ReadSelection(primary_key, key_bounds(primary_key, rows))
        hot = HotKeys(log, view, target.scope.user or "", target.schemas, known, rows)
        found = read_hot(lambda: hot, partial(ColdRows, target, wanted, cache))
        assert found.rows is not None, "a look-up returns its rows, however few"
        signs = found.rows.signs(rows, primary_key)
        if None in signs:
            there = _are_among(rows, found.cold.rows(), primary_key)
            signs = [in_table if sign is None else sign for sign, in_table in zip(signs, there, strict=True)]
        return key_values(rows.slice(signs.index(True), 1), primary_key)[0] if True in signs else None, found.cold.sure

    return where_it_lies(place, read)


def _are_among(rows: pa.Table, cold: pa.Table, primary_key: Sequence[str]) -> list[bool]:
    """For each row, whether one in the table has its key. Of the table's rows, which may be many, none is hashed."""
    same = cold.filter(matches(cold, rows, primary_key)) if cold.num_rows else cold
    return matches(rows, same, primary_key).to_pylist() if same.num_rows else [False] * rows.num_rows


def rows_with(keys: Keys, most_bytes: int | None = None) -> Callable[[Iterator[pa.Table]], pa.Table]:
    """For `use_live`: the live rows with these keys; or some of them, of more than `most_bytes`."""

    def found(parts: Iterator[pa.Table]) -> pa.Table:
        kept, size = list[pa.Table](), 0
        for part in parts:
            kept.append(part.filter(pc.is_valid(keys.places(part))))
            size += kept[-1].nbytes
            if most_bytes is not None and size > most_bytes:
                break
        return pa.concat_tables(kept)

    return found


def touched_by(schema: TableSchema, rows: pa.Table) -> Touched | None:
    """By user, the keys of a write's rows, where it touches no others; None where they are many."""
    if rows.num_rows > FEW_KEYS:
        return None
    found: dict[str, set[Key]] = {}
    for user, key in zip(rows.column(USER).to_pylist(), key_values(rows, schema.primary_key), strict=True):
        found.setdefault(str(user), set()).add(key)
    return {user: frozenset(keys) for user, keys in found.items()}


# Looks up the rows with some keys: of the log it reads the chunks that have them, of the table the files that may.
class _HotRows(_Pending):
    """The newest pending rows with the keys."""

    def rows(self) -> pa.Table:
        seqs = sorted(seq for seq, _ in self.newest().values())
        ranges = () if self.pending is None else tuple(each for each in self.pending.ranges if _has_any(each, seqs))
        rows = decode([self.log.chunk(each) for each in ranges], ranges, self.schemas)
        return rows.filter(pc.is_in(rows.column(SEQ), value_set=pa.array(seqs, pa.int64())))

    def later(self, rows: pa.Table, after: int) -> pa.Table | None:
        if not rows.num_rows:
            return None
        found = rows.filter(pc.greater(rows.column(SEQ), pa.scalar(after, pa.int64())))  # an expression would start threads
        return found if found.num_rows else None


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
        found = read_hot(
            lambda: _HotRows(log, view, user, target.schemas, known, rows),
            partial(ColdRows, target, wanted, cache),
        )
        cold = found.cold.rows()
        cold = cold.filter(matches(cold, rows, primary_key))
        return cold if found.rows is None else merged(cold, found.rows, primary_key), found.cold.sure

    return where_it_lies(place, read)
