"""One process's reader of one table's log, shared by its subscribers; each reads from its own `_seq` on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import pyarrow as pa

from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.state.processes import LiveQueries
from lakewarden.log.chunk import RowRange
from lakewarden.log.log_reader import LogReader
from lakewarden.log.objects.trail import Trail
from lakewarden.log.record import OP, SEQ, TARGET, UPSERT

_MAX_BYTES = 128 << 20
"""Limit on chunks kept for the slowest subscriber; beyond it, that subscriber reads them again."""

_GONE = 60.0
"""Seconds after which chunks are no longer kept for a subscriber that does not poll."""

Timer = Callable[[], float]
"""Seconds from some moment on, as `time.monotonic`."""


@dataclass(frozen=True)
class Glance:
    """What one look at the log showed."""

    trail: Trail
    killed: frozenset[str]
    """Ids of subscriptions that have to end."""


class Feed:
    """Safe for threads."""

    def __init__(self, log: LogReader, live: LiveQueries, timer: Timer) -> None:
        self._log = log
        self._live = live
        self._timer = timer
        self._lock = threading.Lock()
        self._delivered: dict[str, tuple[int, float]] = {}
        """Up to which `_seq` each subscriber has read, and when that was."""
        self._last: tuple[float, Glance] | None = None
        self._chunks: dict[int, memoryview] = {}
        """By the `_seq` of the first row."""

    def look(self, live_id: str, after: int, max_age: float) -> Glance:
        """What is newer than what a subscriber has, as of now, or as another subscriber saw it up to `max_age` seconds ago."""
        with self._lock:
            began, last = self._timer(), self._last
            self._delivered[live_id] = (after, began)
            here = [seq for seq, at in self._delivered.values() if began - at < _GONE]
            if len(here) == 1 or last is None or last[1].trail.after > after or began - last[0] >= max_age:
                trail = self._log.trail(min(here))
                self._last = last = (began, Glance(trail, self._live.killed(self._log.log_id)))
                self._chunks = {first: data for first, data in self._chunks.items() if first > min(here)}
            return last[1]

    def chunks(self, ranges: Sequence[RowRange]) -> list[memoryview]:
        """The chunks' rows, each read once for all subscribers.

        Raises:
            Missing: they were removed meanwhile; look again.
        """
        with self._lock:
            return [self._chunk(each) for each in ranges]

    def _chunk(self, where: RowRange) -> memoryview:
        data = self._chunks.get(where.first_seq)
        if data is None:
            data = self._log.chunk(where)
            if sum(map(len, self._chunks.values())) + len(data) <= _MAX_BYTES:
                self._chunks[where.first_seq] = data
        return data

    def stale(self) -> None:
        """Makes the next look read the log again."""
        with self._lock:
            self._last = None

    def leave(self, live_id: str) -> bool:
        """Removes a subscriber; returns whether it was the last."""
        with self._lock:
            self._delivered.pop(live_id, None)
            return not self._delivered


class Feeds:
    """The feeds of one open warehouse, by log. Safe for threads."""

    def __init__(self, live: LiveQueries, timer: Timer) -> None:
        self._make: Callable[[LogReader], Feed] = lambda log: Feed(log, live, timer)
        self._feeds: dict[str, Feed] = {}
        self._lock = threading.Lock()

    def of(self, log: LogReader) -> Feed:
        with self._lock:
            return self._feeds.get(log.log_id) or self._feeds.setdefault(log.log_id, self._make(log))

    def leave(self, log_id: str, live_id: str) -> None:
        with self._lock:
            if log_id in self._feeds and self._feeds[log_id].leave(live_id):
                del self._feeds[log_id]


# Turns rows of the log into events: what each does to the rows that a subscriber's query returns.
Kind = Literal["initial", "insert", "update", "delete"]
Row = Mapping[str, object]
Key = tuple[object, ...]


@dataclass(frozen=True)
class Event:
    """What happened to one row of a subscription's result.

    `row` has the columns of the query; of a `delete`, the primary key's, or `_seq` of the removed row where the table is
    a STREAM. `seq` is that of the write.
    """

    kind: Kind
    seq: int
    row: Row


class Fold:
    """Which rows the query returns, as of the last event."""

    def __init__(self) -> None:
        self._shown: set[Key] = set()

    def __len__(self) -> int:
        return len(self._shown)

    def begin(self, rows: pa.Table, schema: TableSchema, matched: Mapping[int, Row]) -> None:
        """Starts from the rows that were live then, and those of them that the query returns, by `_seq`."""
        keys = zip(_keys(rows, schema), _whole(rows, SEQ), strict=True)
        self._shown = {key for key, seq in keys if seq in matched}

    def events(self, rows: pa.Table, schema: TableSchema, matched: Mapping[int, Row]) -> Iterator[Event]:
        """Events of further rows of the log, in order (`log.record.decode`), of which the query returns `matched`."""
        targets: list[int | None] = rows.column(TARGET).to_pylist() if schema.append_only else [None] * rows.num_rows
        for key, seq, op, target in zip(_keys(rows, schema), _whole(rows, SEQ), _whole(rows, OP), targets, strict=True):
            if op != UPSERT:
                gone: Key = key if target is None else (target,)
                if gone in self._shown:
                    yield self._deleted(gone, seq, schema)
            elif seq in matched:
                yield Event("update" if key in self._shown else "insert", seq, matched[seq])
                self._shown.add(key)
            elif key in self._shown:
                yield self._deleted(key, seq, schema)

    def forget_before(self, seq: int) -> None:
        """Events of the rows of a STREAM table that have expired."""
        self._shown = {key for key in self._shown if isinstance(key[0], int) and key[0] >= seq}

    def _deleted(self, key: Key, seq: int, schema: TableSchema) -> Event:
        self._shown.discard(key)
        names = (SEQ,) if schema.append_only else schema.primary_key
        return Event("delete", seq, dict(zip(names, key, strict=True)))


def _keys(rows: pa.Table, schema: TableSchema) -> list[Key]:
    """What identifies a row: its primary key, or its `_seq` where rows are only appended, or have no key."""
    names = (SEQ,) if schema.append_only or not schema.primary_key else schema.primary_key
    return list(zip(*(rows.column(name).to_pylist() for name in names), strict=True))


def _whole(rows: pa.Table, name: str) -> list[int]:
    return cast("list[int]", rows.column(name).to_pylist())
