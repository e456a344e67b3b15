"""Checks rows against a table's schema, all or nothing: the result has exactly the schema's columns and types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.arrays import distinct
from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.errors import ConstraintViolation, DuplicateKey, InvalidArgument, MissingValue
from lakewarden.tables.rows.columns import Unfit, from_array, shown, single, unfit
from lakewarden.tables.rows.defaults import Defaults
from lakewarden.tables.rows.files import FileRef
from lakewarden.tables.rows.intake import absent_mark, is_mark

# What partition columns can hold: Delta's log has their values as text, with one spelling for NULL and empty text.
_FIRST, _LAST = date(1, 1, 1), date(9999, 12, 31)
_MIDNIGHT, _END = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def divisible(column: SchemaColumn, array: pa.Array[Any]) -> pa.Array[Any]:
    """The values as every reader will find them: empty text is NULL.

    Raises:
        ConstraintViolation: a date or moment outside the years 1 to 9999, which not every reader could take from text.
    """
    if pa.types.is_string(array.type):
        without: pa.Array[Any] = pc.if_else(pc.equal(array, pa.scalar("")), pa.scalar(None, pa.string()), array)
        return without
    if pa.types.is_date(array.type) or pa.types.is_timestamp(array.type):
        low, high = (_FIRST, _LAST) if pa.types.is_date(array.type) else (_MIDNIGHT, _END)
        early, late = pc.less(array, pa.scalar(low, array.type)), pc.greater(array, pa.scalar(high, array.type))
        outside: int = pc.index(pc.or_(early, late), True).as_py()
        if outside >= 0:
            raise ConstraintViolation(f"column {column.name!r}, row {outside}: a partition column takes the years 1 to 9999 only")
    return array


_ROW = "row: "
_USER = "user: "
"""Columns that the check for duplicates adds; no table column can have these names."""


def validated(
    schema: TableSchema, rows: pa.Table, defaults: Defaults, users: pa.Array[Any] | None = None, *, repeats: bool = False
) -> pa.Table:
    """Returns the rows with the schema's columns in its order, in the catalog's Arrow types, with defaults filled in.

    Args:
        rows: as `tables.rows.intake.to_arrow` returns them.
        users: each row's user, when one call holds rows of many: a key may appear once per user.
        repeats: a key may appear again: in the log, the last row counts.

    Raises:
        InvalidArgument: a column that the table does not have.
        ConstraintViolation: a value that does not fit, NULL in a NOT NULL column, or a key twice.
    """
    given = dict(zip(rows.column_names, rows.columns, strict=True))
    _check_known(schema, given)
    users = None if users is None else single("users", users)
    now = defaults.clock()
    arrays = [_filled(schema, column, given, rows.num_rows, defaults, now, users) for column in schema.columns]
    table = pa.Table.from_arrays(arrays, names=schema.names)
    if schema.keyed and not schema.append_only and not repeats:
        _check_twins(schema.primary_key, table, users)
    return table


def keys(schema: TableSchema, rows: pa.Table, users: pa.Array[Any] | None = None, *, repeats: bool = False) -> pa.Table:
    """Returns the primary key's columns, checked, in key order: the input of a delete. `users` and `repeats` as in `validated`.

    Raises:
        InvalidArgument: a column that is missing, or not in the key.
        ConstraintViolation: a value that does not fit, NULL, or a key twice.
    """
    wanted = f"a delete takes the primary key ({', '.join(schema.primary_key)})"
    for name in rows.column_names:
        if name not in schema.primary_key and not is_mark(name):
            raise InvalidArgument(f"{wanted}, not column {name!r}")
    arrays = []
    for name in schema.primary_key:
        column = schema.column(name)
        if column is None or name not in rows.column_names:
            raise InvalidArgument(f"{wanted}; column {name!r} is missing")
        arrays.append(_checked(schema, column, _given(column, rows[name])))
    table = pa.Table.from_arrays(arrays, names=list(schema.primary_key))
    if not repeats:
        _check_twins(schema.primary_key, table, None if users is None else single("users", users))
    return table


def _check_known(schema: TableSchema, names: Iterable[str]) -> None:
    known = frozenset(schema.names)
    for name in names:
        if name not in known and not is_mark(name):
            raise InvalidArgument(f"unknown column {name!r}; the columns are {', '.join(schema.names)}")


def _filled(
    schema: TableSchema,
    column: SchemaColumn,
    given: Mapping[str, pa.ChunkedArray[Any]],
    count: int,
    defaults: Defaults,
    now: datetime,
    users: pa.Array[Any] | None,
) -> pa.Array[Any]:
    values = given.get(column.name)
    if values is None:
        array = defaults.values(column, count, now, users)
    else:
        array = _given(column, values)
        if column.default is not None and (mark := given.get(absent_mark(column.name))) is not None:
            absent = single(column.name, mark)
            theirs = None if users is None else users.filter(absent)
            array = pc.replace_with_mask(array, absent, defaults.values(column, pc.sum(absent).as_py() or 0, now, theirs))
    return _checked(schema, column, array)


def _given(column: SchemaColumn, values: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    try:
        return from_array(column.type, single(column.name, values))
    except Unfit as error:
        raise unfit(column.name, column.type, error.row, error.value) from error


def _checked(schema: TableSchema, column: SchemaColumn, array: pa.Array[Any]) -> pa.Array[Any]:
    if column.name in schema.partition_by:
        array = divisible(column, array)
    if column.type.name == "FILE":
        array = _references(column, array)
    return array if column.nullable else _without_null(schema, column, array)


def _references(column: SchemaColumn, array: pa.Array[Any]) -> pa.Array[Any]:
    """The references in one spelling."""
    texts = array.to_pylist()
    for row, text in enumerate(texts):
        try:
            texts[row] = None if text is None else FileRef.parse(text).text
        except ConstraintViolation as error:
            raise ConstraintViolation(f"column {column.name!r}, row {row}: {error.message}") from error
    return pa.array(texts, pa.string())


def _without_null(schema: TableSchema, column: SchemaColumn, array: pa.Array[Any]) -> pa.Array[Any]:
    if array.null_count:
        row = pc.index(array.is_null(), True).as_py()
        raise MissingValue(f"column {column.name!r}, row {row}: NULL or no value, and {why_needed(schema, column)}")
    return array


def why_needed(schema: TableSchema, column: SchemaColumn) -> str:
    """Why each row has a value in this column."""
    return f"the column is {'in the primary key' if column.name in schema.primary_key else 'NOT NULL'}"


def _check_twins(primary_key: tuple[str, ...], table: pa.Table, users: pa.Array[Any] | None) -> None:
    """Checks that each key appears once per user."""
    if table.num_rows < 2:
        return
    keys = table.select(list(primary_key))
    if users is not None:
        keys = keys.append_column(_USER, users)
    if distinct(keys) == table.num_rows:
        return
    keyed = keys.append_column(_ROW, pa.array(range(table.num_rows), pa.int64()))
    groups = keyed.group_by(keys.column_names).aggregate([(_ROW, "min"), (_ROW, "max")])
    twins = groups.filter(pc.not_equal(groups[f"{_ROW}_min"], groups[f"{_ROW}_max"])).slice(0, 1).to_pylist()[0]
    key = ", ".join(f"{name}={shown(twins[name])}" for name in primary_key)
    raise DuplicateKey(f"rows {twins[f'{_ROW}_min']} and {twins[f'{_ROW}_max']} have the same primary key {key}")
