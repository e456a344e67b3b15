"""One subscriber's position in a table's log: where it begins, and what comes next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import accumulate
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.attempts import Attempts
from lakewarden.base.clock import Pause, wait
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Table
from lakewarden.catalog.state.processes import PING, LiveQueries, LiveQuery
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.reading.rows import upserts
from lakewarden.errors import BeingErased, Conflict, Ended, InvalidArgument, NotFound, Unsupported
from lakewarden.log.chunk import RowRange
from lakewarden.log.objects.trail import Trail
from lakewarden.log.position import NOTHING, end_of
from lakewarden.log.record import SEQ, decode
from lakewarden.log.stream import undeleted
from lakewarden.log.view import UserSigns
from lakewarden.storage.objects import Missing
from lakewarden.tables.as_of import read_as_of
from lakewarden.tables.changes.ending import appended, appended_upto, is_keyless, there_upto
from lakewarden.tables.changes.log_reader import Event, Feeds, Fold, Row
from lakewarden.tables.changes.value import unexpired
from lakewarden.tables.strong_read import read_strong_upto, where_it_lies
from lakewarden.tables.warehouse import Warehouse, find_table

Read = Callable[[Sequence[RowRange]], list[memoryview]]
"""Returns the rows of chunks."""

Select = Callable[[Table, pa.Table], Mapping[int, Row]]
"""Returns which rows a query returns, and how, by `_seq`. Raises `PermissionDenied` where the session may not read the table."""


@dataclass(frozen=True)
class FollowBounds:
    """What a subscription may take of its process's memory: rows that it shows, and bytes of the rows that it begins with."""

    rows: int
    bytes: int


@dataclass(frozen=True)
class Manner:
    """How a subscription is followed. OPTIONS take precedence, but for `from_seq`: who gives it has come further than the text.

    Times in seconds.
    """

    from_seq: int | None = None
    last_rows: int | None = None
    batch_size: int = 10_000
    interval: float = 0.5
    timeout: float | None = None
    pause: Pause = wait
    poll_bytes: int | None = None
    """About how many bytes of the log a poll takes at most; the next one goes on there. None for all."""


@dataclass(frozen=True)
class FollowRequest:
    """A subscription as it was requested. `user` is None for a SHARED table."""

    table: TableName
    user: str | None
    query: str
    manner: Manner
    bounds: FollowBounds | None


