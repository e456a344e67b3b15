"""Columns as they were found, made those that are wanted: by their ids, older types widened, absent ones with the value that
rows have that are older than the column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.column_values import initial_values
from lakewarden.catalog.model import SchemaColumn
from lakewarden.delta.partitions import filled
from lakewarden.errors import Corrupt

_INITIAL, _TYPE = "lakewarden.initial", "lakewarden.type"


def field_id(field: pa.Field[Any]) -> int:
    return int((field.metadata or {})[b"PARQUET:field_id"])


def with_initial(field: pa.Field[Any], column: SchemaColumn) -> pa.Field[Any]:
    """The field, which then tells the value of rows that are older than the column."""
    if column.initial is None:
        return field
    told = {"PARQUET:field_id": str(column.id), _INITIAL: column.initial, _TYPE: str(column.type)}
    return pa.field(field.name, field.type, metadata=told)


def fitted(found: pa.Table, wanted: pa.Schema, names: Mapping[int, str], where: str) -> pa.Table:
    """The wanted columns out of what was found; `names` are those of the found columns, by id."""
    arrays = [_column(found, names.get(field_id(field)), field, where) for field in wanted]
    return pa.Table.from_arrays(arrays, names=wanted.names)


def _absent(field: pa.Field[Any], count: int) -> pa.Array[Any]:
    told = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    if _INITIAL in told:
        return initial_values(told[_INITIAL], ColumnType.parse(told[_TYPE]), count)
    nulls: pa.Array[Any] = pa.nulls(count, field.type)
    return nulls


def constant(text: str | None, count: int) -> pa.Array[Any]:
    """A column of that one text, in a byte a row; `fitted` makes it one of the wanted type."""
    # of a buffer of zeros: NumPy's array would be converted, for each small file anew
    first = pa.Array.from_buffers(pa.int8(), count, [None, pa.py_buffer(bytes(count))])
    return pa.DictionaryArray.from_arrays(first, pa.array([text], pa.string()))


def _filled(column: pa.ChunkedArray[Any], kind: pa.DataType) -> pa.ChunkedArray[Any]:
    whole: Any = column.combine_chunks()
    (text,) = whole.dictionary.to_pylist()
    return pa.chunked_array([filled(text, len(column), kind)])


def _column(found: pa.Table, name: str | None, field: pa.Field[Any], where: str) -> pa.ChunkedArray[Any]:
    if name is None:
        return pa.chunked_array([_absent(field, found.num_rows)])
    column = found.column(name)
    if column.type == field.type:
        return column
    try:
        if isinstance(column.type, pa.DictionaryType):  # the one value of a partition column, as the log spells it
            return _filled(column, field.type)
        return column.cast(field.type)
    except (pa.ArrowException, ValueError) as error:
        raise Corrupt(f"{where} has {name} as {column.type}, which does not fit {field.type}: {error}") from error
