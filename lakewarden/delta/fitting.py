"""Columns as they were found, made those that are wanted: by their ids, absent ones null, older types widened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lakewarden.errors import Corrupt


def field_id(field: pa.Field[Any]) -> int:
    return int((field.metadata or {})[b"PARQUET:field_id"])


def fitted(found: pa.Table, wanted: pa.Schema, names: Mapping[int, str], where: str) -> pa.Table:
    """The wanted columns out of what was found; `names` are those of the found columns, by id."""
    arrays = [_column(found, names.get(field_id(field)), field, where) for field in wanted]
    return pa.Table.from_arrays(arrays, names=wanted.names)


def _column(found: pa.Table, name: str | None, field: pa.Field[Any], where: str) -> pa.ChunkedArray[Any]:
    if name is None:
        return pa.chunked_array([pa.nulls(found.num_rows, field.type)])
    column = found.column(name)
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise Corrupt(f"{where} has {name} as {column.type}, which does not fit {field.type}: {error}") from error
