"""What is known of a scope's Delta table besides the table itself, and where that is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakewarden.base.connection import Location

NOTHING = -1
"""The `_seq`, and the position, before the first one (`log.position`)."""

ON_STORAGES = ".lakewarden-floor"
IN_STATE = "known"

NEVER = 1 << 62
"""Milliseconds; the time of what has not happened."""

UNSEEN = -1
"""`looked_at` of a scope that was not looked at; and an amount that is not known."""

NO_TABLE = -1
"""The version, and the rule by which there is nothing to do, of a scope without a table."""

OPERATIONS = ("", "WRITE", "MERGE", "COMPACT", "OPTIMIZE", "VACUUM END", "RESTORE")
"""What commits of ours are called in a table's history."""


@dataclass(frozen=True)
class UpkeepNote:
    """What maintenance has to know of a scope's table, in one version of it. Times in milliseconds."""

    files: int
    bytes: int
    committed_at: int
    """When our newest commit that is known of was made; 0 when unknown."""
    operation: int
    """Which operation that was: its place in `OPERATIONS`; 0 when unknown."""
    looked_at: int
    """When the table was last opened, and another program's commits would have been seen."""
    compacted: int
    """The rule (`tables.upkeep.rules`) by which a compaction finds nothing to do; 0 when it may find something."""
    optimized: int
    """The same for packing."""
    dead_since: int
    """When the first of the files was replaced that exist and are not live; 0 when unknown, `NEVER` when there are none."""
    log_since: int
    """When the first checkpoint was written that makes older parts of the log superfluous; 0 and `NEVER` as above."""
    dead_bytes: int = UNSEEN
    """Those of the files that exist and are not live, as commits replaced them; `UNSEEN`, as all that follows, when unknown."""
    compact_bytes: int = UNSEEN
    """Bytes that compact's own rule would rewrite into one file."""
    optimize_bytes: int = UNSEEN
    """The same of packing, into `optimize_made` files."""
    compact_files: int = UNSEEN
    """How many files these are."""
    optimize_files: int = UNSEEN
    optimize_made: int = UNSEEN


def absent(at: int) -> UpkeepNote:
    """Returns the entry of a scope that had no table at that time."""
    return UpkeepNote(0, 0, 0, 0, at, NO_TABLE, NO_TABLE, NEVER, NEVER, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class KnownState:
    """The durable state of a scope's Delta table when this was noted: it cannot have less now.

    Of two notes the one with the higher watermark counts; of those with the same, a forgotten one, then the one with the
    higher version, then the later look. So notes can be joined in any order, and any number of times.
    """

    version: int
    watermark: int
    """`NOTHING` when no flush has committed."""
    rows: int
    deleted_upto: int = NOTHING
    """Watermark of the last flush or restore that removed rows; `NOTHING` when none did."""
    forgotten: bool = False
    """The table was given up: erased or swept. A later table at its place starts again."""
    upkeep: UpkeepNote | None = None
    """None when the scope was not looked at for maintenance. Only the state's copy has it."""

    @property
    def rank(self) -> tuple[int, bool, int, int]:
        return self.watermark, self.forgotten, self.version, UNSEEN if self.upkeep is None else self.upkeep.looked_at

    def joined(self, other: KnownState) -> KnownState:
        newer = max(self, other, key=lambda known: known.rank)
        deleted = max(self.deleted_upto, other.deleted_upto)
        return replace(newer, deleted_upto=deleted)


@dataclass(frozen=True)
class FloorLocation:
    """Where one copy of a table's floor is (`catalog.state.floors.floor`)."""

    location: Location
    prefix: str

    @classmethod
    def on_storage(cls, base: Location, table_id: str) -> FloorLocation:
        return cls(base, f"{ON_STORAGES}/{table_id}")

    @property
    def table_id(self) -> str:
        return self.prefix.rpartition("/")[2]

    @classmethod
    def in_state(cls, state: Location, table_id: str) -> FloorLocation:
        return cls(state, f"{IN_STATE}/{table_id}")
