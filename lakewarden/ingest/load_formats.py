"""The rows of files, by their format: blocks of CSV, blocks of JSON lines, row groups of Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.base.exact_json import decoded, decoded_lines
from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.errors import InvalidArgument
from lakewarden.ingest.load_checks import ConvertedBlock, text_column
from lakewarden.ingest.templates.csv_files import CsvOptions, csv_values, first_values
from lakewarden.ingest.templates.parquet_files import row_groups
from lakewarden.tables.rows.columns import Unfit, from_array
from lakewarden.tables.rows.text import from_json, from_text

_CSV = CsvOptions()


def header_of(record: bytes) -> tuple[str, ...]:
    """The names in the first record.

    Raises:
        InvalidArgument: there is none, or a name is empty or there twice.
    """
    names = first_values(record, _CSV)
    if not any(names):
        raise InvalidArgument("the file is empty: its first line should name the columns")
    if "" in names or len(set(names)) < len(names):
        raise InvalidArgument(f"the header names a column twice, or with an empty name: {', '.join(names)}")
    return tuple(names)


def parse_csv(schema: TableSchema, data: bytes, header: Sequence[str]) -> ConvertedBlock:
    """The rows of a block. A column that the table does not have is taken as text.

    Raises:
        InvalidArgument: the block is not CSV.
    """
    try:
        table, uneven = csv_values(data, _CSV, header)
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"not CSV: {error}") from error
    wrong = {record: f"{count} values, and the header names {len(header)} columns" for record, count in uneven.items()}
    given = ConvertedBlock(table.num_rows, wrong)
    for name in header:
        given.take(schema.column(name) or text_column(name), table[name].combine_chunks(), _read)
    return given


def _read(type: ColumnType, values: pa.Array[Any]) -> pa.Array[Any]:
    try:
        return from_text(type, values.cast(pa.string()))
    except pa.ArrowInvalid:
        raise Unfit(0, values[0].as_py()) from None


# Parses blocks of JSON lines: an object a line. A key that an object does not have takes the column's default; null is NULL.
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
    lines = [line for line in data.splitlines() if line.strip()]
    with suppress(ValueError, RecursionError):
        found = decoded_lines(data)
        if len(found) == len(lines):  # the decoder takes several values of a line, and one of several lines
            yield from found
            return
    yield from map(_record, lines)


def _record(line: bytes) -> object:
    try:
        return decoded(line)
    except ValueError as error:
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


def parse_parquet(schema: TableSchema, parquet: pq.ParquetFile, first: int, last: int) -> Iterator[ConvertedBlock]:
    """The rows of the groups from `first` up to `last`, which is not among them. Columns are found by their names."""
    for batch in row_groups(parquet, range(first, last)):
        given = ConvertedBlock(batch.num_rows)
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            given.take(schema.column(name) or text_column(name), values, from_array)
        yield given
