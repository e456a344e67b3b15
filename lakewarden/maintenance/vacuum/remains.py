"""What a vacuum leaves for a later one: since when the oldest of it is superfluous, so that none comes in vain before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from lakewarden.base.clock import to_millis
from lakewarden.catalog.report import Remains
from lakewarden.catalog.state.floor_entries import NEVER
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import Timeline, superfluous_log_since
from lakewarden.maintenance.vacuum.orphans import orphans, table_files, unnamed_commits
from lakewarden.storage.objects import StoredObject


def remains_of(
    left: Sequence[StoredObject],
    strays: Sequence[StoredObject],
    table: ScopeTable,
    timeline: Timeline,
    *,
    kept: bool,
    now: datetime,
) -> Remains:
    """What is left, by the listing without what is deleted now. A moment in the future counts as now.

    Args:
        strays: stored files that no row refers to.
        kept: whether tags or leases keep older versions, which may end at any time.
    """
    live = frozenset(file.path for file in table.files())
    lost = orphans(left, timeline, live)
    replaced = {found.key for found in table_files(left)} - live - {found.key for found in lost}
    removals = [(entry.since, replaced & (entry.removes | entry.changes)) for entry in timeline.entries]
    unexplained = replaced.difference(*(keys for _, keys in removals))
    waiting = [to_millis(found.modified) for found in (*lost, *unnamed_commits(left), *strays)]
    # Files whose removal no commit dates, or that a pin keeps, may be superfluous at any moment: the next vacuum looks.
    times = [0] if unexplained or (kept and replaced) else [since for since, keys in removals if keys]
    log = superfluous_log_since(left)
    return Remains(
        dead_since=min([*waiting, *times, to_millis(now)]) if waiting or times else NEVER,
        log_since=NEVER if log is None else to_millis(log),
        dead_bytes=sum(found.size for found in left if found.key in replaced),
    )
