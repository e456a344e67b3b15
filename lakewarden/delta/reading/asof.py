"""Finds the version of a scope's table that holds its rows as of some `_seq`, for subscribers that reconnect."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.delta.commit_log.stamp import DROP, ERASE, RESTORE, SWEEP, CommitStamp
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import walk
from lakewarden.errors import InvalidArgument
from lakewarden.log.position import NOTHING
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
