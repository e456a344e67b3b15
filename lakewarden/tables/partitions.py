"""Reads a SHARED table apart: its partitions as groups of files, all of one version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from lakewarden.base.quantities import portions
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.lifecycle.states import is_frozen
from lakewarden.delta.parquet.files import DataFile, by_partition
from lakewarden.delta.reading.bounds import files_to_read
from lakewarden.delta.reading.column_cache import ColdCache
from lakewarden.delta.reading.rows import FileGroup
from lakewarden.delta.table import ScopeTable
from lakewarden.tables.strong_read import Place, ReadSelection, where_it_lies

T = TypeVar("T")


@dataclass(frozen=True)
class Apart:
    """What a read of a table would take. `bytes` and `partitions` count files that may have a wanted row."""

    partitioned: bool
    plain: bool
    """Whether its files alone say which rows live."""
    partitions: int
    bytes: int
    table: ScopeTable | None
    target: ScopeTarget
    wanted: ReadSelection
    files: tuple[DataFile, ...]

    def groups(self, part_bytes: int) -> list[FileGroup]:
        """The files of whole partitions, about this many bytes in each group."""
        return self._groups(list(by_partition(self.files).values()), part_bytes)

    def packs(self, part_bytes: int) -> list[FileGroup]:
        """The files, wherever they are, about this many bytes in each group."""
        return self._groups([(file,) for file in self.files], part_bytes)

    def _groups(self, parts: Sequence[tuple[DataFile, ...]], part_bytes: int) -> list[FileGroup]:
        if self.table is None:
            return []
        found = portions(parts, lambda files: sum(file.size for file in files), part_bytes)
        packs = (list(chain.from_iterable(some)) for some in found)
        return [FileGroup.of(self.table, files, self.target.schemas, self.wanted.columns) for files in packs]


def read_apart(place: Place, wanted: ReadSelection, cache: ColdCache, use: Callable[[Apart], T]) -> T:
    """Returns what `use` makes of the table as of its last flush. Called again if the table was moved meanwhile."""

    def read(target: ScopeTarget) -> tuple[T, bool]:
        table = cache.tables.open(target)
        found = use(_apart(table, target, wanted))
        return found, table is not None and not is_frozen(table, target)

    return where_it_lies(place, read)


def _apart(table: ScopeTable | None, target: ScopeTarget, wanted: ReadSelection) -> Apart:
    partitioned = bool(target.schema.partition_by)
    if table is None:
        return Apart(partitioned, True, 0, 0, None, target, wanted, ())
    files = tuple(files_to_read(table, wanted.bounds if table.plain else (), target.schemas, target.buckets))
    return Apart(
        partitioned, table.plain, len(by_partition(files)), sum(file.size for file in files), table, target, wanted, files
    )
