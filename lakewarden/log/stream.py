"""Rows of STREAM tables, which are kept only in the log, until they expire.

A row expires by the moment in its segment and the clock that is passed in, to the millisecond.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.attempts import Attempts
from lakewarden.base.clock import from_millis, is_ahead, to_micros
from lakewarden.catalog.model import Table, TableOptions
from lakewarden.log.chunk import RowRange
from lakewarden.log.log_reader import LogReader
from lakewarden.log.position import end_of, position_of
from lakewarden.log.record import OP, SEQ, TARGET, UPSERT, decode
from lakewarden.log.view import PendingRows
from lakewarden.storage.objects import Missing


@dataclass(frozen=True)
class ExpiredRows:
    """The rows that an eviction removes from one scope: all up to `end`."""

    user: str
    rows: int
    bytes: int
    end: int


def read_stream(log: LogReader, table: Table, user: str, now: datetime) -> pa.Table:
    """Returns a user's rows in a STREAM table that have not expired, in order: the newest schema's columns and `_seq`.

    Raises:
        Conflict: evictions kept removing rows while they were read.
    """
    ttl, schemas = table.options.ttl_seconds, table.schemas
    assert ttl is not None, "a STREAM table has a TTL"
    attempts = Attempts(100, f"log {log.log_id} was evicted", "while it was read")
    while attempts.next():
        pending = log.view((user,)).pending.get(user)
        # Read by the clock, not by what was evicted: an eviction that is late must not show expired rows.
        live = tuple(each for each in pending.ranges if not is_over(each, ttl, now)) if pending else ()
        try:
            rows = log.rows(replace(pending, ranges=live), schemas) if pending and live else decode([], [], schemas)
        except Missing:
            log = log.anew()
            continue
        return undeleted(rows)


def to_evict(pending: PendingRows, options: TableOptions, now: datetime) -> ExpiredRows | None:
    """Returns the oldest rows of a scope that its table's EVICTION_STRATEGY removes; None if there are no such rows.

    Rows are removed in the order of their `_seq`: a later row stays while an earlier one does.
    """
    by_time = options.eviction_strategy in ("time_based", "hybrid") and options.ttl_seconds is not None
    over = _over(pending.ranges, options.ttl_seconds or 0, now) if by_time else []
    if options.eviction_strategy in ("size_based", "hybrid") and options.max_stream_size:
        # Both take from the oldest on, so the longer list has the other in it.
        over = max(over, _beyond(pending.ranges, options.max_stream_size), key=len)
    whole = _whole_positions(over, pending.ranges)
    if not whole:
        return None
    return ExpiredRows(
        pending.user,
        sum(each.rows for each in whole),
        sum(each.length for each in whole),
        end_of(position_of(whole[-1].last_seq)),
    )


def _over(ranges: tuple[RowRange, ...], ttl: int, now: datetime) -> list[RowRange]:
    """The oldest ranges that have expired."""
    # `takewhile` and no filter: a writer's clock may run behind, and rows go in the order of their `_seq`. What a wrong clock
    # dated ahead would hold those behind it for as long: it goes with the next one that has expired, which was written later.
    over = [*takewhile(lambda each: is_over(each, ttl, now) or is_ahead(from_millis(each.stored_at // 1000), now), ranges)]
    while over and not is_over(over[-1], ttl, now):
        over.pop()
    return over


def is_over(rows: RowRange, ttl_seconds: int, now: datetime) -> bool:
    age = to_micros(now) // 1000 - rows.stored_at // 1000
    return age > ttl_seconds * 1000


def _beyond(ranges: tuple[RowRange, ...], limit: int) -> list[RowRange]:
    """Returns the oldest ranges, as many as must be removed until the rest fits."""
    size = sum(each.length for each in ranges)
    gone: list[RowRange] = []
    for each in ranges:
        if size <= limit:
            break
        gone.append(each)
        size -= each.length
    return gone


def _whole_positions(taken: list[RowRange], ranges: tuple[RowRange, ...]) -> list[RowRange]:
    """Leaves out a segment that keeps other chunks of the same scope: the log settles segment by segment."""
    if len(taken) == len(ranges) or not taken:
        return taken
    kept = position_of(ranges[len(taken)].first_seq)
    return [each for each in taken if position_of(each.last_seq) < kept]


def undeleted(rows: pa.Table) -> pa.Table:
    # A delete of a stream names the `_seq` of the row that it removes: there is no key by which a later row could replace it.
    gone = rows.column(TARGET).drop_null()
    alive = rows.filter(pc.equal(rows.column(OP), pa.scalar(UPSERT, pa.int8()))).drop_columns([TARGET, OP])
    return alive.filter(pc.invert(pc.is_in(alive.column(SEQ), value_set=gone))) if len(gone) else alive
