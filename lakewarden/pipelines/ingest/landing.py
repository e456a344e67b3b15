"""The commit of an attempt: all rows of a batch, in place of earlier rows of the same objects or keys, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.pipeline import OBJECT
from lakewarden.delta.reading.bounds import Bound
from lakewarden.delta.reading.keys import Keys
from lakewarden.operations.direct.value import DirectResult, Edit, Once
from lakewarden.table import TableClient

Stream = Callable[[], Iterator[pa.Table]]
"""Yields the rows of the batch, in order; may be called again."""


@dataclass(frozen=True)
class Landing:
    """One commit into the table of a pipeline."""

    client: TableClient
    rows: Stream
    replaced: Sequence[str]
    """Keys of objects whose earlier rows go."""
    once: Once

    def run(self) -> DirectResult:
        """Raises:
        Conflict, NotFound, StorageUnavailable: as a direct write; the same attempt can be made again.
        """
        direct, schema = self.client.direct, self.client.table.schema
        if schema.keyed:
            keys = _keys(schema, self.rows())
            decide, bounds = _by_key(schema, keys), _bounds(keys, schema)
            given = _last_of_each(schema, keys, self.rows())
            return direct.edit(decide, operation="MERGE", predicate="the same keys", bounds=bounds, added=given, once=self.once)
        if self.replaced:
            decide, bounds = _by_object(schema, self.replaced), [Bound(OBJECT, min(self.replaced), max(self.replaced))]
            given = self.rows()
            return direct.edit(
                decide, operation="MERGE", predicate="the same objects", bounds=bounds, added=given, once=self.once
            )
        return direct.append(self.rows(), once=self.once)


def _by_object(schema: TableSchema, replaced: Sequence[str]) -> Callable[[pa.Table], Edit]:
    keys = pa.array(sorted(replaced), pa.string())
    return lambda there: _without(schema, there, pc.is_in(there.column(OBJECT), value_set=keys))


def _by_key(schema: TableSchema, keys: pa.Table) -> Callable[[pa.Table], Edit]:
    known = Keys(keys, schema.primary_key)
    return lambda there: _without(schema, there, pc.is_valid(known.places(there)))


def _without(schema: TableSchema, there: pa.Table, gone: Any) -> Edit:
    places = pc.indices_nonzero(gone).cast(pa.int64())
    return Edit(places, there.slice(0, 0).select(schema.names))


def _keys(schema: TableSchema, rows: Iterator[pa.Table]) -> pa.Table:
    """The keys of all rows, which stay in memory."""
    key = list(schema.primary_key)
    none = pa.table({name: pa.array([], column.type.arrow) for name in key if (column := schema.column(name))})
    return pa.concat_tables([none, *(batch.select(key) for batch in rows)])


def _last_of_each(schema: TableSchema, keys: pa.Table, rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Of the rows with the same key, the last: a later object of the batch, or a later row of it, wins."""
    numbered = keys.append_column("row: ", pa.array(np.arange(keys.num_rows)))
    last = numbered.group_by(list(schema.primary_key)).aggregate([("row: ", "max")]).column("row: _max")
    stays = np.zeros(keys.num_rows, np.bool_)
    stays[last.to_numpy()] = True
    at = 0
    for batch in rows:
        yield batch.filter(pa.array(stays[at : at + batch.num_rows]))
        at += batch.num_rows


def _bounds(keys: pa.Table, schema: TableSchema) -> list[Bound]:
    """Files without a key in this range are not read."""
    if not keys.num_rows:
        return []
    found = []
    for name in schema.primary_key:
        ends = pc.min_max(keys.column(name))
        low, high = ends["min"].as_py(), ends["max"].as_py()
        if isinstance(low, (int, str, date, datetime)) and not isinstance(low, bool):
            found.append(Bound(name, low, high))
    return found
