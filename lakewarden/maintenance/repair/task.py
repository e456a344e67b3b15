"""One scope to repair, as it is sent to a task."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.clock import CarriedClock
from lakewarden.catalog.state.floor_entries import KnownState
from lakewarden.catalog.target import ScopeTarget
from lakewarden.log.chunk import RowRange
from lakewarden.log.position import NOTHING


@dataclass(frozen=True)
class RepairTask:
    """The scope, and what was read of its log: every number a `_seq`, `NOTHING` where there is none."""

    target: ScopeTarget
    table_id: str
    state_uri: str
    log_id: str
    ranges: tuple[RowRange, ...]
    """Where the log and its history hold rows of the scope."""
    complete_after: int
    """Every row and tombstone after this `_seq` is in `ranges`."""
    settled_upto: int
    """Flushes have settled the scope's rows at least up to this `_seq`."""
    erased_upto: int
    """The `_seq` at which the user was erased; no older row comes back."""
    rewound_upto: int
    """A restore of the scope came before this `_seq`."""
    reads_files: bool
    """Whether its data files are read: a garbled one has the size that its commit says."""
    dry_run: bool
    job_id: str
    clock: CarriedClock

    @property
    def known_version(self) -> int:
        """The highest version that is known to have been committed; -1 where none is."""
        return -1 if self.known is None else self.known.version

    @property
    def known_watermark(self) -> int:
        """Up to which `_seq` the scope's rows were settled."""
        # The log and the floor each know it; either may be the one that was lost.
        return max(NOTHING if self.known is None else self.known.watermark, self.settled_upto)

    @property
    def known(self) -> KnownState | None:
        """What the floor records of the scope's table; None if it was given up."""
        known = self.target.known
        return None if known is None or known.forgotten else known
