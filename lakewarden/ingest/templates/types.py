"""The catalog's types of Arrow fields, and the reverse; a field's metadata names what Arrow's type does not say."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.names import MAX_LENGTH, check_column, is_sql_word
from lakewarden.errors import InvalidArgument, Unsupported
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


# Gives the fields of an object names that the catalog takes.
def column_names(given: Sequence[str], columns: Columns) -> tuple[str, ...]:
    """One name for each field. The table's own name counts where they differ only in case.

    A name that the catalog refuses is changed: other characters than ASCII letters, digits and `_` become one `_`, it gets `c_`
    in front where it does not begin with a letter, `_1` behind it where it is reserved; an empty one is `column_` with its place.

    Raises:
        InvalidArgument: two fields get the same name.
    """
    own = {name.lower(): name for name in columns}
    taken: dict[str, str] = {}
    names = []
    for place, field in enumerate(given, 1):
        made = _allowed(field, place)
        name = own.get(field.lower()) or own.get(made.lower(), made)
        if (other := taken.get(name.lower())) is not None:
            raise InvalidArgument(f"two columns have the name {name!r}: {other[:80]!r} and {field[:80]!r}")
        taken[name.lower()] = field
        names.append(name)
    return tuple(names)


def _allowed(field: str, place: int) -> str:
    try:
        return _check(field)
    except InvalidArgument:
        plain = unicodedata.normalize("NFKD", field[:1000])
        name = re.sub(r"[^A-Za-z0-9]+", "_", re.sub(r"[\u0300-\u036f]", "", plain)).strip("_")
        if not name:
            return f"column_{place}"
        name = (name if name[0].isalpha() else f"c_{name}")[: MAX_LENGTH - 2].rstrip("_")
        try:
            return _check(name)
        except InvalidArgument:
            return f"{name}_1"


def _check(name: str) -> str:
    """As `check_column`, and no word that each query would have to quote."""
    if is_sql_word(name):
        raise InvalidArgument(f"{name} is a reserved word")
    return check_column(name)
