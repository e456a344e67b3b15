"""What a check has to know of a table's rows, found file by file: in bounded memory, whatever the number of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import TableSchema
from lakewarden.delta.reading.rows import read_files, read_rows
from lakewarden.delta.table import ScopeTable
from lakewarden.log.record import SEQ

_AT_ONCE = 2_000_000
"""Rows whose keys are compared in memory; the keys of more are grouped by DuckDB, which writes to disk what does not fit."""

_MEMORY = "256MB"
_BATCH_ROWS = 100_000
_REPEATED = "SELECT coalesce(sum(_n - 1), 0) FROM (SELECT *, count(*) AS _n FROM keys GROUP BY ALL)"


@dataclass(frozen=True)
class RowFacts:
    repeated: int
    """Rows whose key another row has."""
    nulls: tuple[str, ...]
    """Columns of the key that have a NULL."""
    newest: int | None
    """The highest `_seq`; None where no row has one."""


def row_facts(table: ScopeTable, schemas: tuple[TableSchema, ...], at_once: int = _AT_ONCE) -> RowFacts:
    """Reads the keys and `_seq` of every row.

    Raises:
        Corrupt, Unsupported: as `read_rows`.
    """
    keys = schemas[-1].primary_key
    seen = _Seen(keys)
    parts = seen.of(_parts(table, schemas, [*keys, SEQ]))
    repeated = _repeated(parts, keys, large=sum(file.rows or 0 for file in table.files()) > at_once)
    return RowFacts(repeated, tuple(name for name in keys if name in seen.nulls), seen.newest)


def _parts(table: ScopeTable, schemas: tuple[TableSchema, ...], columns: Sequence[str]) -> Iterator[pa.Table]:
    if not table.plain:
        yield read_rows(table, schemas, columns)
        return
    for file in table.files():
        yield read_files(table, [file], schemas, columns)


class _Seen:
    """Collects what each part shows alone, on its way to where parts are compared."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        self.nulls: set[str] = set()
        self.newest: int | None = None

    def of(self, parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for part in parts:
            self.nulls |= {name for name in self._keys if part[name].null_count}
            ends = (self.newest, pc.max(part[SEQ]).as_py())
            self.newest = max((each for each in ends if each is not None), default=None)
            yield part.select(self._keys)


def _repeated(parts: Iterator[pa.Table], keys: Sequence[str], *, large: bool) -> int:
    if large and keys:
        return _grouped_on_disk(parts)
    found = [part for part in parts if keys]
    if not found:
        return 0
    rows = pa.concat_tables(found)
    return rows.num_rows - rows.group_by(list(keys)).aggregate([]).num_rows


def _grouped_on_disk(parts: Iterator[pa.Table]) -> int:
    import duckdb  # a check of small tables does without

    first = next(parts)
    batches = (batch for part in chain([first], parts) for batch in part.to_batches(_BATCH_ROWS))
    with TemporaryDirectory(prefix="lakewarden-check-") as folder:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY,
            "temp_directory": folder,
            "threads": 1,
            "preserve_insertion_order": False,
        }
        with duckdb.connect(config=settings) as connection:
            connection.register("keys", pa.RecordBatchReader.from_batches(first.schema, batches))
            row = connection.execute(_REPEATED).fetchone()
    assert row is not None, "an aggregate has one row"
    return int(row[0])