class Follower:
    """Created by `begin`."""

    def __init__(self, warehouse: Warehouse, feeds: Feeds, request: FollowRequest, select: Select) -> None:
        table = find_table(warehouse.catalog.read(), request.table)
        self._warehouse = warehouse
        self._feeds = feeds
        self._request = request
        self._select = select
        self._table_id = table.id
        self._user = request.user or ""
        self._mark = warehouse.erasures.mark(self._user)
        self._fold = Fold()
        self._live = LiveQueries(warehouse.state)
        self._began = warehouse.log(table).signs(self._mark)
        self._check_open(self._began)
        self.delivered_seq = NOTHING
        """The `_seq` up to which everything was delivered."""
        now = warehouse.clock()
        live_id = f"LQ-{warehouse.new_id()[:12]}"
        self._query = LiveQuery(
            live_id, table.log_id, str(request.table), self._user, request.query, request.manner.from_seq, now, now
        )

    @property
    def from_seq(self) -> int | None:
        return self._request.manner.from_seq

    @property
    def live_id(self) -> str:
        return self._query.live_id

    def begin(self) -> list[Event]:
        """The rows that the query returns, as `initial` events; where it continues from a `_seq`, the events since.

        Raises:
            InvalidArgument: `from_seq` is too old (the message says which works), or was never given out.
        """
        table = self._table()
        seq = self._request.manner.from_seq
        events = self._first(table) if seq is None else self._since(table, seq)
        self._report(table)
        return self._counted(events)

    def next(self, max_age: float) -> list[Event]:
        """The events since, as of a look no older than `max_age` seconds."""
        attempts = Attempts(20, f"{self._request.table} was settled", "while it was followed", "poll again")
        while attempts.next():
            table = self._table()
            feed = self._feeds.of(self._warehouse.log(table))
            glance = feed.look(self.live_id, self.delivered_seq, max_age)
            if self.live_id in glance.killed:
                raise Ended(f"subscription {self.live_id} was killed")
            self._check(glance.trail, table)
            self._ping(table)
            try:
                return self._counted(self._next_of(table, glance.trail, feed.chunks))
            except (Missing, Conflict):  # removed meanwhile, or written under columns newer than those looked up
                feed.stale()

    def leave(self) -> None:
        self._feeds.leave(self._query.log_id, self.live_id)
        self._live.end(self._query)

    def _next_of(self, table: Table, trail: Trail, read: Read) -> list[Event]:
        """The events of the next part of the trail that has any; none only at its end."""
        while True:
            before = self.delivered_seq
            found = self._delivered(table, trail, read)
            if found or self.delivered_seq in (before, trail.end):
                return found

    def _delivered(self, table: Table, trail: Trail, read: Read) -> list[Event]:
        """The events of a trail after the place, which moves to the trail's end, or to that of what one poll takes."""
        if is_keyless(table):
            return self._appended(table, trail)
        ranges = self._ranges(table, trail, self.delivered_seq)
        first = _first_chunks(ranges, self._request.manner.poll_bytes)
        upto = first[-1].last_seq if len(first) < len(ranges) else trail.end
        there = decode(read(first), first, table.schemas).filter(pc.field(SEQ) > self.delivered_seq)
        rows, upto = self._part(there, upto)
        matched = self._shown(table, upserts(rows)) if rows.num_rows else {}
        found = list(self._fold.events(rows, table.schema, matched))  # only after everything that can fail
        self.delivered_seq = max(self.delivered_seq, upto)
        return found

    def _part(self, rows: pa.Table, upto: int) -> tuple[pa.Table, int]:
        """The first rows, of about as many bytes as one poll takes, and the `_seq` up to which they are all there are.

        Args:
            upto: the same of all rows given.
        """
        most = self._request.manner.poll_bytes
        if most is None or rows.nbytes <= most:
            return rows, upto
        part = rows.slice(0, max(1, rows.num_rows * most // rows.nbytes))
        return part, int(part.column(SEQ)[-1].as_py())

    def _appended(self, table: Table, trail: Trail) -> list[Event]:
        """The same of a table without a primary key, whose rows are in Delta at once."""
        upto = appended_upto(self._warehouse.log(table), trail.end)
        if upto <= self.delivered_seq:
            return []
        rows, upto = self._part(appended(partial(self._target, table), self.delivered_seq, upto), upto)
        matched = self._shown(table, rows) if rows.num_rows else {}
        self.delivered_seq = upto
        return [Event("insert", seq, matched[seq]) for seq in sorted(matched)]

    def _shown(self, table: Table, rows: pa.Table) -> Mapping[int, Row]:
        found: dict[int, Row] = {}
        for part in self._parts(rows):
            found |= self._select(table, part)
            self._check_rows(len(found))
        return found

    def _check_rows(self, number: int) -> None:
        bounds = self._request.bounds
        if bounds is not None and number > bounds.rows:
            raise Unsupported(
                f"a subscription may show {bounds.rows:,} rows (sql.subscription_rows), and this one shows more:"
                " subscribe to fewer by a WHERE"
            )

    def _bounded(self, rows: pa.Table) -> pa.Table:
        """The rows that a subscription begins with, numbered."""
        bounds = self._request.bounds
        if bounds is not None and rows.nbytes > bounds.bytes:
            raise Unsupported(
                f"a subscription may begin with {bounds.bytes:,} bytes of rows (sql.result_bytes), and"
                f" {self._request.table} has {rows.nbytes:,}"
            )
        return _numbered(rows)

    def _parts(self, rows: pa.Table) -> Iterator[pa.Table]:
        """The rows in parts of the size matched at once; at least one part, so that the query is always tried."""
        for start in range(0, max(1, rows.num_rows), self._request.manner.batch_size):
            yield rows.slice(start, min(self._request.manner.batch_size, rows.num_rows))

    def _table(self) -> Table:
        table = find_table(self._warehouse.catalog.read(), self._request.table)
        if table.id != self._table_id:
            raise NotFound(f"the table {table.name} that was subscribed to was dropped; this is another of the same name")
        return table

    # Where it begins

    def _first(self, table: Table) -> list[Event]:
        rows, self.delivered_seq = self._now(table)
        rows = self._bounded(rows)
        matched = self._shown(table, rows)
        self._fold.begin(rows, table.schema, matched)
        last = len(matched) if self._request.manner.last_rows is None else self._request.manner.last_rows
        return [Event("initial", max(each, NOTHING), matched[each]) for each in sorted(matched)[max(0, len(matched) - last) :]]

    def _now(self, table: Table) -> tuple[pa.Table, int]:
        """The live rows, and the end of the log then."""
        warehouse = self._warehouse
        if is_keyless(table):
            upto = appended_upto(warehouse.log(table), self._trail(table).end)
            return there_upto(partial(self._target, table), upto), upto
        if table.type != "STREAM":
            return read_strong_upto(partial(self._target, table), warehouse.log(table))
        attempts = Attempts(20, f"{table.name} was settled", "while it was read")
        while attempts.next():
            trail = self._trail(table)
            try:
                return self._stream_rows(table, trail, trail.end), trail.end
            except Missing:
                continue

    def _since(self, table: Table, seq: int) -> list[Event]:
        """From a single trail: the rows at that moment, and what came after."""
        attempts = Attempts(20, f"{table.name} was settled", "while it was read")
        while attempts.next():
            trail = self._trail(table)
            self._check_seq(table, trail, seq)
            try:
                if not is_keyless(table):
                    rows = self._as_of(table, trail, seq)
                    if rows is None:
                        continue
                    rows = self._bounded(rows)
                    self._fold.begin(rows, table.schema, self._shown(table, rows))
                self.delivered_seq = seq
                return self._delivered(table, trail, partial(self._read, table))
            except Missing:
                continue

    def _as_of(self, table: Table, trail: Trail, seq: int) -> pa.Table | None:
        if table.type == "STREAM":
            return self._stream_rows(table, trail, seq)

        def read(target: ScopeTarget) -> tuple[pa.Table | None, bool]:
            return read_as_of(target, self._warehouse.log(table), trail, seq, self._mark)

        return where_it_lies(partial(self._target, table), read)

    def _stream_rows(self, table: Table, trail: Trail, upto: int) -> pa.Table:
        ranges = self._ranges(table, trail, NOTHING)
        return undeleted(decode(self._read(table, ranges), ranges, table.schemas).filter(pc.field(SEQ) <= upto))

    def _read(self, table: Table, ranges: Sequence[RowRange]) -> list[memoryview]:
        log = self._warehouse.log(table)
        return [log.chunk(each) for each in ranges]

    def _target(self, table: Table) -> ScopeTarget:
        return self._warehouse.target(self._warehouse.catalog.read(), Scope(table.name, self._request.user))

    def _trail(self, table: Table) -> Trail:
        return self._warehouse.log(table).trail(NOTHING, (self._user,))

    def _check_seq(self, table: Table, trail: Trail, seq: int) -> None:
        signs = trail.signs(self._mark)
        if not NOTHING <= seq <= trail.end:
            raise InvalidArgument(f"from_seq {seq} is not one that {table.name} has given out; the last is below {trail.end + 1}")
        if is_keyless(table) and signs.rewound is not None and seq < end_of(signs.rewound):
            raise InvalidArgument(
                f"rows of {table.name} were restored or changed after _seq {seq} was given: what was delivered no longer holds;"
                " subscribe without from_seq"
            )
        if signs.restarted is not None and seq < end_of(signs.restarted):
            raise InvalidArgument(f"from_seq {seq} is older than the warehouse's restore from a backup: subscribe without it")
        if signs.erased is not None and seq < end_of(signs.erased):
            oldest = end_of(signs.erased)
            raise InvalidArgument(f"from_seq {seq} is too old: the rows were erased; the oldest that works is {oldest}")

    def _ranges(self, table: Table, trail: Trail, after: int) -> tuple[RowRange, ...]:
        """The rows to read; of a STREAM table those that have not expired."""
        if table.type == "STREAM" and table.options.ttl_seconds is not None:
            pending = trail.view.pending.get(self._user)
            self._fold.forget_before(trail.end if pending is None else pending.first_seq)
        return unexpired(table, trail.ranges(self._user, after), self._warehouse.clock)

    # Whether it may go on

    def _check_open(self, signs: UserSigns) -> None:
        if signs.dropped:
            raise NotFound(f"table {self._request.table} was dropped")
        if signs.closed:
            raise BeingErased(frozenset({self._user}))

    def _check(self, trail: Trail, table: Table) -> None:
        self._check_rows(len(self._fold))
        now = trail.signs(self._mark)
        self._check_open(now)
        if now.erased not in (None, self._began.erased):
            raise Ended(f"the rows of {self._request.table} that were delivered were erased; subscribe again")
        if now.rewound not in (None, self._began.rewound):
            raise Ended(f"{self._request.table} was restored, so what was delivered no longer holds; subscribe again")
        if is_keyless(table):
            return  # the table has every row
        if table.type != "STREAM" and not trail.complete_after(self.delivered_seq):
            raise InvalidArgument(
                f"subscription {self.live_id} was not polled for longer than rows are kept (log.retention_seconds): the oldest"
                f" from_seq that works is {trail.forgotten}, and it is at {self.delivered_seq}; subscribe again"
            )

    def _ping(self, table: Table) -> None:
        now: datetime = self._warehouse.clock()
        if now - self._query.last_ping_at >= PING:
            self._query = replace(self._query, last_ping_at=now)
            self._report(table)

    def _report(self, table: Table) -> None:
        """Raises `BeingErased`: the user is, or was since this began."""
        self._live.ping(self._query)
        # Another look, behind the report: the one that is shared may be older than an erasure.
        if self._user and self._began.erased_until(self._warehouse.log(table).signs(self._mark)):
            self._live.end(self._query)
            raise BeingErased(frozenset({self._user}))

    def _counted(self, events: list[Event]) -> list[Event]:
        self._query = replace(self._query, changes=self._query.changes + len(events))
        return events


def _first_chunks(ranges: tuple[RowRange, ...], most: int | None) -> tuple[RowRange, ...]:
    """The first chunks, of at most this many bytes together; at least one, where there is one."""
    if most is None:
        return ranges
    ends = accumulate(each.length for each in ranges)
    return ranges[: max(1, sum(end <= most for end in ends))]


def _numbered(rows: pa.Table) -> pa.Table:
    """Numbers the rows of other writers, which have no `_seq`, below every `_seq`."""
    seqs = rows.column(SEQ)
    if not seqs.null_count:
        return rows
    below = pa.array(range(NOTHING - rows.num_rows, NOTHING), pa.int64())
    return rows.set_column(rows.schema.get_field_index(SEQ), SEQ, cast("pa.ChunkedArray[Any]", pc.coalesce(seqs, below)))
