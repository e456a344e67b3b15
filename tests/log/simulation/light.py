"""Rows in their cheapest form. Chunks are opaque to the protocol, so the simulation need not pay for Arrow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from lakewarden.errors import Corrupt
from lakewarden.log.chunk import Chunk, RowRange
from lakewarden.log.objects.cache import IN_HAND, HeaderCache
from lakewarden.log.objects.header import ID_BYTES, Header
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.objects.pack import SUM_BYTES
from lakewarden.log.objects.segment import read_carry, read_chunk, read_segment
from lakewarden.log.objects.view import make_durable, read_view
from lakewarden.log.view import PendingRows
from lakewarden.storage.objects import ObjectStore
from tests.log.simulation.stores import Row, SimObjects


def chunk_of(user: str, rows: list[Row]) -> Chunk:
    fields = ([row.id, row.key, row.value] + ([] if row.before is None else [row.before]) for row in rows)
    return Chunk(user, len(rows), json.dumps([*fields]).encode())


def rows_of_chunk(data: bytes, where: RowRange) -> list[Row]:
    try:
        found = enumerate(json.loads(data))
        return [Row(id_, key, value, where.first_seq + index, *before) for index, (id_, key, value, *before) in found]
    except ValueError as error:
        raise Corrupt(f"{where} cannot be read") from error


def rows_in(store: SimObjects, where: RowRange) -> list[Row]:
    """Raises `Missing`."""
    return rows_of_chunk(bytes(read_chunk(store, where)), where)


def header_of(objects: Mapping[str, bytes], key: str) -> Header:
    """Of a segment, a staged object or a carry object."""
    store = cast("ObjectStore", _Kept(objects))
    return read_segment(store, key, 0) if objects[key][6:7] == b"2" else read_carry(store, key)


def row_ids(objects: Mapping[str, bytes], key: str) -> frozenset[int]:
    """Of all rows in such an object, or that it names."""
    ranges = header_of(objects, key).ranges
    chunks = (objects[each.key][each.offset + ID_BYTES : each.offset + each.length - SUM_BYTES] for each in ranges)
    return frozenset(row[0] for chunk in chunks for row in json.loads(chunk))


@dataclass(frozen=True)
class _Kept:
    """A store that nothing happens to."""

    objects: Mapping[str, bytes]

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.objects[key][start : start + length]


@dataclass(frozen=True)
class SimScope:
    """A `HotScope`, as `lakewarden.log.drain.LogScope` is one in Arrow."""

    store: SimObjects
    log_id: str
    user: str
    end: int
    pending: PendingRows | None
    for_flush: bool = False

    @classmethod
    def of(cls, store: SimObjects, view: LogView, user: str, *, for_flush: bool = False) -> SimScope:
        return cls(store, view.log_id, user, view.end, view.pending.get(user), for_flush)

    def rows(self) -> list[Row]:
        ranges = self.pending.ranges if self.pending else ()
        keep = partial(IN_HAND.keep, self.store) if self.for_flush else None
        chunks = ((bytes(read_chunk(self.store, each, keep)), each) for each in ranges)
        return [row for data, each in chunks for row in rows_of_chunk(data, each)]

    def later(self, rows: list[Row], after: int) -> list[Row] | None:
        return [row for row in rows if row.seq > after] or None

    def again(self) -> SimScope:
        view = read_view(self.store, self.log_id, HeaderCache(), (self.user,))
        make_durable(self.store, view)
        return replace(self, end=view.end, pending=view.pending.get(self.user))
