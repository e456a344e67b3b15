"""A scope's rows as of the moment when the log ended at some `_seq`: where a subscriber begins, or continues."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.delta.asof import Base, base_at
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.lifecycle.freezing import is_frozen
from lakewarden.delta.reading.bounds import Bound
from lakewarden.delta.reading.rows import empty_rows, merged, read_rows
from lakewarden.delta.scope import open_scope
from lakewarden.errors import Corrupt, InvalidArgument, NotFound
from lakewarden.log.chunk import RowRange
from lakewarden.log.position import NOTHING, end_of
from lakewarden.log.record import SEQ, decode
from lakewarden.log.table_log import LogReader
from lakewarden.log.view import Trail
from lakewarden.target import ScopeTarget

_NO_TABLE = Base(None, NOTHING, ())


def read_as_of(
    target: ScopeTarget, log: LogReader, trail: Trail, seq: int, mark: str, bounds: Sequence[Bound] = ()
) -> tuple[pa.Table | None, bool]:
    """The rows that were live then (the newest schema's columns and `_seq`), or None if the trail is older than the table;
    and whether no flush can have gone to another place, as `operations.reading.scope.where_it_lies` needs.

    Args:
        trail: all that log and history hold, read before the call.
        mark: the user's keyed hash.
        bounds: cold rows outside of them may be left out.

    Raises:
        InvalidArgument: rows that came after `seq` are no longer kept; the message says from which `_seq` on they are.
        Missing: objects of the log were removed meanwhile.
    """
    table = open_scope(target)
    base = _NO_TABLE if table is None else base_at(table, target.app_id, seq, _rewound(trail, mark))
    if base.later and (base.later[0].last_seq or 0) > trail.end:
        return None, False
    ranges = trail.ranges(target.scope.user or "", base.settled)
    _check(target, trail, base, ranges)
    hot = decode([log.chunk(each) for each in ranges if each.first_seq <= seq], _upto(ranges, seq), target.schemas)
    hot = hot.filter((pc.field(SEQ) > base.settled) & (pc.field(SEQ) <= seq))
    sure = table is not None and not is_frozen(table, target)
    return merged(_cold(target, base, bounds), hot, target.schema.primary_key), sure


def _rewound(trail: Trail, mark: str) -> int | None:
    position = trail.signs(mark).rewound
    return None if position is None else end_of(position)


def _upto(ranges: Sequence[RowRange], seq: int) -> list[RowRange]:
    return [each for each in ranges if each.first_seq <= seq]


def _cold(target: ScopeTarget, base: Base, bounds: Sequence[Bound]) -> pa.Table:
    if base.version is None:
        return empty_rows(target.schema)
    try:
        table = open_scope(target, base.version)
        return empty_rows(target.schema) if table is None else read_rows(table, target.schemas, None, bounds)
    except (NotFound, Corrupt) as error:
        if not base.later:
            raise
        raise InvalidArgument(
            f"from_seq is too old for {target.scope}: version {base.version}, as of then, can no longer be read"
            f" ({error.message}); subscribe without it"
        ) from error


def _check(target: ScopeTarget, trail: Trail, base: Base, ranges: Sequence[RowRange]) -> None:
    """Raises:
    InvalidArgument: some rows that were flushed since are no longer kept.
    """
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
