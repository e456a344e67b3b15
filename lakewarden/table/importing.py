"""Rows of an export, written for a user of this warehouse."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakewarden.operations.exported import chosen, exported_files, exported_rows, read_manifest
from lakewarden.rows.files import Taken, file_columns
from lakewarden.table.client import TableClient


def import_export(open_table: Callable[[str], TableClient], source: str, user: str, tables: Sequence[str]) -> dict[str, int]:
    """As `Lakehouse.import_user`; no names mean all of the export."""
    found = read_manifest(source)
    wanted = [(open_table(table.name), table) for table in chosen(found, tables)]
    counts: dict[str, int] = {}
    for client, table in wanted:
        rows = exported_rows(found, table).scan().select(client.table.schema.names)
        files = exported_files(found, table, rows, file_columns(client.table.schema))
        counts[table.name] = client.write_taken(Taken(rows, files), user=user).rows
    return counts
