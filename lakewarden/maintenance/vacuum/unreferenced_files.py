"""Files of FILE columns that no row refers to: stored by a writer that died, or replaced by a plain write.

A running writer stores a file before its row, so only files older than `ORPHAN_AGE` are unreferenced for certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lakewarden.base.attempts import Attempts
from lakewarden.catalog.model import Table
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.reading.rows import read_rows
from lakewarden.delta.table import ScopeTable
from lakewarden.log.view import PendingRows
from lakewarden.storage.objects import Missing, StoredObject
from lakewarden.tables.rows.files import file_columns, is_stored_file, references
from lakewarden.tables.warehouse import Warehouse


def hot_files(warehouse: Warehouse, table: Table) -> dict[str | None, frozenset[str]]:
    """By user, the paths that rows in the log refer to; to be read before the scopes' tables.

    Raises:
        Conflict: flushes kept settling the rows while they were read.
    """
    columns = file_columns(table.schema)
    log = warehouse.log(table)
    attempts = Attempts(10, f"the log of {table.name} was settled", "while it was read")
    while True:
        attempts.next()
        # The log before the tables: rows that a flush moves in between are in at least one of the two.
        pending = log.view().pending if columns else dict[str, PendingRows]()
        try:
            return {user or None: _referred(log.rows(rows, table.schemas), columns) for user, rows in pending.items()}
        except Missing:
            continue  # a flush settled them meanwhile


def _referred(rows: pa.Table, columns: Sequence[str]) -> frozenset[str]:
    return frozenset(ref.path for ref in references(rows, columns))


def stray_files(
    listing: Sequence[StoredObject], target: ScopeTarget, versions: Iterable[ScopeTable], hot: frozenset[str]
) -> list[StoredObject]:
    """The files that neither these versions nor the log refer to."""
    stored = [found for found in listing if is_stored_file(found.key)]
    columns = file_columns(target.schema)
    if not stored or not columns:
        return stored
    known = hot.union(*(_referred(read_rows(version, target.schemas, columns), columns) for version in versions))
    return [found for found in stored if found.key not in known]
