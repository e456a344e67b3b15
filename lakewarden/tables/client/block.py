"""Writes of several statements to one scope of a table: kept here, seen by the block's own reads, and appended at one position.

A row that the block writes is compared at the end: its `_seq` must be the one that the block saw, or it must still be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.commit_metadata import carried, carrying
from lakewarden.catalog.model import Table
from lakewarden.delta.reading.bounds import key_bounds
from lakewarden.delta.reading.keys import Key, key_values
from lakewarden.delta.reading.rows import matches, merged, merged_parts
from lakewarden.errors import BeingErased, Conflict, NotFound, SchemaChanged, Unsupported
from lakewarden.log.appending import Appending
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.once import Pieces, Staging, WriterBatch
from lakewarden.log.position import NOTHING, Behind, Receipt
from lakewarden.log.record import SEQ, TARGET, Batch, LogBatch
from lakewarden.log.stream import undeleted
from lakewarden.log.table_log import TableLog
from lakewarden.log.touches import Touched
from lakewarden.tables.client.appending import Decision, DecisionRows, TableAppender, absent
from lakewarden.tables.client.kept_rows import KeptRows
from lakewarden.tables.client.reader import TableReader
from lakewarden.tables.freshness import Freshness
from lakewarden.tables.keys.lookup import FEW_KEYS, touched_by
from lakewarden.tables.strong_read import EVERYTHING, Place, ReadSelection
from lakewarden.tables.warehouse import Warehouse, find_table

T = TypeVar("T")


class TableBlock:
    """Of one user's scope, or of a SHARED table. For one thread at a time."""

    def __init__(self, reader: TableReader, user: str | None, most_bytes: int) -> None:
        """
        Args:
            reader: outside the block.
            most_bytes: that the rows may take in memory.
        """
        self.kept = KeptRows(reader.table.schema, most_bytes)
        self.user = user
        self.metadata = ""
        """What the writes carried last (`commit_metadata`)."""
        self._outside = reader
        self._removals = reader.log.view((user or "",)).removals

    @property
    def table(self) -> Table:
        return self._outside.table

    def reader(self, warehouse: Warehouse, table: Table, log: TableLog) -> TableReader:
        """Sees what the block wrote, and has it keep what is appended.

        Raises:
            Conflict: the table has other columns than the block's rows, or is another one of that name.
        """
        return BlockReader(warehouse, table, log, block=self)

    def commit(self) -> Receipt:
        """Appends what the block wrote, at one position of the log: all of it, or nothing.

        Raises:
            Conflict: a row that the block wrote was changed, added or removed by others since the block read it; the table was
                altered, or the user erased, since the block began. Nothing was written.
            StorageUnavailable: the store failed; the message says so if the rows may have been written anyway.
            NotFound, BeingErased, FailedPrecondition: as any write.
        """
        appender, batch = TableAppender(self._outside), self.kept.net(self.user or "")
        short = len(self.kept.keys) <= FEW_KEYS
        try:
            with carrying(carried() or self.metadata):
                return appender.behind(partial(self._decide, batch), appender.filing(self.user), (self.user or "",), short=short)
        except SchemaChanged as error:
            raise _altered(self.table) from error
        except NotFound as error:
            find_table(self._outside.warehouse.catalog.read(), self.table.name)  # raises, unless another has its name now
            raise _altered(self.table) from error

    def _decide(self, batch: LogBatch, view: LogView) -> Decision:
        self._check_not_erased(view)
        schema = self.table.schema
        if schema.append_only:
            return Decision(batch, DecisionRows((self.user or "",), lambda later: True))
        self._check_unchanged(view)
        return Decision(batch, absent(batch, schema, (self.user or "",)), touched_by(schema, batch.rows))

    def _check_not_erased(self, view: LogView) -> None:
        """What was written before an erasure may not come behind it. Of many erasures the log remembers the last ones, so any one
        counts."""
        if self.user is None:
            return
        if self._outside.warehouse.erasures.mark(self.user) in view.closed:
            raise BeingErased(frozenset({self.user}))
        if view.removals != self._removals:
            raise Conflict(f"rows of {self.table.name} were erased since the block began; nothing was written, run it again")

    def _check_unchanged(self, view: LogView) -> None:
        now = self.seqs(self._outside, self.kept.key_columns(), view)
        changed = next((key for key, kept in self.kept.keys.items() if now.get(key) != kept.seq), None)
        if changed is not None:
            key = dict(zip(self.table.schema.primary_key, changed, strict=True))
            raise Conflict(
                f"the row of {self.table.name} with the key {key} was written by others since the block read it; nothing of the"
                " block was written, run it again"
            )

    def seqs(self, reader: TableReader, keys: pa.Table, view: LogView | None = None) -> dict[Key, int | None]:
        """The `_seq` of the live rows with these keys.

        Args:
            reader: outside the block.
        """
        key = self.table.schema.primary_key
        wanted = ReadSelection((*key, SEQ), key_bounds(key, keys))
        if keys.num_rows <= FEW_KEYS:
            live = reader.with_keys(keys, wanted, self.user, view or reader.log.view((self.user or "",)))
        else:
            found = reader.scan_to_write(wanted, self.user)
            live = found.filter(matches(found, keys, key))
        return dict(zip(key_values(live, key), live.column(SEQ).to_pylist(), strict=True))


