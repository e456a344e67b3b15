"""The rows of one scope that a block has written and not committed: in memory, within a bound, and undone up to a mark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.arrays import numbers
from lakewarden.catalog.model import TableSchema
from lakewarden.delta.reading.keys import Key, key_values
from lakewarden.errors import Unsupported
from lakewarden.log.position import LAST_POSITION, seq_of
from lakewarden.log.record import BEFORE, DELETE, OP, SEQ, TARGET, UPSERT, USER, LogBatch, log_schema

FIRST = seq_of(LAST_POSITION, 0)
"""The `_seq` of the first row of a block, until its COMMIT gives it one: above every row of the log."""

_KEY_BYTES = 300
"""About what a key takes here besides its row."""

_MOST_PARTS = 64
"""Tables of single rows are joined when there are more."""


class BlockKey(NamedTuple):
    """What a block did to one key."""

    seq: int | None
    """Of the live row when the block first wrote the key; None where there was none."""
    live: bool
    """Whether the block leaves a row."""
    row: int
    """The number of the block's last row with the key."""


class Mark(NamedTuple):
    """How far a block had come."""

    rows: int
    bytes: int
    steps: int


class KeptRows:
    """Of a table with a primary key, or of a STREAM table, whose rows are told apart by their `_seq`."""

    def __init__(self, schema: TableSchema, most_bytes: int) -> None:
        self.bytes = 0
        self._schema = schema
        self._most_bytes = most_bytes
        self._parts: list[pa.Table] = []
        self._rows = 0
        self.keys: dict[Key, BlockKey] = {}
        self._steps: list[tuple[Key, BlockKey | None]] = []
        """What was known of each key before it was written, for `undo`."""

    @property
    def rows(self) -> int:
        """How many rows would be written."""
        return self._rows if self._schema.append_only else len(self.keys)

    def key_columns(self) -> pa.Table:
        """The keys that the block wrote, in the columns of the primary key."""
        return self._taken(kept.row for kept in self.keys.values()).select(self._schema.primary_key)

    def keep(self, rows: pa.Table, seqs: Callable[[Sequence[Key]], Sequence[int | None]]) -> None:
        """Takes rows of a `LogBatch`: all of them, or none.

        Args:
            seqs: the `_seq` of the live row with each of these keys; called once, for keys that are written first.

        Raises:
            Unsupported: the block would take more memory than it may.
            LakewardenError: what `seqs` raises.
        """
        given = rows.drop_columns([name for name in (USER, BEFORE) if name in rows.column_names])
        keyed = not self._schema.append_only
        size = self.bytes + given.nbytes + (_KEY_BYTES * given.num_rows if keyed else 0)
        if size > self._most_bytes:
            raise Unsupported(
                f"a block keeps up to {self._most_bytes:,} bytes of rows (sql.block_bytes), and with these it would have"
                f" {size:,}: none of them was kept; commit more often, or raise the bound"
            )
        if keyed:
            self._note(given, seqs)
        self._parts.append(given)
        self._rows, self.bytes = self._rows + given.num_rows, size
        if len(self._parts) > _MOST_PARTS:
            self._parts = [pa.concat_tables(self._parts).combine_chunks()]

    def _note(self, rows: pa.Table, seqs: Callable[[Sequence[Key]], Sequence[int | None]]) -> None:
        keys = key_values(rows, self._schema.primary_key)
        new = list(dict.fromkeys(key for key in keys if key not in self.keys))
        found = dict(zip(new, seqs(new) if new else (), strict=True))
        lives = (rows.column(OP).to_numpy() == UPSERT).tolist()
        for number, (key, live) in enumerate(zip(keys, lives, strict=True), self._rows):
            before = self.keys.get(key)
            self._steps.append((key, before))
            self.keys[key] = BlockKey(found[key] if before is None else before.seq, live, number)

    def mark(self) -> Mark:
        return Mark(self._rows, self.bytes, len(self._steps))

    def undo(self, mark: Mark) -> None:
        """Drops what came behind the mark."""
        while len(self._steps) > mark.steps:
            key, before = self._steps.pop()
            if before is None:
                del self.keys[key]
            else:
                self.keys[key] = before
        self._parts = [pa.concat_tables(self._parts).slice(0, mark.rows)] if mark.rows else []
        self._rows, self.bytes = mark.rows, mark.bytes

    def hot(self, keys: Iterable[Key] | None = None) -> pa.Table:
        """The rows as those of a log that is read: with `_seq`, the last one of each key; or those with some keys.

        Args:
            keys: all where none are given.
        """
        if self._schema.append_only:
            return self._numbered(range(self._rows))
        found = self.keys.values() if keys is None else (self.keys[key] for key in keys if key in self.keys)
        return self._numbered(kept.row for kept in found)

    def net(self, user: str) -> LogBatch:
        """What is to be written: the last row of each key, and of a stream what it did not remove again."""
        if self._schema.append_only:
            rows = self._lasting_of_stream()
        else:  # without keys that were not there before the block, and are not there behind it
            rows = self._taken(kept.row for kept in self.keys.values() if kept.live or kept.seq is not None)
        return LogBatch(self._schema.version, rows.append_column(USER, pa.chunked_array([pa.repeat(user, rows.num_rows)])))

    def _lasting_of_stream(self) -> pa.Table:
        rows = self.hot()
        gone = rows.column(TARGET).drop_null()
        deletes = pc.equal(rows.column(OP), pa.scalar(DELETE, pa.int8()))
        targets: Any = rows.column(TARGET)
        own = pc.fill_null(pc.greater_equal(targets, pa.scalar(FIRST, pa.int64())), False)
        undone = pc.is_in(rows.column(SEQ), value_set=gone)
        return rows.filter(pc.invert(pc.or_(pc.and_(deletes, own), undone))).drop_columns([SEQ])

    def _numbered(self, rows: Iterable[int]) -> pa.Table:
        places = list(rows)
        found = self._taken(places)
        seqs = pa.chunked_array([numbers(np.asarray(places, np.int64) + FIRST)])
        return found.add_column(found.schema.get_field_index(OP), SEQ, seqs)

    def _taken(self, places: Iterable[int]) -> pa.Table:
        chosen = np.fromiter(places, np.int64)
        if not self._parts:
            return log_schema(self._schema).empty_table()
        if len(self._parts) > 1:
            self._parts = [pa.concat_tables(self._parts).combine_chunks()]
        return self._parts[0].take(numbers(chosen))
