"""The template `avro`: container files, block by block; the file's own schema gives the columns."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from typing import Any, cast
from uuid import UUID

import pyarrow as pa

from lakewarden.base import exact_json
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.ingest.templates.object_file import ObjectFile
from lakewarden.ingest.templates.template import Columns, Library, NoOptions, Template

# Arrow's types of Avro's, and how values as the file has them become theirs. Arrow's types have the units of moments, so that
# what does not fit a column is found where all values are.
_PLAIN: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_NONE = ("duration", "big-decimal")
"""Logical types that the catalog has no type for. One that is not known at all says nothing, as Avro has it."""
_DIGITS = 38


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class AvroKind:
    """What values of a type become."""

    arrow: pa.DataType
    read: Callable[[Any], Any] = _as_it_is
    named: str = ""
    """The catalog's type, where Arrow's does not say it."""

    def field(self, name: str) -> pa.Field[Any]:
        return pa.field(name, self.arrow, metadata={"lakewarden.type": self.named} if self.named else None)


@dataclass
class AvroKinds:
    """The kinds of one file's types."""

    _named: dict[str, Any] = field(default_factory=dict)
    _within: tuple[str, ...] = ()

    def of(self, given: Any, path: str) -> AvroKind:
        """
        Raises:
            Unsupported: there is no type for such values; names their path.
        """
        if isinstance(given, list):
            others = [each for each in given if each != "null"]
            return self.of(others[0], path) if len(others) == 1 else self._mixed(given, path)
        facts: dict[str, Any] = given if isinstance(given, dict) else self._named.get(given) or {"type": given}
        if isinstance(facts["type"], dict | list):
            return self.of(facts["type"], path)
        if "name" in facts:
            self._named[facts["name"]] = facts
        return _MADE[facts["type"]](self, facts, path) if facts["type"] in _MADE else _leaf(facts, path)

    def record(self, facts: Mapping[str, Any], path: str) -> AvroKind:
        if facts["name"] in self._within:
            return self._mixed(facts, path)  # a record within itself
        within, self._within = self._within, (*self._within, facts["name"])
        parts = {part["name"]: self.of(part["type"], f"{path}.{part['name']}") for part in facts["fields"]}
        self._within = within

        def read(value: Mapping[str, Any]) -> dict[str, Any]:
            return {name: None if value[name] is None else part.read(value[name]) for name, part in parts.items()}

        return AvroKind(pa.struct([part.field(name) for name, part in parts.items()]), read)

    def array(self, facts: Mapping[str, Any], path: str) -> AvroKind:
        item = self.of(facts["items"], f"{path}[]")
        return AvroKind(pa.list_(item.field("item")), lambda value: [None if one is None else item.read(one) for one in value])

    def map(self, facts: Mapping[str, Any], path: str) -> AvroKind:
        item = self.of(facts["values"], f"{path}{{}}")

        def read(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
            return [(key, None if one is None else item.read(one)) for key, one in value.items()]

        return AvroKind(pa.map_(pa.string(), cast("Any", item.field("value"))), read)

    def _mixed(self, given: Any, path: str) -> AvroKind:
        """JSON. The value of a union does not say which of its types it is of, so none of them may need that."""
        if logical := _logical_in(given):
            raise Unsupported(f"column {path!r}: a union of several types, or a record within itself, with {logical} is not read")
        return AvroKind(pa.string(), lambda value: _document(value, path), "JSON")


def _leaf(facts: Mapping[str, Any], path: str) -> AvroKind:
    kind, logical = facts["type"], str(facts.get("logicalType", ""))
    if logical in _NONE:
        raise Unsupported(f"column {path!r}: there is no column type for values of Avro's type {logical}")
    if logical == "decimal":
        return _decimal(int(facts["precision"]), int(facts.get("scale", 0)), path)
    if logical == "uuid":
        return AvroKind(pa.string(), _as_it_is if kind == "string" else lambda value: str(UUID(bytes=value)), "UUID")
    if (kind, logical) not in _LOGICAL and kind not in _PLAIN:
        raise InvalidArgument(f"column {path!r}: Avro has no type {kind!r}")
    return AvroKind(_LOGICAL.get((kind, logical)) or _PLAIN[kind])


def _decimal(precision: int, scale: int, path: str) -> AvroKind:
    if not 0 <= scale <= precision <= _DIGITS:
        raise Unsupported(
            f"column {path!r}: there is no column type for decimals of {precision} digits, {scale} of them behind the point"
        )

    def read(value: bytes) -> Decimal:
        number = int.from_bytes(value, "big", signed=True)
        return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))

    return AvroKind(pa.decimal128(precision, scale), read)


