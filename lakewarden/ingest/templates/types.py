"""The catalog's types of Arrow fields, and the reverse; a field's metadata names what Arrow's type does not say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from lakewarden.catalog.column_types import ColumnType
from lakewarden.errors import Unsupported
from lakewarden.ingest.templates.template import Columns

_TYPE = b"lakewarden.type"

_NAMES: Mapping[str, str] = {
    "bool": "BOOLEAN",
    "int8": "SMALLINT",
    "uint8": "SMALLINT",
    "int16": "SMALLINT",
    "uint16": "INT",
    "int32": "INT",
    "uint32": "BIGINT",
    "int64": "BIGINT",
    "uint64": "DECIMAL(20,0)",
    "halffloat": "FLOAT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "null": "TEXT",
    "extension<arrow.json>": "JSON",
    "extension<arrow.uuid>": "UUID",
}
_KINDS: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (pa.types.is_string, "TEXT"),
    (pa.types.is_large_string, "TEXT"),
    (pa.types.is_string_view, "TEXT"),
    (pa.types.is_binary, "BYTES"),
    (pa.types.is_large_binary, "BYTES"),
    (pa.types.is_binary_view, "BYTES"),
    (pa.types.is_fixed_size_binary, "BYTES"),
    (pa.types.is_date, "DATE"),
    (pa.types.is_timestamp, "TIMESTAMP"),
    (pa.types.is_time, "TIME"),
    (pa.types.is_nested, "JSON"),
)
_DIGITS = 38


def schema_of(columns: Columns) -> pa.Schema:
    return pa.schema([pa.field(name, each.arrow, metadata={_TYPE: str(each).encode()}) for name, each in columns.items()])


def type_of(field: pa.Field[Any]) -> ColumnType:
    """
    Raises:
        InvalidArgument: its metadata names no type of the catalog.
        Unsupported: the catalog has no type that takes such values.
    """
    named = (field.metadata or {}).get(_TYPE)
    if named is not None:
        return ColumnType.parse(named.decode(errors="replace"))
    if pa.types.is_dictionary(field.type):
        return type_of(pa.field(field.name, field.type.value_type))
    if pa.types.is_decimal(field.type) and 0 <= field.type.scale <= field.type.precision <= _DIGITS:
        return ColumnType("DECIMAL", field.type.precision, field.type.scale)
    text = str(field.type)
    name = _NAMES.get(text) or next((kind for fits, kind in _KINDS if fits(field.type)), None)
    if name is None:
        raise Unsupported(f"column {field.name!r}: there is no column type for values of Arrow's type {text:.100}")
    return ColumnType.parse(name)
