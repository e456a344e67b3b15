"""A table, rows for its log, and a store that counts and fails on request."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar, cast

import pyarrow as pa

from lakewarden.base.clock import random_id, system_clock
from lakewarden.base.setting_sections import LogSettings
from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cuts.settle import CutTerms, settle
from lakewarden.log.objects.header import ID_BYTES
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.objects.pack import FIXED, CarriedChunk, sealed
from lakewarden.log.objects.put import WriterTerms
from lakewarden.log.objects.view import read_view, rows_of
from lakewarden.log.objects.writer import LogWriter
from lakewarden.log.record import UPSERT, LogBatch, log_batch
from lakewarden.storage.local import LocalObjects
from lakewarden.storage.objects import ObjectStore, StoredObject
from lakewarden.storage.sums import with_sum

T = TypeVar("T")

LOG = "0123456789abcdef"


def column(number: int, name: str, kind: str) -> SchemaColumn:
    return SchemaColumn(number, name, ColumnType.parse(kind), nullable=True, default=None)


NOTES = TableSchema(1, (column(1, "id", "BIGINT"), column(2, "text", "TEXT")), ("id",))


def notes(user: str, *ids: int) -> LogBatch:
    rows = pa.table({"id": pa.array(ids, pa.int64()), "text": [f"{user} {each}" for each in ids]})
    return log_batch(NOTES, rows, user, UPSERT)


def joined(*batches: LogBatch) -> LogBatch:
    return LogBatch(1, pa.concat_tables([batch.rows for batch in batches]))


class Store(LocalObjects):
    """A real directory; `before` and `after` are told of each call, and may raise."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.calls: Counter[str] = Counter()
        self.before: Callable[[str, str], None] = lambda call, key: None
        self.after: Callable[[str, str], None] = lambda call, key: None
        self.torn: Callable[[list[StoredObject]], list[StoredObject]] | None = None
        """What the next listing shows of what was there when it began."""

    def create(self, key: str, data: bytes) -> None:
        self._told("create", key, lambda: super(Store, self).create(key, data))

    def get(self, key: str) -> bytes:
        return self._told("get", key, lambda: super(Store, self).get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._told("get", key, lambda: super(Store, self).get_range(key, start, length))

    def list(self, prefix: str) -> list[StoredObject]:
        found = self._told("list", prefix, lambda: super(Store, self).list(prefix))
        torn, self.torn = self.torn, None
        return torn(found) if torn else found

    def keys(self, prefix: str = "") -> Sequence[str]:
        return [each.key for each in self.list(prefix)]

    def keys_after(self, prefix: str, key: str, following: Iterable[str] = ()) -> Sequence[str]:
        return ObjectStore.keys_after(self, prefix, key, following)

    def delete(self, keys: Iterable[str]) -> None:
        doomed = [*keys]
        self._told("delete", ",".join(doomed), lambda: super(Store, self).delete(doomed))

    def _told(self, call: str, key: str, done: Callable[[], T]) -> T:
        self.calls[call] += 1
        self.before(call, key)
        result = done()
        self.after(call, key)
        return result


def writer(store: LocalObjects, settings: LogSettings | None = None) -> LogWriter:
    return LogWriter.of(
        store, LOG, settings or LogSettings(), system_clock, random_id, str.upper, WriterTerms(pause=lambda seconds: None)
    )


def view_of(store: LocalObjects) -> LogView:
    return read_view(store, LOG, HeaderCache())


def pending_ids(store: LocalObjects, user: str) -> list[int]:
    pending = view_of(store).pending.get(user)
    return [] if pending is None else ids_of(rows_of(store, pending, (NOTES,)))


def ids_of(rows: pa.Table) -> list[int]:
    return cast("list[int]", rows.column("id").to_pylist())


def with_its_sum(chunk: CarriedChunk) -> CarriedChunk:
    """The chunk of these rows as it is carried."""
    return chunk._replace(data=sealed(memoryview(chunk.data)))


def resummed(data: bytes) -> bytes:
    """The bytes of a segment with the sum of its header as it is now: as if another release had written it so."""
    _, length, *_ = FIXED.unpack_from(data)
    front, header = data[: FIXED.size + ID_BYTES], data[FIXED.size + ID_BYTES : FIXED.size + ID_BYTES + length]
    summed = with_sum(re.sub(rb',"sum":"[0-9a-f]{8}"', b"", header.rstrip()), front)
    return front + summed.ljust(length) + data[len(front) + length :]


def settle_all(store: Store) -> None:
    view = view_of(store)
    settle(store, view, dict.fromkeys(view.pending, view.end), CutTerms(LogSettings(), random_id))
