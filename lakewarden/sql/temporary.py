"""The temporary tables of one session, in its memory: nothing of them is in the catalog or on a storage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Table
from lakewarden.errors import NotFound, Unsupported
from lakewarden.tables.rows.intake import RowParts

_MOST_CHUNKS = 64
"""Rows that come one by one are put together when there are more: each chunk has a cost of its own."""


@dataclass(frozen=True)
class TemporaryTable:
    """`table` is in no catalog. `rows` has its columns, and `_seq`."""

    table: Table
    rows: pa.Table


class TemporaryTables:
    """Created with a session, and gone with it. For one thread."""

    def __init__(self, most_bytes: int = 0) -> None:
        self._most_bytes = most_bytes
        self._held: dict[TableName, TemporaryTable] = {}

    def __iter__(self) -> Iterator[TableName]:
        return iter(self._held)

    def find(self, name: TableName) -> TemporaryTable | None:
        return self._held.get(name)

    def held(self) -> Mapping[TableName, TemporaryTable]:
        """All of them as they are now, for `restore`."""
        return dict(self._held)

    def restore(self, held: Mapping[TableName, TemporaryTable]) -> None:
        self._held = dict(held)

    def add(self, held: TemporaryTable) -> None:
        self._held[held.table.name] = held

    def replace_rows(self, name: TableName, rows: pa.Table) -> None:
        """Raises:
        NotFound: the table does not exist any more.
        Unsupported: the session's tables would take more memory than they may. The rows stay as they were.
        """
        held = self._held.get(name)
        if held is None:
            raise NotFound(f"there is no temporary table {name}")
        self._check(name, self._bytes - held.rows.nbytes + rows.nbytes)
        chunks = max((column.num_chunks for column in rows.columns), default=0)
        self._held[name] = replace(held, rows=rows.combine_chunks() if chunks > _MOST_CHUNKS else rows)

    def joined(self, name: TableName, given: RowParts) -> pa.Table:
        """The rows of all parts, which are to be added to a table.

        Raises:
            Unsupported: as `replace_rows`, once they are too many.
        """
        rows, size = list[pa.Table](), self._bytes
        for part in given.tables():
            size += part.nbytes
            self._check(name, size)
            rows.append(part)
        return pa.concat_tables(rows)

    @property
    def _bytes(self) -> int:
        return sum(each.rows.nbytes for each in self._held.values())

    def _check(self, name: TableName, size: int) -> None:
        if size > self._most_bytes:
            raise Unsupported(
                f"the temporary tables of a session may take {self._most_bytes:,} bytes (sql.temporary_bytes), and with these"
                f" rows {name} and the others would take {size:,} or more: use a table of the warehouse"
            )

    def drop(self, name: TableName) -> bool:
        """Returns whether there was such a table."""
        return self._held.pop(name, None) is not None
