"""Checks the rows that callers give, and makes them a batch of the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lakewarden.base.any_year import DAY_MICROS
from lakewarden.base.clock import Clock, NewId
from lakewarden.catalog.column_values import INTEGER_BITS, check_json
from lakewarden.catalog.model import Table, TableSchema
from lakewarden.delta.row_rules import KNOWN_RULES
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.log.record import DELETE, UPSERT, Batch, LogBatch, PlainRow, log_batch
from lakewarden.storage.paths import check_user
from lakewarden.tables.rows.columns import Convert, from_values
from lakewarden.tables.rows.defaults import Defaults
from lakewarden.tables.rows.intake import Rows, split_users, to_arrow
from lakewarden.tables.rows.validate import keys, validated

# Recognises a row of plain values that its table takes as they are. For one row, this costs a tenth of what Arrow's calls do.
#
# `catalog.column_values.convert` decides what fits; a row that is not recognised here is checked by `tables.rows.validate`.

_LARGE = 1 << 16
"""A longer text or more bytes in one value is not recognised."""

Test = Callable[[Any], bool]


def plain_row(schema: TableSchema, rows: Rows) -> dict[str, object] | None:
    """Returns the only row of a call, by column name, if it needs no conversion and no default; None otherwise."""
    if rows.__class__ is not list or len(rows) != 1 or (row := rows[0]).__class__ is not dict:
        return None
    plain = _plain(schema)
    tests = plain.tests
    for name, value in row.items():
        if value is None:
            if name not in plain.nullable:
                return None
        elif (test := tests.get(name)) is None or not test(value):
            return None
    return dict(row) if plain.needed <= row.keys() else None


@dataclass(frozen=True)
class _Plain:
    tests: Mapping[str, Test]
    nullable: frozenset[str]
    needed: frozenset[str]
    """Columns that a row cannot leave out: they are NOT NULL or have a default."""


@lru_cache(maxsize=1024)
def _plain(schema: TableSchema) -> _Plain:
    columns = schema.columns
    tested = (column for column in columns if column.type.name in _TESTS and column.name not in schema.partition_by)
    return _Plain(
        {column.name: _TESTS[column.type.name] for column in tested},
        frozenset(column.name for column in columns if column.nullable),
        frozenset(column.name for column in columns if not column.nullable or column.default is not None),
    )


def _of(kind: type) -> Test:
    return lambda value: value.__class__ is kind


def _whole(bits: int) -> Test:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return lambda value: value.__class__ is int and low <= value <= high


def _text(value: Any) -> bool:
    return value.__class__ is str and len(value) <= _LARGE and (value.isascii() or _is_unicode(value))


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    return True


def _bytes(value: Any) -> bool:
    return value.__class__ is bytes and len(value) <= _LARGE


def _timestamp(value: Any) -> bool:
    return value.__class__ is datetime and 1 < value.year < 9999  # in the first and last year, a zone may lead out of the range


def _time(value: Any) -> bool:
    return value.__class__ is int and 0 <= value < DAY_MICROS


def _json(value: Any) -> bool:
    try:
        if not _text(value):
            return False
        check_json(value)
    except ValueError:
        return False
    return True


_TESTS: dict[str, Test] = {
    "BOOLEAN": _of(bool),
    **{name: _whole(bits) for name, bits in INTEGER_BITS.items()},
    "DOUBLE": _of(float),
    "TEXT": _text,
    "BYTES": _bytes,
    "DATE": _of(date),
    "TIMESTAMP": _timestamp,
    "TIME": _time,
    "JSON": _json,
}
"""By type. The other types convert most values."""


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
    convert: Convert[Sequence[object]] = from_values
    """Reads the values of dicts, column by column."""

    def upserts(self, rows: Rows, user: str | None, user_column: str | None = None) -> Batch:
        """Raises:
        InvalidArgument, ConstraintViolation: as `TableClient.write`.
        """
        self._check_keyed()
        plain = user_column is None and not KNOWN_RULES.of(self.table.log_id)
        if plain and (values := plain_row(self.table.schema, rows)) is not None:
            return PlainRow(self.table.schema, self.owner(user, user_column), values)
        return self.batch(rows, user, user_column)

    def batch(self, rows: Rows, user: str | None, user_column: str | None) -> LogBatch:
        """The rows as the log has them, of a table with or without a key. Raises as `upserts`."""
        given, users = self._with_users(rows, user, user_column)
        repeats = self.repeats or self.table.options.on_duplicate == "replace"
        completed = self._completed(given, users, user, repeats=repeats)
        if ruled := KNOWN_RULES.of(self.table.log_id):
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
        """Raises Unsupported: a SHARED table without a primary key, whose rows do not go through the log."""
        schema = self.table.schema
        if not (schema.keyed or schema.append_only):
            raise Unsupported(f"{self.table.name} has no primary key, and the log holds rows by their keys only")

    def _with_users(self, rows: Rows, user: str | None, user_column: str | None) -> tuple[pa.Table, pa.Array[Any]]:
        """The rows without the user's column, and each row's user; empty text on a SHARED table."""
        given = to_arrow(rows, self.table.schema, self.convert)
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
