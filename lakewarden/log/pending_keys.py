"""The keys of scopes' pending rows, kept between look-ups, so that each chunk of the log is read once.

A chunk never changes. Those of a scope come in the order of the log, and leave it when they are settled or erased: then the keys
of what is left are read again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakewarden.base.recent import Recent
from lakewarden.catalog.model import TableSchema
from lakewarden.log.chunk import RowRange
from lakewarden.log.log_reader import LogReader
from lakewarden.log.record import OP, SEQ, UPSERT, decode
from lakewarden.log.view import PendingRows

Key = tuple[object, ...]

Newest = Mapping[Key, tuple[int, bool]]
"""By key, the `_seq` of the newest pending row, and whether it is an upsert."""

_SHARE = 4
"""A scope with more than this part of all the keys is not kept."""


@dataclass
class _Scope:
    schema: TableSchema
    ranges: tuple[RowRange, ...] = ()
    newest: dict[Key, tuple[int, bool]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, log: LogReader, ranges: tuple[RowRange, ...], schemas: tuple[TableSchema, ...]) -> None:
        """Adds the rows of further chunks. Raises as `LogReader.chunk` and `decode`; then it stays as it was."""
        if not ranges:
            return
        rows = decode([log.chunk(each) for each in ranges], ranges, schemas)
        keys = zip(*(rows.column(name).to_pylist() for name in self.schema.primary_key), strict=True)
        signs = zip(rows.column(SEQ).to_numpy().tolist(), (rows.column(OP).to_numpy() == UPSERT).tolist(), strict=True)
        self.newest.update(zip(keys, signs, strict=True))
        self.ranges += ranges


class PendingKeys:
    """Bounded by the number of keys; safe for threads."""

    def __init__(self, most: int = 100_000) -> None:
        self._scopes: Recent[tuple[str, str], _Scope] = Recent(most, _SHARE)
        """Some 200 bytes each: 20 MB at the default."""

    def of(self, log: LogReader, pending: PendingRows, schemas: tuple[TableSchema, ...]) -> Newest:
        """Returns the scope's keys as of a view's pending rows, or of a later view's.

        Raises:
            Missing: some of them were settled and cleaned up meanwhile; read the log again.
            Conflict: they have a schema version that is not among `schemas`.
        """
        scope = self._scope(log.log_id, pending, schemas[-1])
        with scope.lock:
            known = min(len(scope.ranges), len(pending.ranges))
            if scope.ranges[:known] != pending.ranges[:known]:
                scope.ranges, scope.newest = (), {}
                known = 0
            scope.read(log, pending.ranges[max(known, len(scope.ranges)) :], schemas)
            return scope.newest

    def _scope(self, log_id: str, pending: PendingRows, schema: TableSchema) -> _Scope:
        name = (log_id, pending.user)
        scope = self._scopes.get(name)
        if scope is None or scope.schema != schema:
            scope = _Scope(schema)
        self._scopes.put(name, scope, pending.rows)
        return scope
