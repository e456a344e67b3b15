"""Checks the rows that callers give, and makes them a batch of the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakewarden.base.clock import Clock, NewId
from lakewarden.catalog.model import Table
from lakewarden.delta.known_rules import KNOWN_RULES
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.log.plain import Batch, PlainRow
from lakewarden.log.record import DELETE, UPSERT, LogBatch, log_batch
from lakewarden.storage.paths import check_user
from lakewarden.tables.rows.defaults import Defaults
from lakewarden.tables.rows.intake import Rows, split_users, to_arrow
from lakewarden.tables.rows.plain import plain_row
from lakewarden.tables.rows.validate import keys, validated


@dataclass(frozen=True)
class Revision:
    """What a look at a scope's rows leads to: rows to write, and keys of rows to remove. A key in both is written."""

    written: pa.Table | None = None
    removed: pa.Table | None = None


@dataclass(frozen=True)
class TableIntake:
    """`user` names the one user of all rows, `user_column` the column that names each row's; it is not stored."""

    table: Table
    clock: Clock
    new_id: NewId
    author: str
    """The value of CURRENT_USER() on a SHARED table."""
    repeats: bool = False
    """Whether a key may come again, whatever the table's option says: the last row counts."""

    def upserts(self, rows: Rows, user: str | None, user_column: str | None = None) -> Batch:
        """Raises:
        InvalidArgument, ConstraintViolation: as `TableClient.write`.
        """
        self._check_keyed()
        ruled = KNOWN_RULES.of(self.table.log_id)
        if not ruled and user_column is None and (values := plain_row(self.table.schema, rows)) is not None:
            return PlainRow(self.table.schema, self.owner(user, user_column), values)
        given, users = self._with_users(rows, user, user_column)
        repeats = self.repeats or self.table.options.on_duplicate == "replace"
        completed = self._completed(given, users, user, repeats=repeats)
        if ruled:
            from lakewarden.tables.ruled_rows import check_ruled  # opens tables: not for a process that only writes

            check_ruled(ruled, completed, users)
        return log_batch(self.table.schema, completed, users, UPSERT)

    def revision(self, revision: Revision, user: str | None) -> Batch:
        """One batch, so that all of it is appended or nothing. Raises as `upserts`."""
        written = None if revision.written is None else self.upserts(revision.written, user)
        # rows that others wrote may repeat a key
        removed = None if revision.removed is None else self.deletes(revision.removed, user, repeats=True)
        if written is None or removed is None:
            found = written or removed
            assert found is not None, "a revision writes or removes"
            return found
        return LogBatch(self.table.schema.version, pa.concat_tables([removed.rows, written.rows]))

    def deletes(self, key_rows: Rows, user: str | None, user_column: str | None = None, *, repeats: bool = False) -> LogBatch:
        """Tombstones for primary keys. `repeats`: a key may come again."""
        gone, users = self.keys(key_rows, user, user_column, repeats=repeats)
        return log_batch(self.table.schema, gone, users, DELETE)

    def keys(
        self, key_rows: Rows, user: str | None, user_column: str | None = None, *, repeats: bool = False
    ) -> tuple[pa.Table, pa.Array[Any]]:
        """Primary keys, and their users. `repeats` as in `deletes`."""
        self._check_keyed()
        given, users = self._with_users(key_rows, user, user_column)
        return keys(self.table.schema, given, users, repeats=repeats), users

    def completed(self, rows: Rows, user: str | None) -> pa.Table:
        """The rows as a write would store them: checked, with their defaults."""
        return self._completed(*self._with_users(rows, user, None), user)

    def _completed(self, given: pa.Table, users: pa.Array[Any], user: str | None, *, repeats: bool = False) -> pa.Table:
        shared = self.table.type == "SHARED"
        defaults = Defaults(self.clock, self.new_id, self.author if shared else user)
        return validated(self.table.schema, given, defaults, None if shared else users, repeats=repeats)

    def _check_keyed(self) -> None:
        """Raises:
        Unsupported: a SHARED table without a primary key, whose rows do not go through the log.
        """
        schema = self.table.schema
        if not (schema.keyed or schema.append_only):
            raise Unsupported(f"{self.table.name} has no primary key, and the log holds rows by their keys only")

    def _with_users(self, rows: Rows, user: str | None, user_column: str | None) -> tuple[pa.Table, pa.Array[Any]]:
        """The rows without the user's column, and each row's user; empty text on a SHARED table."""
        given = to_arrow(rows, self.table.schema)
        owner = self.owner(user, user_column)
        return (given, pa.repeat(owner, given.num_rows)) if user_column is None else split_users(given, user_column)

    def owner(self, user: str | None, user_column: str | None) -> str:
        """The user of all rows; empty text on a SHARED table, and where a column names them.

        Raises:
            InvalidArgument: a user of a SHARED table's rows; or none, or two, of another's.
        """
        if self.table.type == "SHARED":
            if user is not None or user_column is not None:
                raise InvalidArgument(f"{self.table.name} is a SHARED table: its rows belong to no user, so name none")
            return ""
        if (user is None) == (user_column is None):
            raise InvalidArgument(
                f"{self.table.name} is a {self.table.type} table: name either the user, or the column that names each row's"
            )
        return "" if user is None else check_user(user)
