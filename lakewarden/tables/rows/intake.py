"""Converts the rows that callers pass in (dicts, pandas, polars, Arrow) to one Arrow table.

A dict may leave a column out, which differs from None: the column's default applies. If only some rows have a column,
a mark column beside it says which (`absent_mark`); it stays with its rows through filters and slices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.column_values import INTEGER_BITS
from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.errors import ConstraintViolation, InvalidArgument, SchemaChanged
from lakewarden.storage.paths import MAX_USER, check_user
from lakewarden.tables.rows.columns import Convert, Unfit, first_invalid, from_values, single, unfit, unwrapped

_MARK = "absent: "
_ACCEPTED = "rows must be a list of dicts, a pandas or polars data frame, or Arrow data"


class ArrowStream(Protocol):
    """Anything that exports an Arrow C stream: pyarrow, polars, DuckDB relations and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Rows = Iterable[Mapping[str, object]] | ArrowStream


@dataclass(frozen=True)
class RowParts:
    """Rows that are too many to be in memory together."""

    tables: Callable[[], Iterator[pa.Table]]
    """Yields them, as often as it is called."""


def held(rows: Rows) -> Rows:
    """The rows as they can be read more than once: those of a generator, or of a reader, are taken into memory."""
    if isinstance(rows, Sized):
        return rows
    if hasattr(rows, "__arrow_c_stream__"):
        return _from_stream(rows)
    return [*rows] if hasattr(rows, "__iter__") else rows


def to_arrow(rows: Rows, schema: TableSchema, convert: Convert[Sequence[object]] = from_values) -> pa.Table:
    """Returns the rows with their own columns, in their order. Converts Python values to the schema's types.

    Args:
        convert: reads the values of dicts, column by column.

    Raises:
        InvalidArgument: the argument is not a kind of rows, or a column's name is not text or appears twice.
        ConstraintViolation: a Python value does not fit its column.
    """
    if rows.__class__.__module__.partition(".")[0] == "pandas":
        return _from_pandas(rows, schema)  # by name, since importing pandas takes a second
    if hasattr(rows, "__arrow_c_stream__"):
        return _from_stream(rows)
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise InvalidArgument(f"{_ACCEPTED}, not {rows.__class__.__name__}")
    return _from_dicts(list(rows), schema, convert)


def split_users(rows: pa.Table, column: str) -> tuple[pa.Table, pa.Array[Any]]:
    """Returns the rows without the column that names users, and that column.

    Raises:
        InvalidArgument: the column does not exist or is not text, or an id is invalid.
        ConstraintViolation: the column has a NULL.
    """
    if column not in rows.column_names:
        raise InvalidArgument(f"there is no column {column!r} to name the users; the columns are {', '.join(rows.column_names)}")
    users = rows[column].combine_chunks()
    if not (pa.types.is_string(users.type) or pa.types.is_large_string(users.type)):
        raise InvalidArgument(f"column {column!r} names users, so it must be text, not {users.type}")
    if users.null_count:
        raise ConstraintViolation(f"column {column!r} names users and has {users.null_count} NULLs")
    names = users.unique()
    sizes = pc.utf8_length(cast("Any", names)).to_numpy()
    for row in np.flatnonzero((sizes < 1) | (sizes > MAX_USER)):
        check_user(names[int(row)].as_py())
    return rows.drop_columns([column]), users.cast(pa.string())


def absent_mark(name: str) -> str:
    """Returns the name of the boolean column that says which rows lack this column. No table column can have this name."""
    return f"{_MARK}{name}"


def is_mark(name: str) -> bool:
    return name.startswith(_MARK)


def _from_stream(rows: Any) -> pa.Table:
    table: pa.Table | None = None
    try:
        table = pa.table(rows)
        table.validate(full=True)
    except pa.ArrowException as error:
        place = "" if table is None else f" in {first_invalid(table)}"
        raise InvalidArgument(f"the rows are not valid Arrow data{place}: {error}") from error
    _check_names(table.column_names)
    columns = [unwrapped(single(name, table[name])) for name in table.column_names]
    return pa.Table.from_arrays(columns, names=table.column_names)


