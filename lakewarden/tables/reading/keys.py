"""Looks up keys in a scope: reads nothing but keys, of the log each once, and of the table those that may be equal."""

from __future__ import annotations

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
from lakewarden.delta.reading.rows import matches
from lakewarden.log.drain import read_hot
from lakewarden.log.pending_keys import Key, Newest, PendingKeys
from lakewarden.log.record import USER
from lakewarden.log.table_log import LogReader
from lakewarden.log.touches import Touched
from lakewarden.log.view import LogView, PendingRows
from lakewarden.tables.reading.scope import ColdRows, Place, ReadSelection, where_it_lies

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
