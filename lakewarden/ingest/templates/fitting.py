"""Makes what a template yields into rows of the catalog's names and types."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base import exact_json
from lakewarden.catalog.column_types import ColumnType
from lakewarden.errors import InvalidArgument
from lakewarden.ingest.templates.template import Columns
from lakewarden.ingest.templates.types import column_names, schema_of, type_of
from lakewarden.tables.rows.columns import first_invalid, fit_whole, from_array, shown, unwrapped

# Values of Arrow's nested types as JSON. Each part is read as a column of its type would be, and is named by its path where it
# does not fit: `s.at`, `items[]`, `pairs{}`.
#
# Decimals are text, bytes base64, moments ISO 8601 in UTC, as `sql --format json` prints them.


def documents_of(name: str, field: pa.Field[Any], values: pa.Array[Any]) -> pa.Array[Any]:
    """The text of each value, for a column of JSON.

    Args:
        field: as the schema has it: arrays forget the metadata of fields within.

    Raises:
        InvalidArgument: a part would change, or is not JSON; the message has its path.
        Unsupported: a part is of a type that the catalog does not have.
    """
    try:
        found = _values(field, values, name)
    except RecursionError as error:
        raise InvalidArgument(f"column {name!r} is nested too deeply") from error
    return pa.array([None if each is None else exact_json.encode(each) for each in found], pa.string())


def _values(field: Any, given: Any, path: str) -> list[Any]:
    found: Any = unwrapped(given)
    if pa.types.is_run_end_encoded(found.type):
        found = unwrapped(pc.call_function("run_end_decode", [found]))
    described = field.type if pa.types.is_nested(field.type) else found.type
    for fits, read in _KINDS:
        if fits(found.type):
            return read(described, found, path)
    return _leaves(type_of(pa.field(path, found.type, metadata=field.metadata)), found, path)


def _structs(kind: Any, found: Any, path: str) -> list[Any]:
    names = [field.name for field in kind]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InvalidArgument(f"column {path!r} has two fields {twice[0]!r}, and an object of JSON has one")
    parts = [_values(field, part, f"{path}.{field.name}") for field, part in zip(kind, found.flatten(), strict=True)]
    rows = zip(*parts, strict=True) if parts else ((),) * len(found)
    there = found.is_valid().to_pylist()
    return [dict(zip(names, row, strict=True)) if valid else None for valid, row in zip(there, rows, strict=True)]


def _lists(kind: Any, found: Any, path: str) -> list[Any]:
    return _cut(_values(kind.value_field, found.flatten(), f"{path}[]"), pc.list_value_length(found).to_pylist())


def _maps(kind: Any, found: Any, path: str) -> list[Any]:
    entries = pa.struct([pa.field("key", found.type.key_type), pa.field("value", found.type.item_type)])
    pairs = found.cast(pa.list_(entries))
    keys, items = pairs.flatten().flatten()
    names = map(_key, _values(kind.key_field, keys, f"{path} (key)"))
    made = list(zip(names, _values(kind.item_field, items, f"{path}{{}}"), strict=True))
    return [None if each is None else _object(each, path) for each in _cut(made, pc.list_value_length(pairs).to_pylist())]


def _key(value: object) -> str:
    return value if isinstance(value, str) else exact_json.encode(value)


def _object(pairs: Sequence[tuple[str, object]], path: str) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidArgument(f"column {path!r}: a map has the key {shown(twice)} twice, and an object of JSON has it once")
    return made


def _cut(values: list[Any], lengths: Sequence[int | None]) -> list[Any]:
    made, at = list[Any](), 0
    for length in lengths:
        made.append(None if length is None else values[at : at + length])
        at += length or 0
    return made


def _unions(kind: Any, found: Any, path: str) -> list[Any]:
    codes = found.type_codes.to_pylist()
    children = {
        code: _values(kind.field(number), found.field(number), f"{path}.{kind.field(number).name}")
        for number, code in enumerate(kind.type_codes)
    }
    places = found.offsets.to_pylist() if kind.mode == "dense" else range(len(codes))
    return [children[code][place] for code, place in zip(codes, places, strict=True)]


def _leaves(kind: ColumnType, found: Any, path: str) -> list[Any]:
    values = fit_whole(from_array, kind, found, lambda _: f"column {path!r}")
    if kind.name == "TIME":
        values = values.cast(pa.time64("us"))
    write = partial(_WRITE[kind.name], path) if kind.name in _WRITE else None
    listed = values.to_pylist()
    return listed if write is None else [None if each is None else write(each) for each in listed]


def _finite(path: str, value: float) -> float:
    if not math.isfinite(value):
        raise InvalidArgument(f"column {path!r}: {value} is not a number of JSON")
    return value


def _document(path: str, value: str) -> object:
    try:
        return exact_json.decoded(value.encode())
    except ValueError as error:
        raise InvalidArgument(f"column {path!r}: {shown(value)} would change in JSON: {error}") from error


def _moment(_path: str, value: Any) -> str:
    text: str = value.isoformat()
    return text.replace("+00:00", "Z")


_WRITE: dict[str, Callable[[str, Any], object]] = {
    "FLOAT": _finite,
    "DOUBLE": _finite,
    "DECIMAL": lambda _path, value: format(value, "f"),
    "JSON": _document,
    "BYTES": lambda _path, value: base64.b64encode(value).decode(),
    "DATE": _moment,
    "TIME": _moment,
    "TIMESTAMP": _moment,
}

_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any, Any, str], list[Any]]], ...] = (
    (pa.types.is_struct, _structs),
    (pa.types.is_map, _maps),
    (pa.types.is_union, _unions),
    (pa.types.is_nested, _lists),
)
"""The rest of the nested types are lists of some form."""


class ObjectFitting:
    """Fits batches of one object, in order. Values of a column that the table has take its type, or the object is rejected."""

    def __init__(self, table: Columns) -> None:
        self._table = table
        self._given: pa.Schema | None = None
        self.columns: dict[str, ColumnType] = {}
        """Of the object, known from the first batch on."""
        self.rows = 0

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """
        Raises:
            InvalidArgument: the batch is not valid, has other columns than those before it, or a value does not fit.
            Unsupported: a column's type is not one of the catalog's.
        """
        self._check(batch)
        fitted = list(map(self._column, self.columns, self.columns.values(), batch.schema, batch.columns))
        self.rows += batch.num_rows
        return pa.RecordBatch.from_arrays(fitted, schema=schema_of(self.columns))

    def _check(self, batch: pa.RecordBatch) -> None:
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as error:
            raise InvalidArgument(f"{first_invalid(batch)}, rows from {self.rows + 1} on: not valid: {error}") from error
        if self._given is None:
            self._given = batch.schema
            names = column_names(batch.schema.names, self._table)
            fields = zip(names, batch.schema, strict=True)
            self.columns = {name: self._table.get(name) or type_of(field) for name, field in fields}
        elif not batch.schema.equals(self._given):
            raise InvalidArgument(f"rows from {self.rows + 1} on have other columns than those before them")

    def _column(self, name: str, type: ColumnType, field: pa.Field[Any], values: pa.Array[Any]) -> pa.Array[Any]:
        plain = unwrapped(values)
        if pa.types.is_nested(plain.type):
            plain = documents_of(name, field, values)
        return fit_whole(from_array, type, plain, lambda row: f"column {name!r}, row {self.rows + row + 1}")
