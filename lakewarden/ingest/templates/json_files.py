"""The template `json`: objects in UTF-8, one after the other (as in JSON lines), or in one array; a key is a column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any

import pyarrow as pa
from msgspec import Meta

from lakewarden.base.exact_json import JsonNumber
from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.column_values import reason
from lakewarden.errors import InvalidArgument
from lakewarden.ingest.templates.column_names import column_names
from lakewarden.ingest.templates.inference import TEXT, Digits, Inference
from lakewarden.ingest.templates.json_objects import Record, groups
from lakewarden.ingest.templates.object_file import ObjectFile
from lakewarden.ingest.templates.template import Columns, Template
from lakewarden.ingest.templates.types import schema_of
from lakewarden.tables.rows.columns import Unfit, shown
from lakewarden.tables.rows.text import documents, from_json, from_text

_EXACT = 1 << 53
"""Whole numbers up to here are exact in DOUBLE."""
_NOTHING: type = type(None)
_BOOLEAN, _BIGINT, _DOUBLE, _JSON = map(ColumnType.parse, ("BOOLEAN", "BIGINT", "DOUBLE", "JSON"))


@dataclass(frozen=True)
class JsonOptions:
    """A key that is absent, or null, is NULL."""

    dates: Annotated[
        bool, Meta(description="Whether a new column whose texts are all dates is DATE, or TIMESTAMP where they have times.")
    ] = True


def read(source: ObjectFile, options: JsonOptions, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Reads a small object once, and a large one twice: types are those of all its values.

    Raises:
        InvalidArgument: it is no such JSON in UTF-8, or a value does not fit the table's column.
        Unsupported: it unpacks to too much, or has too many keys.
    """
    first = list(_taken(groups(source), 2))
    alone = len(first) < 2
    kinds: dict[str, Kinds] = {}
    for rows in first if alone else groups(source):
        _classify(rows, kinds, options)
        source.check_columns(len(kinds))
    seen = [key for key, found in kinds.items() if found.type is not None]
    names = dict(zip(seen, column_names(seen, columns), strict=True))
    types = {key: columns.get(name) or kinds[key].type or TEXT for key, name in names.items()}
    schema = schema_of({name: types[key] for key, name in names.items()})
    done = 0
    for rows in first if alone else groups(source):
        yield pa.RecordBatch.from_arrays([_column(key, types[key], rows, done) for key in names], schema=schema)
        done += len(rows)


class Kinds:
    """The kinds of values that a key has."""

    def __init__(self, options: JsonOptions) -> None:
        self._kinds: set[type] = set()
        self._texts = Inference(("DATE", "TIMESTAMP") if options.dates else ())
        self._low = self._high = 0
        self._digits = Digits()
        self._doubles = True
        """Whether DOUBLE keeps all numbers with a point or an exponent."""

    def add(self, values: Sequence[object]) -> None:
        kinds = set(map(type, values))
        self._kinds |= kinds
        if int in kinds:
            whole = [value for value in values if value.__class__ is int]
            self._low, self._high = min(self._low, *whole), max(self._high, *whole)
        if JsonNumber in kinds:
            self._add_numbers([value for value in values if value.__class__ is JsonNumber])
        if self._kinds <= {str, _NOTHING}:
            try:
                self._texts.add(pa.array(values, pa.string()))
            except UnicodeEncodeError as error:
                raise InvalidArgument("a text has half of a surrogate pair, which is no Unicode") from error

    def _add_numbers(self, numbers: Sequence[Any]) -> None:
        self._doubles = self._doubles and all(number.is_double for number in numbers)
        self._digits.add(numbers)

    @property
    def type(self) -> ColumnType | None:
        """The narrowest type that takes all values; JSON takes any. None where there is no value."""
        kinds = self._kinds - {_NOTHING}
        if not kinds:
            return None
        if kinds == {str}:
            return self._texts.type
        if kinds == {bool}:
            return _BOOLEAN
        if kinds == {int} and self._low >= -(1 << 63) and self._high < 1 << 63:
            return _BIGINT
        if kinds <= {int, JsonNumber} and JsonNumber in kinds and self._low >= -_EXACT and self._high <= _EXACT:
            return _DOUBLE if self._doubles else self._digits.type or _JSON
        return _JSON


def _classify(rows: Sequence[Record], kinds: dict[str, Kinds], options: JsonOptions) -> None:
    for key in dict.fromkeys(chain.from_iterable(rows)):
        if key not in kinds:
            kinds[key] = Kinds(options)
        kinds[key].add([row.get(key) for row in rows])


def _taken(rows: Iterator[list[Record]], most: int) -> Iterator[list[Record]]:
    for _, each in zip(range(most), rows, strict=False):
        yield each


def _column(key: str, type: ColumnType, rows: Sequence[Mapping[str, object]], done: int) -> pa.Array[Any]:
    values = [row.get(key) for row in rows]
    try:
        return _converted(type, values)
    except Unfit:
        row = next(number for number, value in enumerate(values) if _is_misfit(type, value))
        raise InvalidArgument(
            f"key {key!r} of object {done + row + 1}: {shown(values[row])} does not fit {type}, which takes {reason(type)}"
        ) from None


def _is_misfit(type: ColumnType, value: object) -> bool:
    try:
        _converted(type, [value])
    except Unfit:
        return True
    return False


def _converted(type: ColumnType, values: Sequence[object]) -> pa.Array[Any]:
    match type.name:
        case "JSON":
            return documents(values)
        case "DOUBLE":
            return from_json(type, [_floating(each) for each in values])
        case "DATE" | "TIMESTAMP" if set(map(_class, values)) <= {str, _NOTHING}:
            return from_text(type, pa.array(values, pa.string()))
        case _:
            return from_json(type, values)


def _class(value: object) -> type:
    return value.__class__


def _floating(value: object) -> object:
    return float(value) if isinstance(value, int) and value.__class__ is int and -_EXACT <= value <= _EXACT else value


_EXTENSIONS = ("json", "jsonl", "ndjson")

JSON: Template[JsonOptions] = Template(
    "json",
    (*_EXTENSIONS, *(f"{each}.{packed}" for packed in ("gz", "zst") for each in _EXTENSIONS)),
    read,
    JsonOptions,
    sparse=True,
)
