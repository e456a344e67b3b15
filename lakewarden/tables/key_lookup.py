"""Looks up keys in a scope: reads nothing but keys, of the log each once, and of the table those that may be equal."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.reading.bounds import Bound
from lakewarden.delta.reading.column_cache import ColdCache
from lakewarden.delta.reading.rows import matches, merged
from lakewarden.log.chunk import RowRange
from lakewarden.log.drain import read_hot
from lakewarden.log.log_reader import LogReader
from lakewarden.log.pending_keys import Key, Newest, PendingKeys
from lakewarden.log.record import SEQ, USER, decode
from lakewarden.log.touches import Touched
from lakewarden.log.view import LogView, PendingRows
from lakewarden.tables.strong_read import ColdRows, Place, ReadSelection, where_it_lies

_KEYS_KNOWN = 100
"""The most rows of a write whose keys are compared with concurrent ones; a larger one conflicts with all rows."""


@dataclass(frozen=True)
class _Hot:
    """The newest pending rows by key, as far as they are newer than the table."""

    newest: Newest
    after: int = -1

    def is_live(self, key: Key) -> bool | None:
        """None where the table decides."""
        seq, live = self.newest.get(key, (-1, False))
        return live if seq > self.after else None


@dataclass(frozen=True)
class HotKeys:
    """A `HotScope` (log.drain)."""

    log: LogReader
    view: LogView
    user: str
    schemas: tuple[TableSchema, ...]
    known: PendingKeys

    @property
    def end(self) -> int:
        return self.view.end

    @cached_property
    def pending(self) -> PendingRows | None:
        return self.view.pending_of((self.user,)).get(self.user)

    def rows(self) -> _Hot:
        return _Hot(self.known.of(self.log, self.pending, self.schemas) if self.pending else {})

    def later(self, rows: _Hot, after: int) -> _Hot:
        return _Hot(rows.newest, after)

    def again(self) -> HotKeys:
        log = self.log.anew()
        view = log.view((self.user,))
        log.make_durable(view)
        return replace(self, view=view)


def first_live(place: Place, log: LogReader, view: LogView, rows: pa.Table, known: PendingKeys, cache: ColdCache) -> Key | None:
    """Returns the first key of `rows` that a live row of the scope has; None where no live row has any.

    Args:
        view: of the log; what is acknowledged later need not be seen.
        rows: with the columns of the primary key, of few rows.

    Raises:
        Conflict: flushes kept settling the rows while they were read.
    """

    def read(target: ScopeTarget) -> tuple[Key | None, bool]:
        primary_key = target.schema.primary_key
        keys = list(zip(*(rows.column(name).to_pylist() for name in primary_key), strict=True))
        wanted = ReadSelection(primary_key, _bounds(primary_key, keys))
        hot = HotKeys(log, view, target.scope.user or "", target.schemas, known)
        found = read_hot(lambda: hot, partial(ColdRows, target, wanted, cache))
        assert found.rows is not None, "a look-up returns its rows, however few"
        signs = [found.rows.is_live(key) for key in keys]
        if None in signs:
            cold = found.cold.rows()
            in_table = matches(rows, cold, primary_key).to_pylist() if cold.num_rows else [False] * len(keys)
            signs = [there if sign is None else sign for sign, there in zip(signs, in_table, strict=True)]
        return next((key for key, sign in zip(keys, signs, strict=True) if sign), None), found.cold.sure

    return where_it_lies(place, read)


def _bounds(primary_key: Sequence[str], keys: Sequence[Key]) -> tuple[Bound, ...]:
    """Of columns of whole numbers and of text; between the least and the greatest value."""
    columns = zip(primary_key, zip(*keys, strict=True), strict=True)
    return tuple(Bound(name, min(values), max(values)) for name, values in columns if type(values[0]) in (int, str))


def key_bounds(primary_key: Sequence[str], rows: pa.Table) -> tuple[Bound, ...]:
    """Where rows with the keys of these may be."""
    return tuple(bound for name in primary_key if (bound := bound_of(name, rows.column(name))) is not None)


def bound_of(name: str, values: pa.ChunkedArray[Any]) -> Bound | None:
    """Where a column of whole numbers or of text may be equal to one of these; None for other values, and for none."""
    if not (pa.types.is_integer(values.type) or pa.types.is_string(values.type)):
        return None
    least = pc.min(values).as_py()
    return None if least is None else Bound(name, least, pc.max(values).as_py())


def touched_by(schema: TableSchema, rows: pa.Table) -> Touched | None:
    """By user, the keys of a write's rows, where it touches no others; None where they are many."""
    if rows.num_rows > _KEYS_KNOWN:
        return None
    found: dict[str, set[Key]] = {}
    columns = (rows.column(name).to_pylist() for name in schema.primary_key)
    for user, key in zip(rows.column(USER).to_pylist(), zip(*columns, strict=True), strict=True):
        found.setdefault(str(user), set()).add(key)
    return {user: frozenset(keys) for user, keys in found.items()}


# Looks up the rows with some keys: of the log it reads the chunks that have them, of the table the files that may.
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
