"""Snapshots that were opened before: a look at two names in the log tells whether one is still the newest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.base.recent import Recent

if TYPE_CHECKING:
    from lakewarden.base.connection import Location
    from lakewarden.catalog.target import ScopeTarget
    from lakewarden.delta.table import ScopeTable


@dataclass(frozen=True)
class _Kept:
    table: ScopeTable
    commit: bytes
    """Its digest: versions may count anew where a dropped table has long been swept away."""


class TableCache:
    """The newest snapshots of the tables that were read last, for reading alone; safe for threads."""

    def __init__(self, max_tables: int = 64) -> None:
        self._kept: Recent[Location, _Kept] = Recent(max_tables)

    def open(self, target: ScopeTarget) -> ScopeTable | None:
        """As `open_scope`."""
        from lakewarden.delta.commit_log.commits import CommitLog  # Delta: not for a warehouse that is opened for something else
        from lakewarden.delta.scope import compared, open_scope
        from lakewarden.storage.open import open_store

        location = target.location
        log = CommitLog(open_store(location))
        kept = self._kept.get(location)
        if kept is not None and log.ends_with(kept.table.version, kept.commit):
            return compared(kept.table, target)
        table = open_scope(target)
        commit = None if table is None else log.digest(table.version)
        if table is None or commit is None:
            self._kept.forget(location)
        else:
            self._kept.put(location, _Kept(table, commit))
        return table
