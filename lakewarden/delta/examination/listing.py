"""The objects of one table, as a listing that somebody else made shows them, and of which kinds they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute

from lakewarden.delta.replay.segment import LOG, LogFiles

pc: Any = pyarrow.compute
"""Its stubs do not know chunked columns."""

MOST_LOG_OBJECTS = 2_000_000
"""Names in one log: some gigabyte of memory. Delta removes old commits long before."""

_DATA = r"\.parquet$"
_VECTOR = r"(?:^|/)deletion_vector_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.bin$"
_CHANGES = r"^_change_data/.*\.parquet$"
_HIDDEN = r"(?:^|/)(?:\.|_[^/=]*(?:/|$))"
"""A part that begins with a dot, or with an underscore unless it is a partition, as `_col=1` is: no reader looks there."""


class ListingLine(Protocol):
    """A line of a listing, as `SourceObject` and `StoredObject` are."""

    @property
    def key(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def modified(self) -> datetime: ...


@dataclass(frozen=True)
class LogObject:
    """An object of the log. `size` in bytes."""

    size: int
    modified: datetime


@dataclass(frozen=True)
class TableListing:
    """The objects of one table as one listing shows them, in any order. All three are equally long."""

    keys: list[str]
    """Relative to the table."""
    sizes: list[int]
    """In bytes."""
    modified: list[datetime]

    @classmethod
    def of(cls, objects: Iterable[ListingLine], base: str = "") -> TableListing:
        """`base`: the key of the table, where those of the objects are relative to a place above it."""
        start = len(base) + 1 if base else 0
        found = [*objects]
        return cls([each.key[start:] for each in found], [each.size for each in found], [each.modified for each in found])

    @cached_property
    def log(self) -> dict[str, LogObject]:
        """The objects of the log, by name."""
        every = zip(self.keys, self.sizes, self.modified, strict=True)
        return {key: LogObject(size, modified) for key, size, modified in every if key.startswith(f"{LOG}/")}

    @cached_property
    def log_files(self) -> LogFiles:
        return LogFiles.of(self.log)

    @cached_property
    def files(self) -> ListedFiles:
        """All else."""
        places = [place for place, key in enumerate(self.keys) if not key.startswith(f"{LOG}/")]
        keys = pa.array([self.keys[place] for place in places], pa.string())
        sizes = pa.array([self.sizes[place] for place in places], pa.int64())
        return ListedFiles(keys, sizes, pa.array([self.modified[place] for place in places], pa.timestamp("us", "UTC")))

    def with_log(self, objects: Iterable[ListingLine]) -> TableListing:
        """The same with another listing of the log."""
        places = [place for place, key in enumerate(self.keys) if not key.startswith(f"{LOG}/")]
        new = TableListing.of(objects)
        return TableListing(
            [*(self.keys[place] for place in places), *new.keys],
            [*(self.sizes[place] for place in places), *new.sizes],
            [*(self.modified[place] for place in places), *new.modified],
        )


@dataclass(frozen=True)
class ListedFiles:
    """The objects beside the log, as Arrow columns: there may be millions."""

    keys: Any
    sizes: Any
    modified: Any

    @cached_property
    def is_data(self) -> Any:
        """Which are data files by their names."""
        return pc.and_not(pc.match_substring_regex(self.keys, _DATA), self._is_hidden)

    @cached_property
    def is_alien(self) -> Any:
        """Which are neither of a kind that a writer of Delta makes nor hidden."""
        known = pc.or_(self.is_data, self._is_hidden)
        return pc.invert(pc.or_(known, pc.match_substring_regex(self.keys, f"{_VECTOR}|{_CHANGES}")))

    @cached_property
    def _is_hidden(self) -> Any:
        return pc.match_substring_regex(self.keys, _HIDDEN)

    def sizes_of(self, keys: Any) -> Any:
        """The size of each; null where it was not listed."""
        return pc.take(self.sizes, pc.index_in(keys, value_set=self.keys))
