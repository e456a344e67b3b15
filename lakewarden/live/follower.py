"""One subscriber's way through a table's log: where it begins, and what comes next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.live import PING, LiveQueries, LiveQuery
from lakewarden.catalog.model import Table
from lakewarden.delta.rows import upserts
from lakewarden.errors import BeingErased, Conflict, Ended, InvalidArgument, NotFound
from lakewarden.live.feed import Feeds
from lakewarden.live.fold import Event, Fold, Row
from lakewarden.log.cut import Cut, newest_cut
from lakewarden.log.position import NOTHING, end_of
from lakewarden.log.record import SEQ, decode
from lakewarden.log.segment import RowRange, read_chunk
from lakewarden.log.stream import is_over, undeleted
from lakewarden.log.trail import Trail, read_trail
from lakewarden.operations.asof import read_as_of
from lakewarden.operations.read import read_strong_upto
from lakewarden.scope import Scope, TableName
from lakewarden.storage.objects import Missing
from lakewarden.warehouse import Warehouse, find_table

_ATTEMPTS = 20

Select = Callable[[Table, pa.Table], Mapping[int, Row]]
"""Which of some rows a query shows, and how, by `_seq`. Raises `PermissionDenied` for who may not read the table (any more)."""


@dataclass(frozen=True)
class Asked:
    """A subscription as it was asked for. `user` is None for a SHARED table."""

    table: TableName
    user: str | None
    query: str
    from_seq: int | None = None
    last_rows: int | None = None
    batch_rows: int = 10_000


class Follower:
    """Made by `begin`."""

    def __init__(self, warehouse: Warehouse, feeds: Feeds, asked: Asked, select: Select) -> None:
        table = find_table(warehouse.catalog.read(), asked.table)
        self._warehouse = warehouse
        self._feeds = feeds
        self._asked = asked
        self._select = select
        self._table_id = table.id
        self._user = asked.user or ""
        self._mark = warehouse.erasures.mark(self._user)
        self._fold = Fold()
        self._live = LiveQueries(warehouse.state)
        cut = newest_cut(warehouse.state, table.log_id)
        self._began = self._signs(cut)
        self._check_open(cut)
        self.place = NOTHING
        """Up to which `_seq` everything was told."""
        now = warehouse.clock()
        live_id = f"LQ-{warehouse.new_id()[:12]}"
        self._query = LiveQuery(live_id, table.log_id, str(asked.table), self._user, asked.query, asked.from_seq, now, now)

    @property
    def live_id(self) -> str:
        return self._query.live_id

    def begin(self) -> list[Event]:
        """The rows that the query shows, as `initial` events; none where it goes on from a `_seq`.

        Raises:
            InvalidArgument: a `from_seq` that is too old, and which works, or one that is still to come.
        """
        table = self._table()
        seq = self._asked.from_seq
        rows, self.place = self._stream_rows(table, seq) if table.type == "STREAM" else self._rows(table, seq)
        rows = _numbered(rows)
        matched = {each: row for part in self._parts(rows) for each, row in self._select(table, part).items()}
        self._fold.begin(rows, table.schema, matched)
        self._live.ping(self._query)
        if seq is not None:
            return []
        last = len(matched) if self._asked.last_rows is None else self._asked.last_rows
        first = sorted(matched)[max(0, len(matched) - last) :]
        return self._counted([Event("initial", max(each, NOTHING), matched[each]) for each in first])

    def next(self, max_age: float) -> list[Event]:
        """What has come since, as of a look no older than `max_age` seconds."""
        for _ in range(_ATTEMPTS):
            table = self._table()
            feed = self._feeds.of(table.log_id)
            glance = feed.look(self.live_id, self.place, max_age)
            if self.live_id in glance.killed:
                raise Ended(f"subscription {self.live_id} was killed")
            self._check(glance.trail, table)
            self._ping()
            ranges = self._ranges(table, glance.trail, self.place)
            try:
                rows = decode(feed.chunks(ranges), ranges, table.schemas)
            except (Missing, Conflict):  # cleaned meanwhile, or written under columns that are newer than what was looked up
                feed.stale()
                continue
            rows = rows.filter(pc.field(SEQ) > self.place)
            found = [event for part in self._parts(rows) for event in self._events(table, part)] if rows.num_rows else []
            self.place = max(self.place, glance.trail.end)
            return self._counted(found)
        raise Conflict(f"{self._asked.table} was settled {_ATTEMPTS} times while it was followed; poll again")

    def leave(self) -> None:
        self._feeds.leave(self._query.log_id, self.live_id)
        self._live.end(self._query)

    def _events(self, table: Table, rows: pa.Table) -> Iterator[Event]:
        yield from self._fold.events(rows, table.schema, self._select(table, upserts(rows)))

    def _parts(self, rows: pa.Table) -> Iterator[pa.Table]:
        """As many rows as are looked at at once; at least one part, so that the query is always tried."""
        for start in range(0, max(1, rows.num_rows), self._asked.batch_rows):
            yield rows.slice(start, self._asked.batch_rows)

    def _table(self) -> Table:
        table = find_table(self._warehouse.catalog.read(), self._asked.table)
        if table.id != self._table_id:
            raise NotFound(f"the table {table.name} that was subscribed to was dropped; this is another of the same name")
        return table

    # Where it begins

    def _rows(self, table: Table, seq: int | None) -> tuple[pa.Table, int]:
        warehouse = self._warehouse
        target = warehouse.target(warehouse.catalog.read(), Scope(table.name, self._asked.user))
        if seq is None:
            return read_strong_upto(target, warehouse.state, table.log_id, warehouse.headers)
        for _ in range(_ATTEMPTS):
            trail = self._trail(table, seq)
            try:
                rows = read_as_of(target, warehouse.state, trail, seq)
            except Missing:
                continue
            if rows is not None:
                return rows, seq
        raise Conflict(f"{table.name} was flushed {_ATTEMPTS} times while it was read; try again")

    def _stream_rows(self, table: Table, seq: int | None) -> tuple[pa.Table, int]:
        state = self._warehouse.state
        for _ in range(_ATTEMPTS):
            trail = self._trail(table, seq)
            ranges = self._ranges(table, trail, NOTHING)
            try:
                rows = decode([read_chunk(state, each) for each in ranges], ranges, table.schemas)
            except Missing:
                continue
            upto = trail.end if seq is None else seq
            return undeleted(rows.filter(pc.field(SEQ) <= upto)), upto
        raise Conflict(f"{table.name} was evicted {_ATTEMPTS} times while it was read; try again")

    def _trail(self, table: Table, seq: int | None) -> Trail:
        trail = read_trail(self._warehouse.state, table.log_id, NOTHING, self._warehouse.headers)
        erased = trail.cut.erased.get(self._mark, NOTHING)
        if seq is not None and not NOTHING <= seq <= trail.end:
            raise InvalidArgument(f"from_seq {seq} is none that {table.name} has given; its last rows lie below {trail.end + 1}")
        if seq is not None and erased != NOTHING and seq < end_of(erased):
            raise InvalidArgument(f"from_seq {seq} is too old: the rows were erased; the oldest that works is {end_of(erased)}")
        return trail

    def _ranges(self, table: Table, trail: Trail, after: int) -> tuple[RowRange, ...]:
        """What is to be read; of a STREAM table what has not expired."""
        ttl = table.options.ttl_seconds
        ranges = trail.ranges(self._user, after)
        if table.type != "STREAM" or ttl is None:
            return ranges
        now = self._warehouse.clock()
        if trail.cut.upto != NOTHING:
            self._fold.forget_before(min((each.first_seq for each in trail.ranges(self._user, NOTHING)), default=trail.end))
        return tuple(each for each in ranges if not is_over(each, ttl, now))

    # Whether it may go on

    def _signs(self, cut: Cut) -> tuple[int | None, int | None]:
        return cut.erased.get(self._mark), cut.rewound.get(self._mark)

    def _check_open(self, cut: Cut) -> None:
        if cut.sealed:
            raise NotFound(f"table {self._asked.table} was dropped")
        if self._mark in cut.closed:
            raise BeingErased(frozenset({self._user}))

    def _check(self, trail: Trail, table: Table) -> None:
        self._check_open(trail.cut)
        (erased, rewound), (erased_now, rewound_now) = self._began, self._signs(trail.cut)
        if erased_now not in (None, erased):
            raise Ended(f"the rows of {self._asked.table} that were delivered were erased; subscribe again")
        if rewound_now not in (None, rewound):
            raise Ended(f"{self._asked.table} was restored: what was delivered is not so any more; subscribe again")
        if table.type != "STREAM" and not trail.complete_after(self.place):
            raise InvalidArgument(
                f"subscription {self.live_id} has not looked for longer than rows are kept (log.retention_seconds): the oldest"
                f" from_seq that works is {trail.cut.forgotten}, and it stands at {self.place}; subscribe again"
            )

    def _ping(self) -> None:
        now: datetime = self._warehouse.clock()
        if now - self._query.last_ping_at >= PING:
            self._query = replace(self._query, last_ping_at=now)
            self._live.ping(self._query)

    def _counted(self, events: list[Event]) -> list[Event]:
        self._query = replace(self._query, changes=self._query.changes + len(events))
        return events


def _numbered(rows: pa.Table) -> pa.Table:
    """With numbers below every `_seq` for rows that have none: those of other writers."""
    seqs = rows.column(SEQ)
    if not seqs.null_count:
        return rows
    below = pa.array(range(NOTHING - rows.num_rows, NOTHING), pa.int64())
    return rows.set_column(rows.schema.get_field_index(SEQ), SEQ, cast("pa.ChunkedArray[Any]", pc.coalesce(seqs, below)))
