"""What follows from all of a table's floor, kept for one state of it: the sums over all scopes, and that all users are known."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TypeVar

import msgspec
import numpy as np

from lakewarden.catalog.state.floor import FloorScan
from lakewarden.catalog.state.floor_entries import AMOUNTS, NO_TABLE, UNSEEN, KnownScopes, Numbers, Rows
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

T = TypeVar("T")

# The sums over all scopes of a table, kept for one state of its floor: so that they are read without the floor's notes.
TOTALS = "totals"

_DAY = 24 * 60 * 60 * 1000
"""Milliseconds."""

FILE_SIZES = (64 << 10, 1 << 20, 8 << 20, 32 << 20, 128 << 20)
"""Bytes: where one group of scopes by the mean size of their files ends and the next begins."""

FILE_COUNTS = (2, 6, 17, 65, 257)
"""The same of scopes by their number of files."""


@dataclass(frozen=True)
class RewriteSum:
    """What an operation would do in all scopes together, by the newest notes."""

    scopes: int
    """In which it would do something."""
    files: int
    made: int
    """How many files these would become."""
    bytes: int
    unknown: int
    """Scopes with files of which that is not known."""

    @staticmethod
    def of_all(parts: Sequence[RewriteSum]) -> RewriteSum:
        return RewriteSum(**{each.name: sum(getattr(one, each.name) for one in parts) for each in fields(RewriteSum)})


@dataclass(frozen=True)
class Totals:
    """What the state knows of all scopes of a table together, without those that were given up."""

    rows: int
    files: int
    bytes: int
    unseen: int
    """Scopes that were not looked at, so that their files and bytes are unknown."""
    committed_at: int
    """When the newest commit of ours was made that is known of, in milliseconds; 0 when none is."""
    dead_bytes: int
    """Of files that commits replaced, and that a vacuum has not deleted yet."""
    dead_unknown: int
    """Scopes of which these are not known."""
    dead_since: dict[int, int]
    """The bytes by the day of which the oldest of a scope's is: the number of days since 1970."""
    compact: RewriteSum
    optimize: RewriteSum
    file_sizes: tuple[int, ...]
    """Scopes by the mean size of their files: those below each of `FILE_SIZES`, and the others."""
    file_counts: tuple[int, ...]
    """Scopes by how many files they have: fewer than each of `FILE_COUNTS`, and the others."""

    @classmethod
    def of_parts(cls, parts: Sequence[KnownScopes]) -> Totals:
        """Of all scopes of the parts, each by its newest note. The largest part is not copied: of a million notes that takes half
        a gigabyte, and it has most of them once."""
        *small, largest = sorted(parts, key=len) or [KnownScopes.of({})]
        if not small:
            return cls.of(largest)
        news = KnownScopes.union(small)
        again = largest.rows_of(news)
        return cls.of(largest, besides=again).plus(cls.of(KnownScopes.union([news, largest.only(again)])))

    def plus(self, other: Totals) -> Totals:
        """Both together, of different scopes."""
        days = {*self.dead_since, *other.dead_since}
        return Totals(
            self.rows + other.rows,
            self.files + other.files,
            self.bytes + other.bytes,
            self.unseen + other.unseen,
            max(self.committed_at, other.committed_at),
            self.dead_bytes + other.dead_bytes,
            self.dead_unknown + other.dead_unknown,
            {day: self.dead_since.get(day, 0) + other.dead_since.get(day, 0) for day in sorted(days)},
            RewriteSum.of_all((self.compact, other.compact)),
            RewriteSum.of_all((self.optimize, other.optimize)),
            tuple(map(sum, zip(self.file_sizes, other.file_sizes, strict=True))),
            tuple(map(sum, zip(self.file_counts, other.file_counts, strict=True))),
        )

    @classmethod
    def of(cls, known: KnownScopes, besides: Rows | None = None) -> Totals:
        """Of these notes, without the rows that are `besides`."""
        # What was given up, and scopes that were looked at and have no table, have no files.
        there = ~known["forgotten"].astype(np.bool_) & (known["version"] != NO_TABLE)
        there &= True if besides is None else ~besides
        some = slice(None) if there.all() else there  # of a million, a copy of each column takes 200 MB
        found = {name: known[name][some] for name in _ADDED_UP}
        rows, files, size = (int(found[name].sum()) for name in ("rows", "files", "bytes"))
        full = found["files"] > 0
        dead = found["dead_bytes"]
        return cls(
            rows,
            files,
            size,
            int((found["looked_at"] == UNSEEN).sum()),
            int(found["committed_at"].max(initial=0)),
            int(dead[dead != UNSEEN].sum()),
            int((dead == UNSEEN).sum()),
            _by_day(found["dead_since"], dead),
            _rewrites(full, found["compact_files"], np.minimum(found["compact_files"], 1), found["compact_bytes"]),
            _rewrites(full, found["optimize_files"], found["optimize_made"], found["optimize_bytes"]),
            _grouped(found["bytes"][full] // found["files"][full], FILE_SIZES),
            _grouped(found["files"][full], FILE_COUNTS),
        )


_ADDED_UP = ("rows", "files", "bytes", "looked_at", "committed_at", "dead_since", *AMOUNTS)


def _by_day(since: Numbers, dead: Numbers) -> dict[int, int]:
    some = dead > 0
    days, place = np.unique(since[some] // _DAY, return_inverse=True)
    sums = np.zeros(len(days), np.int64)
    np.add.at(sums, place, dead[some])
    return dict(zip(days.tolist(), sums.tolist(), strict=True))


def _rewrites(full: Rows, files: Numbers, made: Numbers, size: Numbers) -> RewriteSum:
    some = files > 0
    sums = [int(each[some].sum(dtype=np.int64)) for each in (files, made, size)]
    return RewriteSum(int(some.sum()), sums[0], sums[1], sums[2], int((full & (files == UNSEEN)).sum()))


def _grouped(values: Numbers, ends: Sequence[int]) -> tuple[int, ...]:
    return tuple(np.bincount(np.searchsorted(ends, values, side="right"), minlength=len(ends) + 1).tolist())


def find_totals(state: ObjectStore, table_id: str, scan: FloorScan) -> Totals | None:
    """Returns the sums for a floor of these objects."""
    return _find(state, f"{TOTALS}/{table_id}/{_digest(scan)}", Totals)


def keep_totals(state: ObjectStore, table_id: str, scan: FloorScan, totals: Totals) -> None:
    """Replaces the table's sums by these."""
    _replace(state, f"{TOTALS}/{table_id}", _digest(scan), totals)


def _digest(scan: FloorScan) -> str:
    return hashlib.sha256("\n".join(sorted(scan.names)).encode()).hexdigest()[:32]


# Which objects of a floor know all users of a table: so that a look at names alone says that no scope is unknown.
#
# The note names the registry's objects and the floor's of that time. It holds as long as each of the floor's is there, or was
# absorbed by one that is; of the registry's, users who were added since are compared alone. Without it, every user is compared
# (`maintenance.plans.census`).

WHOLE = "whole"


@dataclass(frozen=True)
class Whole:
    """All users of a registry, and the objects of a floor that know them."""

    users: int
    registry: frozenset[str]
    """The names of the registry's objects; empty for a table with one scope."""
    objects: frozenset[str]
    key: str
    """What the warehouse's key makes of no name: by another key, nobody is known."""

    def holds(self, scan: FloorScan, key: str) -> bool:
        """Returns whether all that is known to these objects is still known."""
        # An object that was joined into another is still known by it.
        return self.key == key and self.objects <= scan.names.union(*(head.absorbed for head in scan.heads.values()))


def find_whole(state: ObjectStore, table_id: str, registry: str) -> Whole | None:
    """Returns the note for this version of the registry."""
    return _find(state, f"{WHOLE}/{table_id}/{registry}", Whole)


def earlier_whole(state: ObjectStore, table_id: str) -> Whole | None:
    """Returns a note for another version of the registry."""
    found = state.list(f"{WHOLE}/{table_id}")
    return _find(state, found[0].key, Whole) if found else None


def keep_whole(state: ObjectStore, table_id: str, registry: str, whole: Whole) -> None:
    """Replaces the table's notes by this one."""
    _replace(state, f"{WHOLE}/{table_id}", registry, whole)


def _find(state: ObjectStore, key: str, kind: type[T]) -> T | None:
    """None where it is gone, or cannot be read: it is made again."""
    try:
        return msgspec.json.decode(state.get(key), type=kind)
    except (Missing, ValueError):
        return None


def _replace(state: ObjectStore, below: str, name: str, kept: Totals | Whole) -> None:
    state.delete(state.keys(below))
    with suppress(AlreadyThere):  # another process made the same
        state.create(f"{below}/{name}", msgspec.json.encode(kept))
