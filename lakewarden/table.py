"""A table as people use it: write, delete, read, history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import Table
from lakewarden.delta.history import HistoryEntry, history
from lakewarden.errors import Conflict, ConstraintViolation, InvalidArgument
from lakewarden.log.position import position_of
from lakewarden.log.record import OP, USER, LogBatch
from lakewarden.log.view import LogView, read_view
from lakewarden.log.writer import LogWriter, Receipt
from lakewarden.operations.read import Freshness, read_scope
from lakewarden.rows.defaults import Defaults
from lakewarden.rows.intake import Rows, to_arrow
from lakewarden.rows.validate import keys, validated
from lakewarden.scope import Scope
from lakewarden.storage.paths import check_user
from lakewarden.warehouse import Warehouse, find_table

WriteMode = Literal["upsert", "insert"]

_UPSERT = 0
_DELETE = 1
_INSERT_ATTEMPTS = 20
"""Rounds of read-and-append that an insert takes part in before it says CONFLICT; each lost one is somebody's success."""


@dataclass(frozen=True)
class TableClient:
    """One table of an open warehouse; made by `Lakehouse.table`."""

    warehouse: Warehouse
    table: Table
    writer: LogWriter

    def write(self, rows: Rows, *, user: str | None = None, user_column: str | None = None, mode: WriteMode = "upsert") -> Receipt:
        """Appends rows to the write log; returns once they are durable.

        Args:
            rows: dicts, pandas, Arrow or polars.
            user: whose rows they are (USER tables).
            user_column: instead of `user`, the column that names each row's user; it is not stored.
            mode: `upsert` replaces a live key, `insert` refuses it.

        Raises:
            InvalidArgument: an unknown column, or the user is missing or not wanted.
            ConstraintViolation: a value of the wrong type or range, NULL in a key or a NOT NULL column, a key twice in the
                call, or, under `insert`, a key that is live. Nothing was written.
        """
        given, users = self._with_users(to_arrow(rows), user, user_column)
        checked = validated(self.table.schema, given, self._defaults(user), users)
        batch = self._batch(checked, users, _UPSERT)
        if mode == "upsert":
            return self.writer.append(batch)
        return self._insert(batch)

    def delete(self, key_rows: Rows, *, user: str | None = None, user_column: str | None = None) -> Receipt:
        """Appends tombstones for the rows with these primary keys; a key that is not there is no error."""
        given, users = self._with_users(to_arrow(key_rows), user, user_column)
        return self.writer.append(self._batch(keys(self.table.schema, given, users), users, _DELETE))
