"""What a check has to know of a table's rows, found file by file: in bounded memory, whatever the number of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.buckets import bucket_named, bucket_of
from lakewarden.catalog.model import TableSchema
from lakewarden.delta.reading.file_group import FileGroup
from lakewarden.delta.reading.rows import read_rows
from lakewarden.delta.table import ScopeTable
from lakewarden.log.record import SEQ
from lakewarden.tables.keys.seen_keys import AT_ONCE, SeenKeys


@dataclass(frozen=True)
class RowFacts:
    repeated: int
    """Rows whose key another row has."""
    nulls: tuple[str, ...]
    """Columns of the key that have a NULL."""
    newest: int | None
    """The highest `_seq`; None where no row has one."""
    misplaced: int = 0
    """Rows in a file of another bucket than that of their key."""


def row_facts(table: ScopeTable, schemas: tuple[TableSchema, ...], at_once: int = AT_ONCE, buckets: int = 1) -> RowFacts:
    """Reads the keys and `_seq` of every row.

    Args:
        buckets: into how many files the rows of a partition are divided by their key.

    Raises:
        Corrupt, Unsupported: as `read_rows`.
    """
    keys = schemas[-1].primary_key
    seen = _Seen(keys, buckets)
    parts = seen.of(_parts(table, schemas, [*keys, SEQ]))
    repeated = _repeated(parts, keys, at_once)
    return RowFacts(repeated, tuple(name for name in keys if name in seen.nulls), seen.newest, seen.misplaced)


def _parts(table: ScopeTable, schemas: tuple[TableSchema, ...], columns: Sequence[str]) -> Iterator[tuple[int | None, pa.Table]]:
    """Rows with the bucket that their file's name says."""
    if not table.has_files:  # a fence of a dropped table, perhaps with its columns
        return
    if not table.plain:
        yield None, read_rows(table, schemas, columns)
        return
    for each in FileGroup.of(table, table.files(), schemas, columns).singly():
        (file,) = each.files
        yield bucket_named(file.path), each.read()


class _Seen:
    """Collects what each part shows alone, on its way to where parts are compared."""

    def __init__(self, keys: Sequence[str], buckets: int) -> None:
        self._keys = keys
        self._buckets = buckets
        self.nulls: set[str] = set()
        self.newest: int | None = None
        self.misplaced = 0

    def of(self, parts: Iterator[tuple[int | None, pa.Table]]) -> Iterator[pa.Table]:
        for bucket, part in parts:
            if bucket is not None and self._keys:
                self.misplaced += int((bucket_of(part, self._keys, self._buckets).to_numpy() != bucket).sum())
            self.nulls |= {name for name in self._keys if part[name].null_count}
            ends = (self.newest, pc.max(part[SEQ]).as_py())
            self.newest = max((each for each in ends if each is not None), default=None)
            yield part.select(self._keys)


def _repeated(parts: Iterator[pa.Table], keys: Sequence[str], at_once: int) -> int:
    with SeenKeys(keys, at_once) as seen:
        for part in parts:
            if keys:
                seen.add(part)
        return seen.repeated()
