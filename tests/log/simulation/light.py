"""Rows in their cheapest form. Chunks are opaque to the protocol, so the simulation need not pay for Arrow."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from lakewarden.errors import Corrupt
from lakewarden.log.chunk import Chunk, RowRange
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.header import ID_BYTES
from lakewarden.log.objects.segment import read_chunk
from lakewarden.log.objects.view import LogView, make_durable, read_view
from lakewarden.log.view import PendingRows
from tests.log.simulation.stores import Row, SimObjects


def chunk_of(user: str, rows: list[Row]) -> Chunk:
    return Chunk(user, len(rows), json.dumps([[row.id, row.key, row.value] for row in rows]).encode())


def _rows(data: bytes, where: RowRange) -> list[Row]:
    try:
        return [Row(*(*fields, where.first_seq + index)) for index, fields in enumerate(json.loads(data))]
    except ValueError as error:
        raise Corrupt(f"{where} cannot be read") from error


def rows_in(store: SimObjects, where: RowRange) -> list[Row]:
    """Raises `Missing`."""
    return _rows(bytes(read_chunk(store, where)), where)


def row_ids(data: bytes) -> frozenset[int]:
    """Of all rows in a segment or carry object."""
    head = 48 if data[6:7] == b"2" else 32  # by the format
    header, end = json.JSONDecoder().raw_decode(data[head:].decode("latin-1"))
    at = head + end + (-(head + end) % 8)
    found: set[int] = set()
    for length in header["lengths"]:
        found.update(row[0] for row in json.loads(data[at + ID_BYTES : at + length]))
        at += length
    return frozenset(found)


@dataclass(frozen=True)
class SimScope:
    """A `HotScope`, as `lakewarden.log.scope.LogScope` is one in Arrow."""

    store: SimObjects
    log_id: str
    user: str
    end: int
    pending: PendingRows | None

    @classmethod
    def of(cls, store: SimObjects, view: LogView, user: str) -> SimScope:
        return cls(store, view.log_id, user, view.end, view.pending.get(user))

    def rows(self) -> list[Row]:
        ranges = self.pending.ranges if self.pending else ()
        return [row for each in ranges for row in rows_in(self.store, each)]

    def later(self, rows: list[Row], after: int) -> list[Row] | None:
        return [row for row in rows if row.seq > after] or None

    def again(self) -> SimScope:
        view = read_view(self.store, self.log_id, HeaderCache())
        make_durable(self.store, view)
        return replace(self, end=view.end, pending=view.pending.get(self.user))
