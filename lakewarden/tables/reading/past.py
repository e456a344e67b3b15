"""Reads one scope as of a version of its past: cold rows only, with the columns that it had then."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from lakewarden.base.connection import Location
from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.past import AsOf
from lakewarden.delta.reading.bounds import rows_within
from lakewarden.delta.reading.past import check_files, open_numbered, open_past
from lakewarden.delta.reading.rows import read_rows
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Corrupt
from lakewarden.tables.reading.scope import Place, ReadSelection, where_it_lies


@dataclass(frozen=True)
class PastScope:
    """One version of a scope, found once: whatever is read of it is of that version, though the scope may be moved meanwhile."""

    place: Place
    location: Location
    table: ScopeTable
    schemas: tuple[TableSchema, ...]
    """Of the table up to this version, oldest first."""

    @property
    def schema(self) -> TableSchema:
        """The columns that the scope had then."""
        return self.schemas[-1]

    def rows(self, wanted: ReadSelection) -> pa.Table:
        """The part of its rows, in no particular order. Columns are those of `schema`.

        What was read of a file is not kept: a file that a vacuum removed must not be read from memory.

        Raises:
            NotFound: files of the version are no longer there; the message names the versions that can be read.
            Corrupt: a file cannot be read.
        """

        def read(target: ScopeTarget) -> tuple[pa.Table, bool]:
            here = target.location == self.location
            table = self.table if here else open_numbered(target, self.table.version)
            try:
                rows = read_rows(table, self.schemas, wanted.columns, wanted.bounds)
            except Corrupt:
                check_files(target, table)
                raise
            return rows_within(rows, wanted.bounds), False

        return where_it_lies(self.place, read)


def past_of(place: Place, as_of: AsOf, now: datetime) -> PastScope:
    """Finds the version. Raises as `open_past`."""

    def look(target: ScopeTarget) -> tuple[PastScope, bool]:
        table = open_past(target, as_of, now)
        then = target.schemas.index(table.schema_version(target.schemas)) + 1
        return PastScope(place, target.location, table, target.schemas[:then]), False

    return where_it_lies(place, look)
