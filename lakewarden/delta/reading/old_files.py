"""Live files of an older version, as files that a commit can add again, with their statistics."""

from __future__ import annotations

from collections.abc import Iterable

from lakewarden.delta.parquet.files import DataFile, NewFile
from lakewarden.delta.table import ScopeTable

_UNKNOWN = '{"minValues":{},"maxValues":{},"nullCount":{}}'


def known_files(table: ScopeTable, files: Iterable[DataFile]) -> tuple[NewFile, ...]:
    """Reads what the log of `table`'s version says about these files."""
    return tuple(_known(file, table.stats.get(file.path, _UNKNOWN)) for file in files)


def _known(file: DataFile, stats: str) -> NewFile:
    rows = file.rows or 0
    if '"numRecords"' not in stats:  # another writer's file: they were counted since
        stats = f'{{"numRecords":{rows},{stats[1:]}'
    version = file.schema_version or 1
    return NewFile(file.path, file.size, rows, stats, file.min_seq, file.max_seq, version, file.partition)
