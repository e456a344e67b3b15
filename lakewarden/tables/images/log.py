"""The log of a table that keeps before images: whatever is appended to it comes with the rows before it.

A write is behind what it read: where another one of the same keys came first, its images are taken again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.buckets import bucket_of
from lakewarden.catalog.model import Table, TableSchema
from lakewarden.errors import Conflict, LakewardenError
from lakewarden.log.once import WriterBatch
from lakewarden.log.plain import Batch
from lakewarden.log.position import NOTHING, position_of
from lakewarden.log.receipt import Receipt
from lakewarden.log.record import USER, LogBatch, log_schema
from lakewarden.log.staging import Pieces, StagedPiece, Staging
from lakewarden.log.table_log import Appending, Behind, TableLog
from lakewarden.log.touches import Touched
from lakewarden.log.view import LogView
from lakewarden.tables.direct.hold import wait_for_commit
from lakewarden.tables.images.current import Current
from lakewarden.tables.images.taking import Images, check_newest, has_before
from lakewarden.tables.reading.keys import touched_by
from lakewarden.tables.reading.seen_keys import SeenKeys
from lakewarden.tables.warehouse import Warehouse

_ATTEMPTS = 1000
"""Appends of others that a call lets pass; only those of the same keys cost it another look."""

_PART_BYTES = 64 << 20
"""Of rows in the log whose images are taken together."""


def appending(warehouse: Warehouse, table: Table, log: TableLog) -> Appending:
    """Where rows of the table go into its log."""
    return ImagedLog(log, Images(warehouse, table)) if table.schema.keeps_before else log


@dataclass(frozen=True)
class ImagedLog:
    """An `Appending`."""

    log: TableLog
    images: Images

    def ready(self, view: LogView) -> None:
        if self.log.is_held(view):
            wait_for_commit(self.images.warehouse, self.images.place(self.images.newest()), self.log, view)

    def append(self, batch: Batch, after: int | None = None, keys: Touched | None = None) -> Receipt:
        if batch.rows.nbytes > _PART_BYTES and batch.rows.num_rows > 1:
            parts = -(-batch.rows.nbytes // _PART_BYTES)
            step = -(-batch.rows.num_rows // parts)
            starts = range(0, batch.rows.num_rows, step)
            return self.append_whole((LogBatch(batch.schema_version, batch.rows.slice(at, step)) for at in starts), after)
        if after is not None:
            self.ready(self.log.view(("",)))
            return self.log.append(batch if has_before(batch) else self.images.taken(batch, self.images.newest()), after, keys)
        return self._append(batch)

    def _append(self, batch: Batch) -> Receipt:
        view: LogView

        def taken(table: Table, keys: SeenKeys) -> LogBatch:
            made = self.images.taken(batch, table, view)
            keys.add(made.rows)
            return made

        touched = touched_by(self.images.table.schema, batch.rows)
        with Current(self.images, taken) as current:
            for _ in range(_ATTEMPTS):
                with self.log.turn(None) if touched is None else self.log.announced():
                    view = self.log.view(("",))
                    self.ready(view)
                    position = position_of(view.end)
                    made = current.at(position)
                    with suppress(Conflict):
                        return self.log.append(made, position, touched)
        raise Conflict(f"{self.images.table.name} was written to {_ATTEMPTS} times in between; try again")

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
        schemas = table.schemas if self._have_before else _without_before(table.schemas)
        found = self._log.staged_rows(self._staging, self._pieces, schemas)
        key = table.schema.primary_key
        kept = [
            each if parts == 1 else each.filter(pc.equal(bucket_of(each, key, parts), pa.scalar(number, pa.int32())))
            for each in found
        ]
        rows = pa.concat_tables([log_schema(table.schema).empty_table(), *kept])
        return rows.append_column(USER, pa.chunked_array([pa.repeat("", rows.num_rows)]))


def _without_before(schemas: Sequence[TableSchema]) -> tuple[TableSchema, ...]:
    return tuple(replace(each, keeps_before=False) for each in schemas)
