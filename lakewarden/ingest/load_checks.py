"""Checks the rows of a block as a write would (`tables.rows.validate`), with the rows set aside that it would refuse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.clock import Clock, NewId
from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.errors import InvalidArgument
from lakewarden.storage.paths import check_user
from lakewarden.tables.rows.columns import Convert, Values, fit_apart
from lakewarden.tables.rows.defaults import Defaults
from lakewarden.tables.rows.intake import absent_mark, table_of
from lakewarden.tables.rows.validate import validated, why_needed


def text_column(name: str) -> SchemaColumn:
    """Stands for a column that the table does not have."""
    return SchemaColumn(0, name, ColumnType.parse("TEXT"), nullable=True, default=None)


@dataclass
class ConvertedBlock:
    """The rows of a block by column, converted. A value that does not fit is NULL here, and its row is in `misfits`."""

    rows: int
    broken: Mapping[int, str] = field(default_factory=dict)
    """Records that are no rows, by their number in the block, and why."""
    columns: dict[str, pa.Array[Any]] = field(default_factory=dict)
    absent: dict[str, pa.Array[Any]] = field(default_factory=dict)
    """By column, which rows do not have it: its default applies."""
    misfits: dict[int, str] = field(default_factory=dict)
    """Why a row is rejected."""

    def reject(self, row: int, why: str) -> None:
        """Notes the first reason only."""
        self.misfits.setdefault(row, why)

    def take(self, column: SchemaColumn, values: Values, convert: Convert[Values]) -> None:
        """Adds a column."""
        self.columns[column.name], misfits = fit_apart(convert, column.type, values)
        for row, why in misfits.items():
            self.reject(row, f"column {column.name!r}: {why}")


@dataclass(frozen=True)
class RowOwner:
    """Whose rows they are: one user's (empty of a SHARED table), or, by the column that names each row's user, many."""

    user: str = ""
    column: str | None = None
    author: str = ""
    """The value of CURRENT_USER() in rows of a SHARED table."""


@dataclass(frozen=True)
class CheckedBlock:
    """The rows of a block that are accepted, complete and in the table's types, and why each of the others is not."""

    rows: pa.Table
    users: pa.Array[Any] | None
    """Each row's user; None where all are of one."""
    rejects: dict[int, str]
    """By the record's number in the block."""


@dataclass(frozen=True)
class RowCheck:
    """Checks blocks of rows for one table. A key may come twice: then the later row counts, as with writes one by one."""

    schema: TableSchema
    owner: RowOwner
    clock: Clock
    new_id: NewId

    @property
    def extra(self) -> tuple[str, ...]:
        """The columns that a file has beside the table's."""
        return () if self.owner.column is None else (self.owner.column,)

    def check_names(self, names: Iterable[str]) -> None:
        """Checks the columns of a file whose rows all have the same ones.

        Raises:
            InvalidArgument: an unknown column, or one that is missing and must have a value.
        """
        given = list(names)
        columns = f"the columns are {', '.join([*self.schema.names, *self.extra])}"
        for name in self.extra:
            if name not in given:
                raise InvalidArgument(f"there is no column {name!r} to name the users; the file's columns are {', '.join(given)}")
        for name in given:
            if name not in self.schema.names and name not in self.extra:
                raise InvalidArgument(f"unknown column {name!r}; {columns}")
        for column in self.schema.columns:
            if column.name not in given and not column.nullable and column.default is None:
                raise InvalidArgument(f"column {column.name!r} is missing, and {why_needed(self.schema, column)}; {columns}")

    def __call__(self, given: ConvertedBlock) -> CheckedBlock:
        for column in self.schema.columns:
            self._check_null(given, column)
        users = self._users(given)
        kept = np.ones(given.rows, np.bool_)
        kept[list(given.misfits)] = False
        columns = {name: values for name, values in given.columns.items() if name not in self.extra}
        marks = {absent_mark(name): values for name, values in given.absent.items() if name not in self.extra}
        rows = table_of(columns | marks, given.rows, self.schema).filter(pa.array(kept))
        users = None if users is None else users.filter(pa.array(kept))
        own = self.owner.user or self.owner.author
        loose = replace(self.schema, primary_key=())
        made = validated(loose, rows, Defaults(self.clock, self.new_id, own), users)
        numbers = np.delete(np.arange(given.rows + len(given.broken)), list(given.broken))  # of the rows, among the records
        wrong = {int(numbers[row]): why for row, why in given.misfits.items()}
        return CheckedBlock(made, users, dict(given.broken) | wrong)

    def _check_null(self, given: ConvertedBlock, column: SchemaColumn) -> None:
        if column.nullable:
            return
        values, absent = given.columns.get(column.name), given.absent.get(column.name)
        if values is None:
            missing = np.full(given.rows, column.default is None)
        else:
            missing = values.is_null().to_numpy(zero_copy_only=False)
            if absent is not None and column.default is not None:
                missing = missing & ~absent.to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(missing):
            given.reject(int(row), f"column {column.name!r}: NULL or no value, and {why_needed(self.schema, column)}")

    def _users(self, given: ConvertedBlock) -> pa.Array[Any] | None:
        if self.owner.column is None:
            return None
        users = given.columns.get(self.owner.column)
        users = pa.nulls(given.rows, pa.string()) if users is None else users.cast(pa.string())
        wrong = [name for name in users.unique().to_pylist() if not _is_user(name)]
        for row in np.flatnonzero(pc.is_in(users, value_set=pa.array(wrong, pa.string())).to_numpy(zero_copy_only=False)):
            name = users[int(row)].as_py()
            given.reject(int(row), f"column {self.owner.column!r}: {name!r} is not the id of a user")
        return users


def _is_user(name: str | None) -> bool:
    if name is None:
        return False
    try:
        check_user(name)
    except InvalidArgument:
        return False
    return True
