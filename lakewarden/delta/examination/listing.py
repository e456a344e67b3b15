"""The objects of one table, as a listing that somebody else made shows them, and of which kinds they are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain, takewhile
from typing import Any

import pyarrow as pa

from lakewarden.delta.replay.live_files import matching, pc
from lakewarden.delta.replay.log_objects import LOG, CheckpointFiles, LogFiles
from lakewarden.storage.objects import StoredObject

MOST_LOG_OBJECTS = 2_000_000
"""Names in one log: some gigabyte of memory. Delta removes old commits long before."""

_DATA = re.compile(r"(?:(?:[^._/][^/]*|_[^/=]*=[^/]*)?/)*(?:[^._/][^/]*|_[^/=]*=[^/]*)\.parquet")
"""No part of which is hidden, as `_OTHER` has it."""

_OTHER = re.compile(
    r"(?:[\s\S]*/)?(?:deletion_vector_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.bin|(?:\.|_[^/=]*/)[\s\S]*|_[^/=]*)"
)
"""Deletion vectors, and what is hidden: a part of it begins with a dot, or with an underscore unless it is a partition, as
`_col=1` is. No reader looks there, but for files of changes, in `_change_data`."""


@dataclass(frozen=True)
class TableListing:
    """The objects of one table as one listing shows them, in any order. All three are equally long."""

    keys: list[str]
    """Relative to the table."""
    sizes: list[int]
    """In bytes."""
    modified: list[datetime]

    @classmethod
    def of(cls, objects: Iterable[StoredObject]) -> TableListing:
        found = [*objects]
        return cls([each.key for each in found], [each.size for each in found], [each.modified for each in found])

    @cached_property
    def log(self) -> dict[str, StoredObject]:
        """The objects of the log, by name."""
        every = zip(self.keys, self.sizes, self.modified, strict=True)
        return {key: StoredObject(key, size, modified) for key, size, modified in every if key.startswith(f"{LOG}/")}

    @cached_property
    def log_files(self) -> LogFiles:
        return LogFiles.of(self.log)

    @cached_property
    def files(self) -> ListedFiles:
        """All else."""
        keys, sizes, _ = self._beside
        return ListedFiles(pa.array(keys, pa.string()), pa.array(sizes, pa.int64()))

    @property
    def replayed(self) -> list[StoredObject]:
        """The objects that lead to the newest version, as far as they are there: a checkpoint, and the commits behind it."""
        files = self.log_files
        start = files.checkpoints[0] if files.checkpoints else CheckpointFiles(-1, ())
        names = chain(start.names, (name for _, name in files.behind(start.version, files.newest or 0)))
        return [self.log[name] for name in takewhile(self.log.__contains__, names)]

    def with_log(self, objects: Iterable[StoredObject]) -> TableListing:
        """The same with another listing of the log."""
        (keys, sizes, modified), new = self._beside, TableListing.of(objects)
        return TableListing([*keys, *new.keys], [*sizes, *new.sizes], [*modified, *new.modified])

    @property
    def _beside(self) -> tuple[list[str], list[int], list[datetime]]:
        """What is not in the log."""
        places = [place for place, key in enumerate(self.keys) if not key.startswith(f"{LOG}/")]
        return ([self.keys[at] for at in places], [self.sizes[at] for at in places], [self.modified[at] for at in places])


@dataclass(frozen=True)
class ListedFiles:
    """The objects beside the log, as Arrow columns: there may be millions."""

    keys: Any
    sizes: Any

    @cached_property
    def is_data(self) -> Any:
        """Which are data files by their names."""
        return matching(self.keys, _DATA)

    @cached_property
    def alien(self) -> int:
        """How many are neither of a kind that a writer of Delta makes nor hidden."""
        if self.is_data.true_count == len(self.keys):
            return 0
        rest = self.keys.filter(pc.invert(self.is_data))
        return len(rest) - int(matching(rest, _OTHER).true_count)

    def sizes_of(self, keys: Any) -> Any:
        """The size of each; null where it was not listed."""
        return pc.take(self.sizes, pc.index_in(keys, value_set=self.keys))
