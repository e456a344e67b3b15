"""The log of a table that keeps before images: whatever is appended to it comes with the rows before it.

A write is behind what it read: where another one of the same keys came first, its images are taken again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from types import TracebackType
from typing import Generic, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.arrays import flags
from lakewarden.base.attempts import Attempts
from lakewarden.base.scope import Scope
from lakewarden.catalog.buckets import bucket_of
from lakewarden.catalog.model import Table, TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.reading.bounds import key_bounds
from lakewarden.delta.reading.keys import Keys
from lakewarden.delta.reading.rows import empty_rows, rows_before
from lakewarden.errors import Conflict, LakewardenError, NotFound, SchemaChanged
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.once import Pieces, StagedPiece, Staging, WriterBatch
from lakewarden.log.position import NOTHING, Behind, Receipt, end_of, position_of
from lakewarden.log.record import BEFORE, USER, Batch, LogBatch, before_column, before_field, decode, log_schema
from lakewarden.log.table_log import TableLog
from lakewarden.log.touches import Touched
from lakewarden.storage.objects import Missing
from lakewarden.tables.keys.lookup import FEW_KEYS, live_rows, rows_with, touched_by
from lakewarden.tables.keys.seen_keys import SeenKeys
from lakewarden.tables.strong_read import ReadSelection, use_live
from lakewarden.tables.warehouse import Warehouse, find_table


# Takes the row before each row of a write: the live one with its key, or the one before it in the same write.
@dataclass(frozen=True)
class Images:
    """Of a SHARED table."""

    warehouse: Warehouse
    table: Table

    def newest(self) -> Table:
        """The table as the catalog has it now.

        Raises:
            NotFound: it was dropped.
        """
        table = find_table(self.warehouse.catalog.read(), self.table.name)
        if table.id != self.table.id:
            raise NotFound(f"table {table.name} was dropped, and is another one now; open it again")
        return table

    def taken(self, batch: Batch, table: Table, view: LogView | None = None) -> LogBatch:
        """The batch with what is before its rows now, under the newest schema. The caller appends it behind the last position of
        the view, or the one that the log had before the call: then nothing came between.

        Args:
            table: as it is now.
            view: of the log, if there is one; what is acknowledged later need not be seen.

        Raises:
            Conflict: flushes kept settling the rows while they were read.
            SchemaChanged: the rows are not of the newest columns.
        """
        check_newest(table, batch.schema_version)
        return with_before(LogBatch(batch.schema_version, batch.rows), self._live(batch.rows, table, view), table.schema)

    def _live(self, rows: pa.Table, table: Table, view: LogView | None) -> pa.Table:
        place = partial(self.place, table)
        primary_key, log, cold = table.schema.primary_key, self.warehouse.log(table), self.warehouse.cold
        if rows.num_rows <= FEW_KEYS:
            return live_rows(place, log, view or log.view(("",)), rows, self.warehouse.pending_keys, cold)
        wanted = ReadSelection(bounds=key_bounds(primary_key, rows))
        return use_live(place, log, wanted, cold, rows_with(Keys(rows, primary_key)))

    def place(self, table: Table) -> ScopeTarget:
        target = self.warehouse.target(self.warehouse.catalog.read(), Scope(table.name, None))
        return replace(target, schemas=table.schemas)


def check_newest(table: Table, *versions: int) -> None:
    """Raises SchemaChanged: rows of these schema versions are not all of the newest columns."""
    if any(version != table.schema.version for version in versions):
        raise SchemaChanged(f"the columns of {table.name} were changed since the rows were made; nothing was written, try again")


def with_before(batch: LogBatch, live: pa.Table, schema: TableSchema) -> LogBatch:
    """The batch with the rows before its own.

    Args:
        live: as in `rows_before`.
        schema: the batch's.
    """
    before = rows_before(live, batch.rows, schema.primary_key)
    column = before_column(schema, before.aligned, flags(before.was))
    return LogBatch(schema.version, batch.rows.append_column(before_field(schema), column))


def inserted(batch: Batch, schema: TableSchema) -> LogBatch:
    """The batch with the rows before its own, where no live row has a key of it."""
    return with_before(LogBatch(batch.schema_version, batch.rows), empty_rows(schema), schema)


# What was made from the live rows of some keys, for as long as no other write has one of these keys.
T = TypeVar("T")

_MOST = 1000
"""Positions in between whose rows are compared; after more, it is made again."""


@dataclass(frozen=True)
class _Held(Generic[T]):
    position: int
    version: int
    """Of the schema."""
    value: T
    keys: SeenKeys


class Current(Generic[T]):
    """A context. Without it, a write of many rows would read again for every small one of others that comes while it reads."""

    def __init__(self, images: Images, make: Callable[[Table, SeenKeys], T]) -> None:
        """
        Args:
            make: looks up live rows of the table, as it is now, and adds the keys that it looks up.
        """
        self._images = images
        self._make = make
        self._held: _Held[T] | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.close()

    def at(self, position: int) -> T:
        """Returns what holds at a position, the last one that the log had before the call.

        Raises:
            Conflict: flushes kept settling the rows while they were read.
        """
        table, held = self._images.newest(), self._held
        if held is None or held.version != table.schema.version or self._is_touched(held, table, position):
            self._open.close()
            keys = self._open.enter_context(SeenKeys(table.schema.primary_key))
            held = _Held(position, table.schema.version, self._make(table, keys), keys)
        self._held = replace(held, position=position)
        return held.value

    def _is_touched(self, held: _Held[T], table: Table, position: int) -> bool:
        """Whether one of the keys was written since; also where that cannot be known from the log alone.

        By the log's trail, which keeps what flushes settle: a view (`LogView.since`) ends at the first flush under a long write.
        """
        after, between = end_of(held.position), range(held.position + 1, position + 1)
        if len(between) > _MOST:
            return True
        log = self._images.warehouse.log(table)
        trail = log.trail(after, ("",))
        ranges = [each for each in trail.ranges("", after) if position_of(each.first_seq) <= position]
        if not trail.complete_after(after) or {position_of(each.first_seq) for each in ranges} != set(between):
            return True  # a write past the log takes a position without rows
        try:
            rows = decode([log.chunk(each) for each in ranges], ranges, table.schemas)
        except Missing:
            return True
        return held.keys.first_of([rows]) is not None


_PART_BYTES = 64 << 20
"""Of rows in the log whose images are taken together."""


@dataclass(frozen=True)
class ImagedLog:
    """An `Appending`."""

    log: TableLog
    images: Images
    wait: Callable[[ScopeTarget, TableLog, LogView], None]
    """Waits for the overwrites that have a position of the view and are about to commit."""

    def ready(self, view: LogView) -> None:
        if self.log.is_held(view):
            self.wait(self.images.place(self.images.newest()), self.log, view)

    def append(self, batch: Batch, after: int | None = None, keys: Touched | None = None) -> Receipt:
        if batch.rows.nbytes > _PART_BYTES and batch.rows.num_rows > 1:
            parts = -(-batch.rows.nbytes // _PART_BYTES)
            step = -(-batch.rows.num_rows // parts)
            starts = range(0, batch.rows.num_rows, step)
            return self.append_whole((LogBatch(batch.schema_version, batch.rows.slice(at, step)) for at in starts), after)
        if after is not None:
            self.ready(self.log.view(("",)))
            made = batch if BEFORE in batch.rows.column_names else self.images.taken(batch, self.images.newest())
            return self.log.append(made, after, keys)
        return self._append(batch)

    def _append(self, batch: Batch) -> Receipt:
        view: LogView

        def taken(table: Table, keys: SeenKeys) -> LogBatch:
            made = self.images.taken(batch, table, view)
            keys.add(made.rows)
            return made

        touched = touched_by(self.images.table.schema, batch.rows)
        with Current(self.images, taken) as current:
            # appends of others that a call lets pass; only those of the same keys cost it another look
            attempts = Attempts(1000, f"{self.images.table.name} was written to", "in between")
            while attempts.next():
                with self.log.turn(None) if touched is None else self.log.announced():
                    view = self.log.view(("",))
                    self.ready(view)
                    position = position_of(view.end)
                    made = current.at(position)
                    with suppress(Conflict):
                        return self.log.append(made, position, touched)

    def append_whole(self, batches: Iterable[LogBatch], after: int | Behind | None = None) -> Receipt:
        given = iter(batches)
        first = list(islice(given, 2))
        if len(first) < 2 and not callable(after):
            return self.append(first[0], after) if first and first[0].rows.num_rows else Receipt(0, NOTHING)
        staging = self.log.begin_batch()
        try:
            pieces = [piece for batch in chain(first, given) for piece in self.log.stage(staging, batch)]
            receipt = self._publish(staging, pieces, None, after) if pieces else None
        except LakewardenError:
            with suppress(LakewardenError):  # what stays here is removed when it is abandoned
                self.log.take_position()  # which a put whose answer was lost may still be on its way to
                self.log.abandon(staging)
            raise
        if not pieces:
            self.log.abandon(staging)
        return receipt or Receipt(0, NOTHING)

    def append_once(self, batch: LogBatch, once: WriterBatch) -> Receipt | None:
        staging = self.log.begin_batch()
        return self.publish(staging, self.log.stage(staging, batch), once)

    def publish(self, staging: Staging, pieces: Pieces, once: WriterBatch | None = None) -> Receipt | None:
        assert not callable(pieces), "rows that were staged"
        return self._publish(staging, pieces, once, None)

    def _publish(
        self, staging: Staging, pieces: Sequence[StagedPiece], once: WriterBatch | None, after: int | Behind | None
    ) -> Receipt | None:
        batch = _StagedRows(self.log, self.images, staging, pieces)
        with Current(self.images, batch.taken) as current:

            def made(position: int) -> Sequence[StagedPiece]:
                self.ready(self.log.view(("",)))
                if callable(after):
                    after()
                elif after not in (None, position):
                    raise Conflict("another write came first; nothing was written")
                return current.at(position)

            return self.log.publish(staging, made, once)


class _StagedRows:
    """Rows that are staged, and staged again with their images: in parts by key, so that a key's rows are of one part."""

    def __init__(self, log: TableLog, images: Images, staging: Staging, pieces: Sequence[StagedPiece]) -> None:
        self._log = log
        self._images = images
        self._staging = staging
        self._pieces = pieces
        self._have_before = False

    def taken(self, table: Table, keys: SeenKeys) -> Sequence[StagedPiece]:
        """Stages the rows with their images; what was staged before is not needed any more."""
        check_newest(table, *(piece.schema_version for piece in self._pieces))
        parts = 1 + sum(piece.length for piece in self._pieces) // _PART_BYTES
        made: list[StagedPiece] = []
        for number in range(parts):
            rows = self._rows(table, number, parts)
            if rows.num_rows:
                keys.add(rows)
                made += self._log.stage(self._staging, self._images.taken(LogBatch(table.schema.version, rows), table))
        self._pieces, self._have_before = made, True
        return made

    def _rows(self, table: Table, number: int, parts: int) -> pa.Table:
        schemas = table.schemas if self._have_before else tuple(replace(each, keeps_before=False) for each in table.schemas)
        found = self._log.staged_rows(self._staging, self._pieces, schemas)
        key = table.schema.primary_key
        kept = [
            each if parts == 1 else each.filter(pc.equal(bucket_of(each, key, parts), pa.scalar(number, pa.int32())))
            for each in found
        ]
        rows = pa.concat_tables([log_schema(table.schema).empty_table(), *kept])
        return rows.append_column(USER, pa.chunked_array([pa.repeat("", rows.num_rows)]))
