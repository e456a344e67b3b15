"""Rows of a caller who knows a table's columns as they were: each value goes to the column that its name meant then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from lakewarden.catalog.model import TableSchema
from lakewarden.errors import SchemaChanged
from lakewarden.tables.rows.intake import RowParts, Rows, absent_mark, to_arrow


@dataclass(frozen=True)
class Renaming:
    """From the names in `known` to those in `newest`. A name that `known` does not have stays as it is."""

    known: TableSchema
    newest: TableSchema

    def name(self, name: str) -> str:
        """Raises:
        SchemaChanged: its column was dropped.
        """
        found = self._names.get(name, name)
        if found is None:
            raise SchemaChanged(f"column {name!r} was dropped since the table was opened; nothing was written: open it again")
        return found

    def row(self, row: Mapping[str, object]) -> dict[str, object]:
        return {self.name(name): value for name, value in row.items()}

    def rows(self, rows: Rows) -> Rows:
        """The same rows where nothing was renamed or dropped. Raises as `to_arrow` and `name`."""
        if not self._names:
            return rows
        return self._renamed(rows)

    def parts(self, parts: RowParts) -> RowParts:
        return RowParts(lambda: map(self._table, parts.tables())) if self._names else parts

    def _renamed(self, rows: Rows) -> Rows:
        if isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows):
            return [self.row(row) for row in rows]  # values of Python may be files, which Arrow does not hold
        return self._table(to_arrow(rows, self.known))

    def _table(self, given: pa.Table) -> pa.Table:
        marks = {absent_mark(name): name for name in given.column_names}
        return given.rename_columns(
            [absent_mark(self.name(marks[name])) if name in marks else self.name(name) for name in given.column_names]
        )

    @cached_property
    def _names(self) -> dict[str, str | None]:
        """Those that changed; None for a column that was dropped."""
        if self.known.version == self.newest.version:
            return {}
        now = {column.id: column.name for column in self.newest.columns}
        return {column.name: now.get(column.id) for column in self.known.columns if now.get(column.id) != column.name}
