"""Parses blocks of JSON lines: an object a line. A key that an object does not have takes the column's default; null is NULL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import pyarrow as pa

from lakewarden.base.exact_json import decoded, decoded_lines
from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.ingest.load.fitting import ConvertedBlock, text_column
from lakewarden.tables.rows.text import from_json


def parse_json(schema: TableSchema, data: bytes, extra: Sequence[str]) -> ConvertedBlock:
    """The rows of a block.

    Args:
        extra: a column that the table does not have, and that is wanted as text.
    """
    broken: dict[int, str] = {}
    known = {*schema.names, *extra}
    rows = []
    for number, record in enumerate(_records(data)):
        if (why := _wrong(record, known)) is None:
            rows.append(cast("Mapping[str, object]", record))
        else:
            broken[number] = why
    given = ConvertedBlock(len(rows), broken)
    for column in (*schema.columns, *map(text_column, extra)):
        _take(given, column, rows)
    return given


def _records(data: bytes) -> Iterator[object]:
    """The value of each line that is not empty; the error of one that has none."""
    try:
        yield from decoded_lines(data)
    except (ValueError, RecursionError):
        yield from (_record(line) for line in data.split(b"\n") if line.strip())


def _record(line: bytes) -> object:
    try:
        return decoded(line)
    except (ValueError, RecursionError) as error:
        return error


def _wrong(record: object, known: set[str]) -> str | None:
    if isinstance(record, Exception):
        return f"not JSON: {record}"
    if not isinstance(record, dict):
        return f"a JSON object is expected, not {record.__class__.__name__}"
    return None if known >= record.keys() else f"unknown column {min(record.keys() - known)!r}"


def _take(given: ConvertedBlock, column: SchemaColumn, rows: Sequence[Mapping[str, object]]) -> None:
    absent = [column.name not in row for row in rows]
    if all(absent):
        return
    if any(absent):
        given.absent[column.name] = pa.array(absent)
    given.take(column, [row.get(column.name) for row in rows], from_json)
