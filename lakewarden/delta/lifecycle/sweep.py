"""Removes a fence (delta/lifecycle/fence.py), with everything that late writers left beside it.

Deletes can't be fenced, and a user may start anew at this very moment. So a fence is first marked, by a strict commit: who
opened the table before that is refused, who opens it after that waits. Then all goes but the checkpoint of the marked
version, and that one last: whatever dies in between leaves a table that says what it is, or none.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Literal

from lakewarden.base.connection import Location
from lakewarden.base.faults import Reach, no_faults
from lakewarden.delta.commit_log.commits import CommitLog, without_nested
from lakewarden.delta.commit_log.committing import SWEPT, Committer
from lakewarden.delta.commit_log.publish import Still
from lakewarden.delta.commit_log.stamp import SWEEP, CommitStamp
from lakewarden.delta.parquet.files import CHANGE_FOLDER, SHUFFLE
from lakewarden.delta.replay.segment import LOG, checkpoint_name
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict
from lakewarden.storage.disk import remove_empty_directories
from lakewarden.storage.objects import keys_of
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps

_DATA = re.compile(rf"({CHANGE_FOLDER}/)?((batch-\d+-[0-9a-f]{{32}}|[^/=]+=[^/]+)/)*[^/]+\.parquet|{SHUFFLE.pattern}")
"""Data and change files, also those in directories of flushes and of partitions, and what was to become data files; what else is
deeper may be another scope."""

Fate = Literal["gone", "in use", "too young"]
"""Of a place in which a fence was: nothing is there any more; a table was started again on it; something is not old enough."""


def sweep_fence(location: Location, before: datetime, by: Committer, still: Still, *, reach: Reach = no_faults) -> Steps[Fate]:
    """Removes a fence if everything in its place was written before that moment. May be repeated.

    Args:
        still: raises `Conflict` when another process may be at it; called right before the deletes.

    Raises:
        Corrupt, StorageUnavailable: the place can't be read; nothing was removed.
    """
    listing = open_store(location).list("")
    table = ScopeTable.open(location)
    if table is None:  # no fence any more; what a writer left that came later than the last sweep
        old = [found.key for found in without_nested(listing) if _DATA.fullmatch(found.key) and found.modified < before]
        open_store(location).delete(old)
        remove_empty_directories(location.uri)
        return "gone"
    if not table.is_swept:
        if not CommitLog(open_store(location)).is_fenced(table.version):
            return "in use"
        if any(found.modified >= before for found in listing):
            return "too young"
        try:
            yield from table.empty(stamp=CommitStamp(by.job_id, SWEEP), since=by.since, now=by.clock(), transaction=(SWEPT, 1))
        except Conflict:
            return "in use"
        reach("sweep:marked")
        table = ScopeTable.open(location)
        if table is None or not table.is_swept:
            return "too young"
    table.checkpoint()
    yield location.uri  # else a power cut could keep the deletes and lose the mark
    reach("sweep:checkpointed")
    still()
    _remove(location, table.version, [found.key for found in listing if found.modified < before], reach)
    return "gone"


def _remove(location: Location, version: int, old: list[str], reach: Reach) -> None:
    store = open_store(location)
    last = checkpoint_name(version)
    store.delete(name for name in sorted({*old, *keys_of(store, LOG)}) if name != last)
    reach("sweep:emptied")
    store.delete([last])
    remove_empty_directories(location.uri)
