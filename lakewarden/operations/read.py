"""Reading one scope: cold rows alone, or hot and cold merged, each row once whatever commits meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from lakewarden.catalog.model import Table, TableSchema
from lakewarden.delta.bounds import Bound
from lakewarden.delta.rows import empty_rows, merged, read_rows
from lakewarden.delta.table import ScopeTable
from lakewarden.log.cache import HeaderCache
from lakewarden.log.drain import read_hot
from lakewarden.log.scope import LogScope
from lakewarden.log.stream import read_stream
from lakewarden.log.view import read_view
from lakewarden.report import ScopeTarget
from lakewarden.storage.objects import ObjectStore
from lakewarden.warehouse import Warehouse

Freshness = Literal["strong", "eventual"]


@dataclass(frozen=True)
class Wanted:
    """The part of a scope that is wanted. `columns`: the newest schema's, and `_seq` where it is wanted; None for all of
    them. `bounds`: rows outside of them may be left out, and need not be.
    """

    columns: tuple[str, ...] | None = None
    bounds: tuple[Bound, ...] = ()

    def with_key(self, schema: TableSchema) -> Wanted:
        """With the primary key, by which hot and cold rows are put together."""
        if self.columns is None:
            return self
        return replace(self, columns=tuple(dict.fromkeys((*self.columns, *schema.primary_key))))


EVERYTHING = Wanted()


class _ColdRows:
    """A snapshot of the scope's table, and the watermark of its log in it."""

    def __init__(self, target: ScopeTarget, wanted: Wanted) -> None:
        self._target = target
        self._wanted = wanted
        self._table = ScopeTable.open(target.location)

    def watermark(self) -> int | None:
        return None if self._table is None else self._table.watermark(self._target.app_id)

    def rows(self) -> pa.Table:
        columns = self._wanted.columns
        if self._table is None:
            none = empty_rows(self._target.schema)
            return none if columns is None else none.select(columns)
        return read_rows(self._table, self._target.schemas, columns, self._wanted.bounds)


def read_cold(target: ScopeTarget, wanted: Wanted = EVERYTHING) -> pa.Table:
    """The scope's Delta table as of its last flush: the newest schema's columns and `_seq`, or what is wanted of them."""
    return _ColdRows(target, wanted).rows()


def read_stream_scope(warehouse: Warehouse, table: Table, user: str) -> pa.Table:
    """The rows of a STREAM table's scope whose time is not over, in order: the newest schema's columns and `_seq`."""
    ttl = table.options.ttl_seconds
    assert ttl is not None, "a STREAM table has a TTL"
    return read_stream(warehouse.state, table.log_id, user, table.schemas, ttl, warehouse.clock(), warehouse.headers)


def read_strong(
    target: ScopeTarget, state: ObjectStore, log_id: str, headers: HeaderCache, wanted: Wanted = EVERYTHING
) -> pa.Table:
    """Hot and cold rows, one per key; tombstones hide. The key's columns come along where hot rows do.

    Raises:
        Conflict: flushes kept settling the rows while they were read.
    """
    return read_strong_upto(target, state, log_id, headers, wanted)[0]


def read_strong_upto(
    target: ScopeTarget, state: ObjectStore, log_id: str, headers: HeaderCache, wanted: Wanted = EVERYTHING
) -> tuple[pa.Table, int]:
    """The same, and the last possible `_seq` of what was read."""

    def look() -> LogScope:
        return LogScope.of(state, read_view(state, log_id, headers), target.scope.user or "", target.schemas)

    found = read_hot(look, lambda: _ColdRows(target, wanted.with_key(target.schema)))
    cold = found.cold.rows()
    return (cold if found.rows is None else merged(cold, found.rows, target.schema.primary_key)), found.end
