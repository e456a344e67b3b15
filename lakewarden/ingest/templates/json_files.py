"""The template `json`: objects in UTF-8, one after the other (as in JSON lines), or in one array; a key is a column."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, BinaryIO, cast

import pyarrow as pa
from msgspec import Meta

from lakewarden.base.exact_json import MINUS_ZERO, READER, READER_OF_MINUS_ZEROS, JsonNumber, place_of_fault
from lakewarden.catalog.column_types import ColumnType
from lakewarden.errors import InvalidArgument
from lakewarden.ingest.templates.inference import TEXT, Digits, Inference
from lakewarden.ingest.templates.object_file import ObjectFile
from lakewarden.ingest.templates.template import Columns, Template
from lakewarden.ingest.templates.types import column_names, schema_of
from lakewarden.tables.rows.columns import Unfit, fit_whole
from lakewarden.tables.rows.text import documents, from_json, from_text

# Takes the objects of a JSON text one after the other, without the text as a whole.
Record = dict[str, object]

_BLOCK_BYTES = 1 << 20
_GROUP_ROWS = 1 << 13
_GROUP_CHARACTERS = 4 << 20
_SPACE = " \t\r\n"
_BOM = "\ufeff"


def groups(source: ObjectFile) -> Iterator[list[Record]]:
    """The objects in order, in lists of some thousands.

    Raises:
        InvalidArgument: the text is not JSON in UTF-8, not one object after the other and no array of them, or nested too deeply.
        Unsupported: it unpacks to too much.
    """
    text = _Text(source.unpacked(), source.value_bytes)
    found: list[Record] = []
    begin = 0
    for record in _records(text):
        found.append(record)
        if len(found) >= _GROUP_ROWS or text.passed - begin > _GROUP_CHARACTERS:
            yield found
            found, begin = [], text.passed
    if found:
        yield found


def _records(text: _Text) -> Iterator[Record]:
    sign = text.next_sign()
    array = sign == "["
    if array:
        text.step()
        sign = text.next_sign()
    while sign and not (array and sign == "]"):
        if sign != "{":
            raise InvalidArgument(f"object {text.count + 1} is expected, and there is {sign!r}")
        yield text.record()
        sign = text.next_sign()
        if array and sign != "]":
            if sign != ",":
                raise InvalidArgument(f"',' or ']' is expected after object {text.count}, and there is {sign or 'the end'!r}")
            text.step()
            sign = text.next_sign()
    if array:
        if not sign:
            raise InvalidArgument(f"the array ends within, after object {text.count}")
        text.step()
        if sign := text.next_sign():
            raise InvalidArgument(f"there is {sign!r} behind the array")


class _Text:
    """The text from a place on."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file = file
        self._most = most
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._decoder = READER
        self._held = ""
        self._at = 0
        self._dropped = 0
        self.count = 0
        """Of objects so far."""
        if self.next_sign() == _BOM:
            self.step()

    @property
    def passed(self) -> int:
        """Characters before the place."""
        return self._dropped + self._at

    def step(self) -> None:
        self._at += 1

    def next_sign(self) -> str:
        """Passes white space; the sign behind it, or nothing at the end."""
        while True:
            while self._at < len(self._held):
                if (sign := self._held[self._at]) not in _SPACE:
                    return sign
                self._at += 1
            if not self._more():
                return ""

    def record(self) -> Record:
        """The object that begins at the place, which moves behind it."""
        while True:
            try:
                found, self._at = self._decoder.raw_decode(self._held, self._at)
            except json.JSONDecodeError as error:
                if not self._more():
                    raise self._refused(f" is not JSON: {error.msg}") from error
            except RecursionError as error:
                raise self._refused(" is nested too deeply") from error
            except ValueError as error:  # a number out of any range, or a key twice
                raise self._refused(f": {error}") from error
            else:
                self.count += 1
                return cast("Record", found)

    def _refused(self, why: str) -> InvalidArgument:
        place = place_of_fault(self._held, self._at)
        return InvalidArgument(f"object {self.count + 1}{why}{f', at `${place}`' if place else ''}")

    def _more(self) -> bool:
        """Takes a further block; whether there was one."""
        left = len(self._held) - self._at
        if left > self._most:
            raise InvalidArgument(f"object {self.count + 1} has more than the {self._most:,} bytes that are allowed, or no end")
        data = self._file.read(max(_BLOCK_BYTES, left))  # twice as much each time: an object is decoded from its beginning
        try:
            text = self._decode(data, not data)
        except UnicodeDecodeError as error:
            raise InvalidArgument(f"the object is not text in UTF-8: {error.reason}, after object {self.count}") from error
        self._dropped += self._at
        self._held, self._at = self._held[self._at :] + text, 0
        self._decoder = READER_OF_MINUS_ZEROS if re.search(MINUS_ZERO, self._held) else READER
        return bool(data)


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
        InvalidArgument: it is not such JSON in UTF-8, or a value does not fit the table's column.
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
            with suppress(Unfit):  # as its column will say, with the object's number
                self._texts.add(_texts(values))

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
    return fit_whole(_converted, type, values, lambda row: f"key {key!r} of object {done + row + 1}")


def _converted(type: ColumnType, values: Sequence[object]) -> pa.Array[Any]:
    match type.name:
        case "JSON":
            return documents(values)
        case "DOUBLE":
            return from_json(type, [_floating(each) for each in values])
        case "DATE" | "TIMESTAMP" if {value.__class__ for value in values} <= {str, _NOTHING}:
            return from_text(type, _texts(values))
        case _:
            return from_json(type, values)


def _texts(values: Sequence[object]) -> pa.Array[Any]:
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError as error:  # half of a surrogate pair
        raise Unfit(0, values[0]) from error


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
