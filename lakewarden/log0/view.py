"""What lies in a log partition: whose rows are pending, how many, how old, and where to read them."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import TableSchema
from lakewarden.errors import Conflict, Corrupt
from lakewarden.log0 import layout
from lakewarden.log0.cut import Cut, newest_cut
from lakewarden.log0.position import end_of, seq_of
from lakewarden.log0.record import OP, SEQ, carry_schema, log_schema
from lakewarden.log0.segment import FIRST_READ, Chunk, Header, decode_header, decode_rows, header_size
from lakewarden.storage.objects import Missing, ObjectStore

_ATTEMPTS = 50
"""Looks at a log that changes under the reader; each lost one is a flush or an append that finished."""


class HeaderCache:
    """Headers by object name: names are never used twice for what counts, so a header never goes stale."""

    def __init__(self, size: int = 4096) -> None:
        self._size = size
        self._headers: OrderedDict[str, Header] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, store: ObjectStore, key: str) -> Header:
        """Raises:
        Missing: the object is gone.
        """
        with self._lock:
            if found := self._headers.get(key):
                self._headers.move_to_end(key)
                return found
        header = read_header(store, key)
        with self._lock:
            self._headers[key] = header
            while len(self._headers) > self._size:
                self._headers.popitem(last=False)
        return header


def read_header(store: ObjectStore, key: str) -> Header:
    start = store.get_range(key, 0, FIRST_READ)
    size = header_size(start, key)
    if size > len(start):
        start += store.get_range(key, len(start), size - len(start))
    return decode_header(start, key)


@dataclass(frozen=True)
class RowRange:
    """Where some rows of a scope lie. `position` is None in a carry, whose rows have their `_seq` with them."""

    key: str
    chunk: Chunk
    position: int | None

    @property
    def last_seq(self) -> int:
        if self.position is None:
            return self.chunk.last_seq
        return seq_of(self.position, self.chunk.ordinal + self.chunk.rows - 1)


@dataclass(frozen=True)
class PendingRows:
    """One scope's rows that are not settled, oldest first. `user` is empty for a SHARED table."""

    user: str
    ranges: tuple[RowRange, ...]

    @property
    def rows(self) -> int:
        return sum(one.chunk.rows for one in self.ranges)

    @property
    def bytes(self) -> int:
        return sum(one.chunk.length for one in self.ranges)

    @property
    def oldest(self) -> datetime:
        return datetime.fromtimestamp(min(one.chunk.stored_at for one in self.ranges) / 1_000_000, UTC)


@dataclass(frozen=True)
class LogView:
    """A partition at one moment. `position` is the end of the contiguous run of segments, `end` its last `_seq`."""

    log_id: str
    cut: Cut
    position: int
    pending: dict[str, PendingRows]
    sizes: dict[str, int]
    """Bytes of the live objects, by key: the segments above the cut, and its carry."""

    @property
    def end(self) -> int:
        return end_of(self.position)


def read_view(store: ObjectStore, log_id: str, cache: HeaderCache) -> LogView:
    """Looks until nothing changed in between.

    Raises:
        Corrupt: a segment is missing between others, for good.
    """
    fault = ""
    for _ in range(_ATTEMPTS):
        try:
            view = _look(store, log_id, cache)
        except Missing as error:
            fault = f"{error} vanished while it was read"
            continue
        if isinstance(view, LogView):
            return view
        fault = view
    raise Corrupt(f"the log {log_id} in {store.uri} can't be read: {fault}")


def read_views(store: ObjectStore, cache: HeaderCache) -> dict[str, LogView]:
    """Every partition that has an object, by one listing; what lies in it costs a little more."""
    logs = {entry.key.split("/")[1] for entry in store.list(layout.ROOT)}
    return {log_id: read_view(store, log_id, cache) for log_id in sorted(logs)}


def last_position(store: ObjectStore, log_id: str) -> int:
    """The highest position that was ever taken or cut; -1 where there is none."""
    taken = max((layout.number(entry.key) for entry in store.list(layout.segments(log_id))), default=-1)
    return max(taken, newest_cut(store, log_id).upto)


def _look(store: ObjectStore, log_id: str, cache: HeaderCache) -> LogView | str:
    """The view; or why the listing can't be used.

    Segments are listed before cuts: in the other order a cleanup in between would hide the rows that it carried over,
    and a segment that came too late could look alive.
    """
    found = {layout.number(entry.key): entry for entry in store.list(layout.segments(log_id))}
    cut = newest_cut(store, log_id)
    above = sorted(position for position in found if position > cut.upto)
    if above and above[-1] - above[0] + 1 != len(above) or above and above[0] != cut.upto + 1:
        return f"of the segments above {cut.upto} some are missing"
    sizes = {found[position].key: found[position].size for position in above}
    ranges = [RowRange(key, chunk, None) for key in cut.carry for chunk in cache.read(store, key).chunks]
    for position in above:
        key = found[position].key
        ranges += [RowRange(key, chunk, position) for chunk in cache.read(store, key).chunks]
    return LogView(log_id, cut, above[-1] if above else cut.upto, _pending(ranges, cut), sizes)


def _pending(ranges: Iterable[RowRange], cut: Cut) -> dict[str, PendingRows]:
    found: dict[str, list[RowRange]] = defaultdict(list)
    for one in ranges:
        if one.last_seq > cut.settled.get(one.chunk.user, -1):
            found[one.chunk.user].append(one)
    return {user: PendingRows(user, tuple(rows)) for user, rows in found.items()}


def rows_of(store: ObjectStore, pending: PendingRows, schemas: tuple[TableSchema, ...]) -> pa.Table:
    """The rows under the newest schema, with `_seq` and `_op`, in the order of `_seq`.

    Columns are matched by id; one that the rows' own schema version lacks is null.

    Raises:
        Missing: a cleanup came in between, so the rows are settled by now: start again.
    """
    parts = [_rows(store, one, schemas) for one in pending.ranges]
    rows = pa.concat_tables(parts) if len(parts) > 1 else parts[0]
    return rows if len(parts) == 1 else rows.sort_by(SEQ)


def after(rows: pa.Table, watermark: int | None) -> pa.Table:
    """Those above the watermark of their scope's Delta table."""
    return rows if watermark is None else rows.filter(pc.greater(rows[SEQ], watermark))


def _rows(store: ObjectStore, one: RowRange, schemas: tuple[TableSchema, ...]) -> pa.Table:
    chunk = one.chunk
    written = schemas[chunk.schema_version - 1]
    data = store.get_range(one.key, chunk.offset, chunk.length)
    if one.position is None:
        batch = decode_rows(data, carry_schema(written), one.key)
    else:
        first = seq_of(one.position, chunk.ordinal)
        batch = decode_rows(data, log_schema(written), one.key)
        batch = batch.append_column(SEQ, pa.array(range(first, first + chunk.rows), pa.int64()))
    return _under(pa.Table.from_batches([batch]), written, schemas[-1])


def _under(rows: pa.Table, written: TableSchema, newest: TableSchema) -> pa.Table:
    if written is newest:
        return rows.select([*newest.names, SEQ, OP])
    names = {column.id: column.name for column in written.columns}
    columns = {
        column.name: rows[names[column.id]].cast(column.type.arrow)
        if column.id in names
        else pa.chunked_array([pa.nulls(rows.num_rows, column.type.arrow)])
        for column in newest.columns
    }
    return pa.table({**columns, SEQ: rows[SEQ], OP: rows[OP]})
