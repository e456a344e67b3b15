"""The commit of an attempt: all rows of a batch, in place of earlier rows of the same objects or keys, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import OBJECT, Table, TableSchema
from lakewarden.catalog.state.ledger import LOOKS, Attempt, ObjectBatch, ObjectFate
from lakewarden.delta.reading.bounds import Bound, key_bounds
from lakewarden.delta.reading.keys import Keys
from lakewarden.ingest.pipelines.context import CountingAttempt, IngestContext
from lakewarden.ingest.pipelines.fit import FitResult
from lakewarden.ingest.pipelines.reading import ReadWith
from lakewarden.log.once import WriterBatch
from lakewarden.tables.client.direct import DirectWrites
from lakewarden.tables.direct.value import Decide, DirectResult, Edit, Given


def land(
    direct: DirectWrites,
    once: WriterBatch,
    given: Given,
    *,
    keys: Callable[[], pa.Table],
    replaceable: Sequence[str],
    replaced: Callable[[], Sequence[str]],
) -> DirectResult:
    """One commit into the table of a pipeline.

    Args:
        given: with a primary key, each key once.
        keys: those of all rows; it and `replaced` are called once `given` was read, or written by tasks.
        replaceable: keys of objects, among which those are whose earlier rows go.
        replaced: those.

    Raises:
        Conflict, NotFound, StorageUnavailable: as a direct write; the same attempt can be made again.
    """
    schema = direct.table.schema
    edit = partial(direct.edit, operation="MERGE", added=given, once=once)
    if schema.keyed:
        known = cache(lambda: Keys(keys(), schema.primary_key))
        # Files without a key in this range are not read.
        bounds = cache(lambda: key_bounds(schema.primary_key, known().rows))
        same = _leaving(schema, lambda there: pc.is_valid(known().places(there)))
        return edit(same, predicate="the same keys", bounds=bounds)
    if replaceable:
        gone = cache(lambda: pa.array(sorted(replaced()), pa.string()))
        same = _leaving(schema, lambda there: pc.is_in(there.column(OBJECT), value_set=gone()))
        return edit(same, predicate="the same objects", bounds=[Bound(OBJECT, min(replaceable), max(replaceable))])
    return direct.append(given, once=once)


def _leaving(schema: TableSchema, gone: Callable[[pa.Table], Any]) -> Decide:
    return lambda there: Edit.without(there, gone(there), schema.names)


def replaced_by(batch: ObjectBatch, found: Sequence[ObjectFate]) -> list[str]:
    """The objects whose earlier rows an attempt's replace: a new version that cannot be read leaves those of the old one."""
    pairs = zip(batch.objects, found, strict=True)
    return [offered.object.key for offered, taken in pairs if offered.replaces and taken.outcome == "ingested"]


def keys_of(schema: TableSchema, rows: Iterator[pa.Table]) -> pa.Table:
    """The keys of all rows, which stay in memory."""
    key = list(schema.primary_key)
    none = pa.table({name: pa.array([], column.type.arrow) for name in key if (column := schema.column(name))})
    return pa.concat_tables([none, *(batch.select(key) for batch in rows)])


def last_of_each(schema: TableSchema, keys: pa.Table, rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Of the rows with the same key, the last: a later object of the batch, or a later row of it, wins."""
    numbered = keys.append_column("row: ", pa.array(np.arange(keys.num_rows)))
    last = numbered.group_by(list(schema.primary_key)).aggregate([("row: ", "max")]).column("row: _max")
    stays = np.zeros(keys.num_rows, np.bool_)
    stays[last.to_numpy()] = True
    at = 0
    for batch in rows:
        yield batch.filter(pa.array(stays[at : at + batch.num_rows]))
        at += batch.num_rows


# An attempt at a batch by this process: its objects are read beside each other, its rows pass through.
@dataclass(frozen=True)
class Here:
    """Attempts in this process."""

    context: IngestContext
    read: ReadWith

    def attempted(self, batch: ObjectBatch) -> CountingAttempt | None:
        """Returns None where the batch is settled."""
        context = self.context
        with TemporaryDirectory(prefix="lakewarden-ingest-") as directory:
            reading = self.read(context.source, context.pipeline, batch.objects, Path(directory))
            before = context.table()
            fitted = context.fitting.fit(before, reading)
            context.reach("ingest:read")
            table = context.grow(before, fitted.table, batch)
            context.reach("ingest:grown")
            attempt = self._named(batch, fitted)
            context.reach("ingest:named")
            return None if attempt is None else self._commit(batch, attempt, table, fitted)

    def _named(self, batch: ObjectBatch, fitted: FitResult) -> Attempt | None:
        for _ in range(LOOKS):
            view = self.context.ledger.look()
            if view.settled >= batch.number:
                return None
            attempt = self.context.named(view.next, batch, tuple(fitted.taken))
            if attempt is not None:
                return attempt
        raise self.context.ledger.busy()

    def _commit(self, batch: ObjectBatch, attempt: Attempt, table: Table, fitted: FitResult) -> CountingAttempt:
        context = self.context
        if not table.schemas:
            return context.land_blank(batch, attempt)
        direct, once = context.direct(table), WriterBatch(context.pipeline.id, attempt.number, batch.number)

        def rows() -> Iterator[pa.Table]:
            for one in fitted.rows:
                yield from context.fitting.checked(table.schema, one)

        keys = keys_of(table.schema, rows() if table.schema.keyed else iter(()))
        given = last_of_each(table.schema, keys, rows()) if table.schema.keyed else rows()
        replaced = replaced_by(batch, attempt.taken)
        done = land(direct, once, given, keys=lambda: keys, replaceable=replaced, replaced=lambda: replaced)
        return context.landed_by(direct, attempt, done)