def _from_pandas(frame: Any, schema: TableSchema) -> pa.Table:
    """Converts a data frame. pandas has no integer column with NULLs (it uses floats) and keeps mixed values as objects."""
    if not hasattr(frame, "columns"):
        raise InvalidArgument(f"{_ACCEPTED}, not a pandas {frame.__class__.__name__}")
    names = list(frame.columns)
    _check_names(names)
    columns = {name: _pandas_column(schema.column(name), name, frame[name]) for name in names}
    return table_of(columns, len(frame), schema)


def _pandas_column(column: SchemaColumn | None, name: str, series: Any) -> pa.Array[Any]:
    if column is not None and (series.dtype == object or (series.dtype.kind == "f" and column.type.name in INTEGER_BITS)):
        values = [None if _is_missing(value) else value for value in series.tolist()]
        return _values(name, column.type, [_whole(value) for value in values] if series.dtype.kind == "f" else values)
    try:
        return unwrapped(single(name, _pandas_array(series)))
    except pa.ArrowException as error:
        raise InvalidArgument(
            f"column {name!r} holds values of several types, or of one that Arrow does not have: {error}"
        ) from error


def _pandas_array(series: Any) -> Any:
    if getattr(series.dtype, "tz", None) is None:
        return pa.array(series, from_pandas=True)
    naive = pa.array(series.dt.tz_convert(None), from_pandas=True)  # pandas 3.1 warns about how pyarrow reads zones
    return naive.cast(pa.timestamp(naive.type.unit, tz="UTC"))


def _is_missing(value: object) -> bool:
    """Returns True for None, NaN, NaT and pandas.NA."""
    return value is None or (isinstance(value, float) and math.isnan(value)) or value.__class__.__name__ in ("NaTType", "NAType")


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _from_dicts(rows: list[Mapping[str, object]], schema: TableSchema, convert: Convert[Sequence[object]]) -> pa.Table:
    for row in rows:
        if row.__class__ is not dict and not isinstance(row, Mapping):
            raise InvalidArgument(f"{_ACCEPTED}; a row is {row.__class__.__name__}")
    first = rows[0].keys() if rows else set()
    if all(row.keys() == first for row in rows):
        names, absent = list(first), dict[str, list[bool]]()
    else:
        names = list(dict.fromkeys(name for row in rows for name in row))
        absent = {name: missing for name in names if any(missing := [name not in row for row in rows])}
    _check_names(names)
    types = {column.name: column.type for column in schema.columns}
    table = {name: _values(name, types.get(name), [row.get(name) for row in rows], convert) for name in names}
    for name, missing in absent.items():
        if name in types:
            table[absent_mark(name)] = pa.array(missing)
    return table_of(table, len(rows), schema)


def table_of(columns: Mapping[str, pa.Array[Any]], rows: int, schema: TableSchema) -> pa.Table:
    """So many rows with these columns; without any, rows of defaults only: a table cannot count them without a column."""
    if columns:
        return pa.Table.from_arrays(list(columns.values()), names=list(columns))
    name = schema.names[0]
    return pa.table({name: pa.nulls(rows), absent_mark(name): pa.repeat(True, rows)})


def _values(
    name: str, type: ColumnType | None, values: Sequence[object], convert: Convert[Sequence[object]] = from_values
) -> pa.Array[Any]:
    if type is None:
        return _foreign(values)
    try:
        return convert(type, values)
    except Unfit as error:
        raise unfit(name, type, error.row, error.value) from error


def _foreign(values: Sequence[object]) -> pa.Array[Any]:
    """Converts a column that the table does not have: it names the users, or its name is reported later as an error."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError, UnicodeEncodeError):
        return pa.nulls(len(values))


def _check_names(names: Sequence[object]) -> None:
    for name in names:
        if not isinstance(name, str):
            raise InvalidArgument(f"column name {name!r} is not text")
        if is_mark(name):
            raise InvalidArgument(f"unknown column {name!r}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidArgument(f"column {twice!r} appears twice in the rows")


# Rows of a caller who knows a table's columns as they were: each value goes to the column that its name meant then.
@dataclass(frozen=True)
class Renaming:
    """From the names in `known` to those in `newest`. A name that `known` does not have stays as it is."""

    known: TableSchema
    newest: TableSchema

    def name(self, name: str) -> str:
        """Raises SchemaChanged: its column was dropped."""
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
