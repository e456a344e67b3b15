"""What a check has to know of a table's rows, found file by file: in bounded memory, whatever the number of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import TableSchema
from lakewarden.delta.reading.rows import read_parts
from lakewarden.delta.table import ScopeTable
from lakewarden.log.record import SEQ
from lakewarden.operations.reading.seen_keys import AT_ONCE, SeenKeys


@dataclass(frozen=True)
class RowFacts:
    repeated: int
    """Rows whose key another row has."""
    nulls: tuple[str, ...]
    """Columns of the key that have a NULL."""
    newest: int | None
    """The highest `_seq`; None where no row has one."""


def row_facts(table: ScopeTable, schemas: tuple[TableSchema, ...], at_once: int = AT_ONCE) -> RowFacts:
    """Reads the keys and `_seq` of every row.

    Raises:
        Corrupt, Unsupported: as `read_rows`.
    """
    keys = schemas[-1].primary_key
    seen = _Seen(keys)
    parts = seen.of(read_parts(table, schemas, [*keys, SEQ]))
    repeated = _repeated(parts, keys, at_once)
    return RowFacts(repeated, tuple(name for name in keys if name in seen.nulls), seen.newest)


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


def _repeated(parts: Iterator[pa.Table], keys: Sequence[str], at_once: int) -> int:
    with SeenKeys(keys, at_once) as seen:
        for part in parts:
            if keys:
                seen.add(part)
        return seen.repeated()
