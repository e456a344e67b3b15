"""The template `avro`: container files, block by block; the file's own schema gives the columns."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa

from lakewarden.catalog.types import ColumnType
from lakewarden.errors import InvalidArgument
from lakewarden.pipelines.templates.object_file import ObjectFile
from lakewarden.pipelines.templates.template import Columns, Library, NoOptions, Template
from lakewarden.pipelines.templates.types import schema_of
from lakewarden.rows.columns import Unfit, from_values

_ROWS = 1 << 13
_BROKEN = (ArithmeticError, EOFError, LookupError, OSError, RecursionError, TypeError, ValueError, struct.error, zlib.error)
"""What the library raises where the bytes are not what they should be."""

_PLAIN = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BYTES",
    "fixed": "BYTES",
    "string": "TEXT",
    "enum": "TEXT",
}
_LOGICAL = {
    "date": "DATE",
    "time-millis": "TIME",
    "time-micros": "TIME",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP",
    "local-timestamp-micros": "TIMESTAMP",
    "uuid": "UUID",
}


def read(source: ObjectFile, _options: NoOptions, _columns: Columns) -> Iterator[pa.RecordBatch]:
    """Raises:
    InvalidArgument: it is no Avro container file of records, or a block of it is broken.
    """
    from fastavro import block_reader  # an extra

    with _unreadable():
        blocks = block_reader(source.open())
        types = _types(blocks.writer_schema)
        source.check_columns(len(types))
    schema = schema_of(types)
    while True:
        with _unreadable():
            block = next(blocks, None)
        if block is None:
            return
        records = iter(block)
        while rows := _taken(records):
            yield pa.RecordBatch.from_arrays([_column(name, each, rows) for name, each in types.items()], schema=schema)


def _taken(records: Iterator[Any]) -> list[Mapping[str, object]]:
    with _unreadable():
        return list(islice(records, _ROWS))


def _types(schema: object) -> dict[str, ColumnType]:
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise InvalidArgument("the file holds values that are no records")
    return {field["name"]: _type(field["type"]) for field in schema["fields"]}


def _type(given: object) -> ColumnType:
    """JSON for what has no type of its own: records, arrays, maps, and unions of several."""
    if isinstance(given, list):
        others = [each for each in given if each != "null"]
        return _type(others[0]) if len(others) == 1 else ColumnType.parse("JSON")
    facts: dict[str, Any] = given if isinstance(given, dict) else {"type": given}
    if facts.get("logicalType") == "decimal":
        return ColumnType.parse(f"DECIMAL({facts.get('precision', 0)},{facts.get('scale', 0)})")
    name = _LOGICAL.get(str(facts.get("logicalType"))) or _PLAIN.get(str(facts["type"]), "JSON")
    return ColumnType.parse(name)


def _column(name: str, type: ColumnType, rows: Sequence[Mapping[str, object]]) -> pa.Array[Any]:
    values = [row[name] for row in rows]
    if type.name == "JSON":
        return pa.array([None if each is None else msgspec.json.encode(each).decode() for each in values], pa.string())
    try:
        return from_values(type, values)
    except Unfit as error:
        raise InvalidArgument(f"field {name!r}: {error.value!r:.80} is not what the file's own schema says") from error


@contextmanager
def _unreadable() -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        raise InvalidArgument(f"not an Avro file that can be read: {(str(error) or repr(error)).splitlines()[0]:.300}") from error


AVRO: Template[NoOptions] = Template("avro", ("avro",), read, libraries=(Library("fastavro", "avro"),))
