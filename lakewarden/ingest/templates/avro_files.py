"""The template `avro`: container files, block by block; the file's own schema gives the columns."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pyarrow as pa

from lakewarden.errors import InvalidArgument
from lakewarden.ingest.templates.avro_types import AvroKind, AvroKinds
from lakewarden.ingest.templates.object_file import ObjectFile
from lakewarden.ingest.templates.template import Columns, Library, NoOptions, Template

_ROWS = 1 << 13
_BROKEN = (ArithmeticError, EOFError, LookupError, OSError, RecursionError, TypeError, ValueError, struct.error, zlib.error)
"""What the library raises where the bytes are not what they should be."""


def read(source: ObjectFile, _options: NoOptions, _columns: Columns) -> Iterator[pa.RecordBatch]:
    """Raises:
    InvalidArgument: it is no Avro container file of records, or a block of it is broken.
    """
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
