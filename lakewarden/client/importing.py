"""Imports rows of an export for a user of this warehouse."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakewarden.errors import InvalidArgument
from lakewarden.maintenance.export.contents import Export, ExportedTable, chosen, exported_files, exported_rows, read_manifest
from lakewarden.tables.client.client import TableClient
from lakewarden.tables.rows.files import RowsWithFiles, file_columns


def import_export(open_table: Callable[[str], TableClient], source: str, user: str, tables: Sequence[str]) -> dict[str, int]:
    """As `Lakehouse.import_user`; no names mean all of the export. The rows of all tables are checked before any is written."""
    found = read_manifest(source)
    wanted = [(open_table(table.name), table) for table in chosen(found, tables)]
    taken = [(table.name, client, _taken(found, table, client, user)) for client, table in wanted]
    return {name: client.write_taken(rows, user=user).rows for name, client, rows in taken}


def _taken(found: Export, table: ExportedTable, client: TableClient, user: str) -> RowsWithFiles:
    columns = client.table.schema.names
    there = exported_rows(found, table).scan()
    if missing := [name for name in columns if name not in there.schema.names]:
        raise InvalidArgument(f"the export's {table.name} has no column {missing[0]!r}, which the table here has: drop it first")
    rows = client.completed(there.select(columns), user=user, follows=False)
    return RowsWithFiles(rows, exported_files(found, table, rows, file_columns(client.table.schema)), follows=False)