@dataclass(frozen=True)
class BlockReader(TableReader):
    """Reads what the block wrote as well; and notes what it finds beneath, which the block's next write is decided from."""

    block: TableBlock = field(kw_only=True)
    _found: list[pa.Table] = field(default_factory=list, init=False)
    """The keys and `_seq` of what the last look found outside the block."""

    def __post_init__(self) -> None:
        there = self.block.table
        if self.table.id != there.id or self.table.schema.version != there.schema.version:
            raise _altered(there)

    @cached_property
    def outside(self) -> TableReader:
        return TableReader(self.warehouse, self.table, self.log)

    @cached_property
    def appending(self) -> Appending:
        return _Keeping(self, self.outside.appending)

    def found(self, keys: Sequence[Key]) -> Sequence[int | None]:
        """The `_seq` with which the last look found these keys outside the block."""
        there: dict[Key, int | None] = {}
        for rows in self._found:
            there.update(zip(key_values(rows, self.table.schema.primary_key), rows.column(SEQ).to_pylist(), strict=True))
        return [there.get(key) for key in keys]

    def scan_to_write(self, wanted: ReadSelection, user: str | None) -> pa.Table:
        whole = wanted if wanted.columns is None else replace(wanted, columns=(*dict.fromkeys((*wanted.columns, SEQ)),))
        rows = self._over(self._scan_outside(partial(self._unaltered, user), whole, "strong"), note=True)
        return rows if wanted.columns is None else rows.select(wanted.columns)

    def _scan(self, place: Place, wanted: ReadSelection, freshness: Freshness) -> pa.Table:
        return self._over(self._scan_outside(place, wanted, freshness))

    def _scan_outside(self, place: Place, wanted: ReadSelection, freshness: Freshness) -> pa.Table:
        return super()._scan(place, wanted.with_key(self.table.schema), freshness)

    def _over(self, rows: pa.Table, *, note: bool = False) -> pa.Table:
        key = self.table.schema.primary_key
        if note:
            self._found[:] = [rows.select([*key, SEQ])]
        return merged(rows, hot, key) if (hot := self.block.kept.hot()).num_rows else rows

    def first_live(self, rows: pa.Table, user: str | None, view: LogView) -> Key | None:
        key, kept = self.table.schema.primary_key, self.block.kept.keys
        self._found.clear()
        keys = key_values(rows, key)
        own = next((each for each in keys if each in kept and kept[each].live), None)
        others = rows.filter(pa.array([each not in kept for each in keys], pa.bool_()))
        return own or (super().first_live(others, user, view) if others.num_rows else None)

    def with_keys(self, keys: pa.Table, wanted: ReadSelection, user: str | None, view: LogView) -> pa.Table:
        key = self.table.schema.primary_key
        rows = super().with_keys(keys, EVERYTHING, user, view)
        self._found[:] = [rows.select([*key, SEQ])]
        hot = self.block.kept.hot(dict.fromkeys(key_values(keys, key)))
        found = merged(rows, hot, key) if hot.num_rows else rows
        return found if wanted.columns is None else found.select(wanted.columns)

    def use_live(self, wanted: ReadSelection, user: str | None, use: Callable[[Iterator[pa.Table]], T]) -> T:
        hot, key = self.block.kept.hot(), self.table.schema.primary_key
        if not hot.num_rows:
            return super().use_live(wanted, user, use)
        return super().use_live(wanted.with_key(self.table.schema), user, lambda parts: use(merged_parts(parts, hot, key)))

    def stream(self, user: str | None, wanted: ReadSelection | None = None) -> pa.Table:
        rows, own = super().stream(user, wanted), self.block.kept.hot()
        if not own.num_rows:
            return rows
        kept = rows.filter(pc.invert(pc.is_in(rows.column(SEQ), value_set=own.column(TARGET).drop_null())))
        return pa.concat_tables([kept, undeleted(own).select(kept.column_names).cast(kept.schema)])


@dataclass(frozen=True)
class _Keeping:
    """An `Appending`: rows stay in the block. What was read before is noted there, and compared at COMMIT."""

    reader: BlockReader
    outside: Appending

    def ready(self, view: LogView) -> None:
        self.outside.ready(view)

    def append(self, batch: Batch, after: int | None = None, keys: Touched | None = None) -> Receipt:
        block = self.reader.block
        block.kept.keep(batch.rows, self._looked_up if after is None else self.reader.found)
        block.metadata = carried() or block.metadata
        return Receipt(batch.rows.num_rows, NOTHING)

    def _looked_up(self, keys: Sequence[Key]) -> Sequence[int | None]:
        """Of rows that were written without a look."""
        schema = self.reader.table.schema
        columns: Any = zip(*keys, strict=True)
        names = {column.name: column.type.arrow for column in schema.columns}
        given = pa.table(
            {name: pa.array(list(each), names[name]) for name, each in zip(schema.primary_key, columns, strict=True)}
        )
        found = self.reader.block.seqs(self.reader.outside, given)
        return [found.get(key) for key in keys]

    def append_whole(self, batches: Iterable[LogBatch], after: int | Behind | None = None) -> Receipt:
        raise Unsupported(
            f"the rows are more than a block keeps in memory (sql.block_bytes); nothing of them was kept: write them to"
            f" {self.reader.table.name} outside a block, where they become visible together as well"
        )

    def publish(self, staging: Staging, pieces: Pieces, once: WriterBatch | None = None) -> Receipt | None:
        raise Unsupported("a staged batch is published outside a block")

    def append_once(self, batch: LogBatch, once: WriterBatch) -> Receipt | None:
        raise Unsupported("a batch with an identity is appended outside a block")


def _altered(table: Table) -> Conflict:
    return Conflict(f"{table.name} was altered or replaced since the block wrote to it; nothing was written, run it again")