def _document(value: Any, path: str) -> str:
    try:
        return exact_json.encode(_free(value))
    except ValueError as error:  # NaN
        raise InvalidArgument(f"column {path!r}: {error}") from error


def _free(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {key: _free(one) for key, one in value.items()}
        case list():
            return [_free(one) for one in value]
        case _:
            return value


def _logical_in(given: Any) -> str:
    """The first logical type within a schema."""
    if isinstance(given, dict):
        return str(given.get("logicalType", "")) or next(filter(None, map(_logical_in, given.values())), "")
    return next(filter(None, map(_logical_in, given)), "") if isinstance(given, list) else ""


_MADE: Mapping[str, Callable[[AvroKinds, Mapping[str, Any], str], AvroKind]] = {
    "record": AvroKinds.record,
    "array": AvroKinds.array,
    "map": AvroKinds.map,
}


_ROWS = 1 << 13
_BROKEN = (ArithmeticError, EOFError, LookupError, OSError, RecursionError, TypeError, ValueError, struct.error, zlib.error)
"""What the library raises where the bytes are not what they should be."""


def read(source: ObjectFile, _options: NoOptions, _columns: Columns) -> Iterator[pa.RecordBatch]:
    """Raises InvalidArgument: it is no Avro container file of records, or a block of it is broken."""
    from fastavro import block_reader  # an extra

    with _unreadable():
        blocks = block_reader(source.open())
        columns = _columns_of(blocks.writer_schema)
        source.check_columns(len(columns))
    schema = pa.schema([kind.field(name) for name, kind in columns.items()])
    while True:
        with _unreadable():
            block = next(blocks, None)
        if block is None:
            return
        records = iter(block)
        while rows := _taken(records):
            yield pa.RecordBatch.from_arrays([_array(name, kind, rows) for name, kind in columns.items()], schema=schema)


def _taken(records: Iterator[Any]) -> list[Mapping[str, object]]:
    """The next records, with values as they are written: the library rounds moments, and fails at those before year 1."""
    from fastavro.read import LOGICAL_READERS

    known = dict(LOGICAL_READERS)
    LOGICAL_READERS.clear()
    try:
        with _unreadable():
            return list(islice(records, _ROWS))
    finally:
        LOGICAL_READERS.update(known)


def _columns_of(schema: object) -> dict[str, AvroKind]:
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise InvalidArgument("the file holds values that are no records")
    kinds = AvroKinds()
    return {field["name"]: kinds.of(field["type"], field["name"]) for field in schema["fields"]}


def _array(name: str, kind: AvroKind, rows: Sequence[Mapping[str, object]]) -> pa.Array[Any]:
    try:
        return pa.array([None if row[name] is None else kind.read(row[name]) for row in rows], kind.arrow)
    except (pa.ArrowException, *_BROKEN) as error:
        raise InvalidArgument(f"field {name!r} is not what the file's own schema says: {error}") from error


@contextmanager
def _unreadable() -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        raise InvalidArgument(f"not an Avro file that can be read: {(str(error) or repr(error)).splitlines()[0]:.300}") from error


AVRO: Template[NoOptions] = Template("avro", ("avro",), read, libraries=(Library("fastavro", "avro"),))
