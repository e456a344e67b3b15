"""Overwrites of a table that keeps before images, which take their position long before they commit.

A write behind that position has the overwritten rows before its own; as long as they are not committed, it would store the rows
that they replace. So just before it commits, an overwrite is noted in the log, and then takes another position. Who looked at the
log before that does not get its place behind it, and looks again; who looks later asks for such notes, and waits until the commit
is there. And where rows of what is overwritten have come already, the overwrite is refused.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import suppress

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.partitions import Partition, divided
from lakewarden.errors import Conflict, StorageUnavailable
from lakewarden.log.table_log import TableLog
from lakewarden.log.view import LogView
from lakewarden.storage.objects import Missing
from lakewarden.tables.direct.barrier import raise_barrier
from lakewarden.tables.direct.effects import Replace
from lakewarden.tables.warehouse import Warehouse

_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 1.0

_MOST_SECONDS = 180.0
"""Longer than a note takes to go quiet."""


def hold_back(log: TableLog, note: str, target: ScopeTarget, effect: Replace) -> bool:
    """Holds back writes until the note is closed; returns whether other writes went quiet.

    Raises:
        Conflict: rows that are overwritten are in the log; or others kept changing it.
        NotFound, StorageUnavailable: as `TableLog.take_position`.
    """
    others_quiet = log.open_direct(note)
    try:
        log.take_position()
        if effect.meant(target, _waiting(log, target)):
            raise Conflict(
                f"{target.scope}: rows of what is overwritten were written meanwhile; nothing was changed, retry: try again"
            )
    except (Exception, KeyboardInterrupt, SystemExit):
        with suppress(Conflict, StorageUnavailable):  # it goes quiet
            log.close_direct(note)
        raise
    return others_quiet


def _waiting(log: TableLog, target: ScopeTarget) -> Collection[Partition]:
    """The partitions of rows that no flush has taken."""
    pending = log.view(("",)).pending_of(("",)).get("")
    if pending is None:
        return ()
    try:
        rows = log.rows(pending, target.schemas)
    except Missing as gone:
        raise Conflict(f"{target.scope}: a flush came in between; nothing was changed, retry: try again") from gone
    return [partition for partition, _ in divided(rows, target.schema.partition_by)]


def wait_for_commit(warehouse: Warehouse, target: ScopeTarget, log: TableLog, view: LogView) -> None:
    """Returns when no overwrite is about to commit that has a position of the view. One that died is passed by a barrier.

    Raises:
        Conflict: it takes too long.
        StorageUnavailable: the store failed.
    """
    began, pause = time.monotonic(), _PAUSE_SECONDS
    while log.is_held(view):
        if log.has_quiet(log.view(())):
            raise_barrier(warehouse, target, log)
        elif time.monotonic() - began > _MOST_SECONDS:
            raise Conflict(f"{target.scope} is being overwritten, and that takes long; nothing was written: try again")
        else:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
