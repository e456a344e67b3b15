"""A scope's rows as of the moment when the log ended at some `_seq`: where a subscriber begins, or continues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.stamp import DROP, ERASE, RESTORE, SWEEP, CommitStamp
from lakewarden.delta.lifecycle.states import is_frozen
from lakewarden.delta.reading.bounds import key_bounds
from lakewarden.delta.reading.keys import Keys
from lakewarden.delta.reading.rows import empty_rows, merged, read_keyed, read_rows
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import walk
from lakewarden.errors import Corrupt, InvalidArgument, NotFound
from lakewarden.log.chunk import RowRange
from lakewarden.log.log_reader import LogReader
from lakewarden.log.objects.trail import Trail
from lakewarden.log.position import NOTHING, end_of
from lakewarden.log.record import SEQ, decode
from lakewarden.storage.open import open_store


@dataclass(frozen=True)
class BaseVersion:
    """A version that contains nothing of the log beyond `settled`."""

    version: int | None
    """None before the first version."""
    settled: int
    """The version has every row of the scope up to this `_seq` but those that were dropped; later rows were flushed by `later`,
    or are pending."""
    later: tuple[CommitStamp, ...]
    """The flushes that came after it, newest first."""


_NO_TABLE = BaseVersion(None, NOTHING, ())

_AT_ONCE = 64 << 20
"""Bytes of the log in which keys are sought at once."""


def read_as_of(
    target: ScopeTarget, log: LogReader, trail: Trail, seq: int, mark: str, keys: pa.Table | None = None
) -> tuple[pa.Table | None, bool]:
    """The rows that were live then (the newest schema's columns and `_seq`), or None if the trail is older than the table;
    and whether no flush can have gone to another place, as `tables.strong_read.where_it_lies` needs.

    Args:
        trail: all that log and history hold, read before the call.
        mark: the user's keyed hash.
        keys: rows with the columns of the primary key, which those that are wanted have, too; None for all rows.

    Raises:
        InvalidArgument: rows that came after `seq` are no longer kept; the message says from which `_seq` on they are.
        Missing: objects of the log were removed meanwhile.
    """
    table = open_scope(target)
    rewound = trail.signs(mark).rewound
    end = None if rewound is None else end_of(rewound)
    base = _NO_TABLE if table is None else base_at(table, target.app_id, seq, end)
    # The newest flush took rows from behind this trail's end: the trail has to be read again.
    if base.later and (base.later[0].last_seq or 0) > trail.end:
        return None, False
    ranges = trail.ranges(target.scope.user or "", base.settled)
    _check(target, trail, base, ranges)
    wanted = None if keys is None else Keys(keys, target.schema.primary_key)
    hot = _hot(target, log, [each for each in ranges if each.first_seq <= seq], base.settled, seq, wanted)
    sure = table is not None and not is_frozen(table, target)
    cold = _cold(target, table, base, wanted)
    return cold if hot is None else merged(cold, hot, target.schema.primary_key), sure


def _hot(
    target: ScopeTarget, log: LogReader, ranges: Sequence[RowRange], after: int, upto: int, keys: Keys | None
) -> pa.Table | None:
    """The rows of the log beyond a `_seq`, up to another; None where there are none. With keys, they are read part by part."""
    if not ranges:
        return None
    found = []
    for part in [ranges] if keys is None else _parts(ranges):
        rows = decode(log.chunks(part), part, target.schemas).filter((pc.field(SEQ) > after) & (pc.field(SEQ) <= upto))
        found.append(rows if keys is None else rows.filter(pc.is_valid(keys.places(rows))))
    return pa.concat_tables(found)


def _parts(ranges: Sequence[RowRange]) -> Iterator[Sequence[RowRange]]:
    numbers = [bytes_before // _AT_ONCE for bytes_before in accumulate((each.length for each in ranges[:-1]), initial=0)]
    return ([each for _, each in part] for _, part in groupby(zip(numbers, ranges, strict=True), key=itemgetter(0)))


def _cold(target: ScopeTarget, newest: ScopeTable | None, base: BaseVersion, keys: Keys | None) -> pa.Table:
    if base.version is None or (keys is not None and not keys.rows.num_rows):
        return empty_rows(target.schema)
    try:
        is_newest = newest is not None and newest.version == base.version
        table = newest if is_newest else open_scope(target, base.version)
        if table is None:
            return empty_rows(target.schema)
        if keys is None:
            return read_rows(table, target.schemas)
        return read_keyed(table, target.schemas, keys, key_bounds(keys.primary_key, keys.rows), target.buckets)
    except (NotFound, Corrupt) as error:
        if not base.later:
            raise
        raise InvalidArgument(
            f"from_seq is too old for {target.scope}: version {base.version}, the newest at that time, can no longer be read"
            f" ({error.message}); subscribe without it"
        ) from error


def _check(target: ScopeTarget, trail: Trail, base: BaseVersion, ranges: Sequence[RowRange]) -> None:
    """Raises InvalidArgument: some rows that were flushed since are no longer kept."""
    if trail.complete_after(base.settled):
        return
    for flush in base.later:
        if _kept(ranges, flush) != flush.log_rows:
            raise InvalidArgument(
                f"from_seq is too old for {target.scope}: rows that came after it are no longer kept"
                f" (log.retention_seconds); the oldest that works is {flush.last_seq}"
            )


def _kept(ranges: Sequence[RowRange], flush: CommitStamp) -> int:
    """How many of the rows that a flush took are still kept."""
    first, last = flush.first_seq or 0, NOTHING if flush.last_seq is None else flush.last_seq
    return sum(max(0, min(each.last_seq, last) - max(each.first_seq, first) + 1) for each in ranges)


# Finds the version that holds its rows as of some `_seq`, for subscribers that reconnect.


def base_at(table: ScopeTable, app_id: str, seq: int, rewound: int | None) -> BaseVersion:
    """Finds the newest version without any row of the log beyond `seq`.

    Args:
        rewound: a `_seq` that was given after the last restore or direct change of rows; None when unknown.

    Raises:
        InvalidArgument: the table was restored or changed directly since, or its log does not reach back that far.
    """
    version: int | None = table.version
    oldest = table.version + 1
    later: list[CommitStamp] = []
    dropped = NOTHING
    for entry in walk(open_store(table.location), table.version):
        oldest, stamp = entry.version, entry.stamp
        if stamp is not None and stamp.sets_back and not stamp.silent and (rewound is None or seq < rewound):
            raise InvalidArgument(
                f"version {entry.version} ({entry.operation}) restored or changed rows after _seq {seq} was given: what was"
                " delivered no longer holds; subscribe without from_seq"
            )
        if stamp is not None and stamp.operation in (DROP, ERASE, SWEEP):
            return BaseVersion(version, NOTHING, tuple(later))
        if stamp is not None and stamp.operation == RESTORE:  # the rows that it dropped may still be in the log's history
            dropped = max([dropped, *(settled for app, settled in entry.transactions if app == app_id)])
        if stamp is None or stamp.app_id != app_id or stamp.last_seq is None:
            continue
        if stamp.last_seq <= seq:
            return BaseVersion(version, max(stamp.last_seq, dropped), tuple(later))
        later.append(stamp)
        version = entry.version - 1
    if oldest > 0:
        raise InvalidArgument(
            f"the table's log begins with version {oldest} and does not reach back to _seq {seq}; subscribe again"
        )
    return BaseVersion(None if version is not None and version < 0 else version, dropped, tuple(later))
