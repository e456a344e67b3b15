"""FILE columns: files stored beside a scope, and rows that refer to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

import pyarrow as pa

from lakewarden.catalog.access import require
from lakewarden.catalog.model import Table
from lakewarden.errors import InvalidArgument, NotFound
from lakewarden.log.position import Receipt
from lakewarden.storage.open import open_store
from lakewarden.tables.client.reader import TableReader
from lakewarden.tables.files import StoredFile, open_file
from lakewarden.tables.rows.files import FILES, FileRef, Files, RowFile, RowsWithFiles, Upload, take_files
from lakewarden.tables.rows.intake import Rows, to_arrow
from lakewarden.tables.strong_read import ReadSelection, where_it_lies
from lakewarden.tables.warehouse import Warehouse

FileMode = Literal["upsert", "insert", "merge"]


class Rewritable(Protocol):
    """Reads and writes the rows of a table, as `TableClient` does."""

    @property
    def warehouse(self) -> Warehouse: ...
    @property
    def table(self) -> Table: ...
    @property
    def reader(self) -> TableReader: ...
    def revise(self, decide: Callable[[pa.Table], pa.Table], *, user: str | None, files: Files = ()) -> int: ...
    def write_taken(self, taken: RowsWithFiles, *, user: str | None, mode: Literal["upsert", "insert"]) -> Receipt: ...


@dataclass(frozen=True)
class FiledRows:
    """The files that the rows of a table refer to; errors are those of the client's methods of the same names."""

    client: Rewritable

    def take(self, rows: Rows, user: str | None) -> RowsWithFiles:
        warehouse, settings = self.client.warehouse, self.client.warehouse.settings.files

        def folder() -> str:
            return warehouse.folders.take(open_store(self.client.reader.target(user).location), FILES, settings.max_per_folder)

        return take_files(rows, self.client.table.schema, folder, settings, warehouse.clock())

    def put(self, row: Mapping[str, object], column: str, upload: Upload, user: str | None, mode: FileMode) -> FileRef:
        self._check_column(column)
        client = self.client
        taken = self.take([{**row, column: upload}], user)
        if mode == "merge":
            client.revise(lambda live: self._over(live, to_arrow(taken.rows, client.table.schema)), user=user, files=taken.files)
        else:
            client.write_taken(taken, user=user, mode=mode)
        return taken.files[0][0]

    def get(self, key: Mapping[str, object], column: str, user: str | None) -> bytes:
        return b"".join(self.open(key, column, user).pieces())

    def open(self, key: Mapping[str, object], column: str, user: str | None) -> StoredFile:
        self._check_column(column)
        table, reader = self.client.table, self.client.reader
        live = reader.scan(ReadSelection((*table.schema.primary_key, column)), user)
        text = next(iter(reader.row_of(live, to_arrow([key], table.schema)).column(column).to_pylist()), None)
        if not text:
            raise NotFound(f"{table.name} has no file in column {column!r} of the row {dict(key)}")
        ref = FileRef.found(text)
        if ref is None:
            raise NotFound(f"column {column!r} of the row {dict(key)} of {table.name} does not refer to a file")
        return where_it_lies(partial(reader.target, user), lambda target: (open_file(target, ref), True))

    def delete(self, key: Mapping[str, object], column: str, user: str | None) -> None:
        self._check_column(column)
        table = self.client.table

        def without(live: pa.Table) -> pa.Table:
            row = self.client.reader.row_of(live, to_arrow([key], table.schema))
            if not row.num_rows:
                raise NotFound(f"{table.name} has no row {dict(key)}")
            return row.set_column(row.column_names.index(column), column, pa.nulls(row.num_rows, pa.string()))

        self.client.revise(without, user=user)

    def all(self, user: str | None) -> list[RowFile]:
        table = self.client.table
        require(table, "files", "files")
        columns, key = table.schema.of_files, table.schema.primary_key
        rows = self.client.reader.scan(ReadSelection((*key, *columns)), user).sort_by([(name, "ascending") for name in key])
        return [
            RowFile({name: row[name] for name in key}, column, ref)
            for row in rows.to_pylist()
            for column in columns
            if (ref := FileRef.found(row[column])) is not None
        ]

    def _check_column(self, column: str) -> None:
        table = self.client.table
        require(table, "files", "files")
        if column not in table.schema.of_files:
            there = ", ".join(table.schema.of_files) or "none"
            raise InvalidArgument(f"{table.name} has no FILE column {column!r}; it has {there}")

    def _over(self, live: pa.Table, given: pa.Table) -> pa.Table:
        """Merges one row into the live one of its key, which keeps what the row leaves out."""
        there = self.client.reader.row_of(live, given)
        for name in given.column_names if there.num_rows else ():
            there = there.set_column(self.client.table.schema.names.index(name), name, given.column(name))
        return there if there.num_rows else given
