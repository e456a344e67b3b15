"""Parses blocks of a CSV file: its first line names the columns; an empty value is NULL, a quoted empty one is empty text."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv as pc_csv

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.model import TableSchema
from lakewarden.errors import InvalidArgument
from lakewarden.ingest.load.fitting import ConvertedBlock, text_column
from lakewarden.tables.rows.columns import Unfit
from lakewarden.tables.rows.text import from_text


def header_of(record: bytes) -> tuple[str, ...]:
    """The names in the first record.

    Raises:
        InvalidArgument: there is none, or a name is empty or there twice.
    """
    try:
        names = next(csv.reader(io.StringIO(record.decode(), newline="")), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidArgument(f"the header is not CSV in UTF-8: {error}") from error
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
    wrong: dict[int, str] = {}

    def skip(row: pc_csv.InvalidRow) -> Literal["skip"]:
        assert row.number is not None, "known where one thread reads"
        wrong[row.number - 1] = f"{row.actual_columns} values, and the header names {row.expected_columns} columns"
        return "skip"

    try:
        table = pc_csv.read_csv(
            io.BytesIO(data),
            pc_csv.ReadOptions(column_names=list(header), use_threads=False, block_size=len(data) + 1),
            pc_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
            pc_csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.binary()),
                check_utf8=False,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"not CSV: {error}") from error
    given = ConvertedBlock(table.num_rows, wrong)
    for name in header:
        given.take(schema.column(name) or text_column(name), table[name].combine_chunks(), _read)
    return given


def _read(type: ColumnType, values: pa.Array[Any]) -> pa.Array[Any]:
    try:
        return from_text(type, values.cast(pa.string()))
    except pa.ArrowInvalid:
        raise Unfit(0, values[0].as_py()) from None
