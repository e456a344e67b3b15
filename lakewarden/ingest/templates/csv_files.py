"""The template `csv`: text in UTF-8, a record a line, values between delimiters, in quotes if they hold one or a line break."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import pyarrow as pa
import pyarrow.csv as pc_csv
from msgspec import Meta

from lakewarden.catalog.column_types import ColumnType
from lakewarden.errors import InvalidArgument
from lakewarden.ingest.templates.inference import TEXT, Inference
from lakewarden.ingest.templates.object_file import ObjectFile
from lakewarden.ingest.templates.template import Columns, Template
from lakewarden.ingest.templates.types import column_names, schema_of
from lakewarden.tables.rows.columns import fit_whole, single
from lakewarden.tables.rows.records import RecordBlock, RecordForm, Records, breaks, record_lines
from lakewarden.tables.rows.text import from_text

_OTHERS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00": "UTF-32"}


@dataclass(frozen=True)
class CsvOptions:
    """An empty value is NULL; an empty one in quotes is empty text."""

    delimiter: Annotated[str, Meta(description="The character between values; `\\t` is a tab.")] = ","
    header: Annotated[bool, Meta(description="Whether the first record names the columns.")] = True
    columns: Annotated[
        tuple[str, ...], Meta(description="The columns' names, in order, where there is no header or its names are not wanted.")
    ] = ()
    quoted: Annotated[bool, Meta(description='Whether `"` encloses values.')] = True
    nulls: Annotated[tuple[str, ...], Meta(description="Values without quotes that are NULL, besides the empty one.")] = ()
    skip_lines: Annotated[int, Meta(ge=0, le=1000, description="Lines in front of the header that are not read.")] = 0
    types: Annotated[
        Literal["infer", "text"], Meta(description="Whether new columns get the type of their values, or are all TEXT.")
    ] = "infer"

    def __post_init__(self) -> None:
        if self.delimiter == "\\t":
            object.__setattr__(self, "delimiter", "\t")
        if len(self.delimiter.encode()) != 1 or self.delimiter in '"\r\n':
            raise ValueError(f"delimiter is one ASCII character, no quote and no line break, not {self.delimiter!r}")

    @property
    def form(self) -> RecordForm:
        return RecordForm(self.quoted, self.delimiter.encode())


def read(source: ObjectFile, options: CsvOptions, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Reads the object once; twice where a column's type has to be inferred.

    Raises:
        InvalidArgument: it is no CSV in UTF-8, a record has other values than the header, or one does not fit the table's column.
        Unsupported: it unpacks to too much.
    """
    fields = _names(source, options)
    source.check_columns(len(fields))
    names = column_names(fields, columns)
    types = {name: columns.get(name) for name in names}
    if options.types == "infer" and None in types.values():
        types |= _inferred(source, options, names, [name for name in names if name not in columns])
    for block, texts in _texts(source, options, names):
        if texts.num_rows:
            typed = [_typed(name, types[name] or TEXT, single(name, texts[name]), block, options) for name in names]
            yield pa.RecordBatch.from_arrays(typed, schema=schema_of({name: types[name] or TEXT for name in names}))


def _names(source: ObjectFile, options: CsvOptions) -> list[str]:
    """The columns' names as the object or the options have them."""
    records = _opened(source, options)
    record = records.skip_one()
    if not record.strip():
        raise InvalidArgument(
            f"line {records.line - 1} is empty: the first record should be there" if record else "the object is empty"
        )
    if len(record) >= source.value_bytes:
        raise InvalidArgument(f"the first record has more than the {source.value_bytes:,} bytes that are allowed")
    first = first_values(record, options)
    if options.columns and len(first) != len(options.columns):
        raise InvalidArgument(f"the first record has {len(first)} values, and the option columns names {len(options.columns)}")
    return list(options.columns) or (first if options.header else [""] * len(first))


def _opened(source: ObjectFile, options: CsvOptions) -> Records:
    """At the first record."""
    file = source.unpacked()
    begin = cast("io.BufferedReader", file).peek(3)[:3]
    if other := _OTHERS.get(begin[:2]):
        raise InvalidArgument(f"the object is text in {other}; UTF-8 is expected")
    records = Records(file, options.form, longest=source.value_bytes)
    records.skip_mark()
    for _ in range(options.skip_lines):
        records.skip_line()
    return records


def first_values(record: bytes, options: CsvOptions) -> list[str]:
    """The texts of the first record; none of an empty one. Raises `InvalidArgument` where it is not CSV in UTF-8."""
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if options.quoted else csv.QUOTE_NONE
    try:
        text = record.decode()
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=options.delimiter, quoting=quoting), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidArgument(f"the first record is not CSV in UTF-8: {error}") from error


def _texts(source: ObjectFile, options: CsvOptions, names: Sequence[str]) -> Iterator[tuple[RecordBlock, pa.Table]]:
    """The object's records as texts, block by block."""
    records = _opened(source, options)
    if options.header:
        records.skip_one()
    for block in records.blocks():
        yield block, _parsed(block, options, names)


def _parsed(block: RecordBlock, options: CsvOptions, names: Sequence[str]) -> pa.Table:
    try:
        found, uneven = csv_values(block.data, options, names)
        if uneven:
            record = min(uneven)
            line = record_lines(block, options.form)[record]
            raise InvalidArgument(f"line {line} has {uneven[record]} values, and there are {len(names)} columns")
        return found.cast(pa.schema([(name, pa.string()) for name in names]))
    except pa.ArrowInvalid as error:
        at = f"between lines {block.line} and {block.line + len(breaks(block.data))}"
        raise InvalidArgument(f"not CSV in UTF-8 {at}: {str(error).splitlines()[0]:.200}") from error


def csv_values(data: bytes, options: CsvOptions, names: Sequence[str]) -> tuple[pa.Table, dict[int, int]]:
    """The values of whole records, as bytes; and of records that are no rows, how many values they have, by their number from 0.

    Raises:
        pa.ArrowInvalid: the block is not CSV.
    """
    uneven: dict[int, int] = {}

    def skip(row: pc_csv.InvalidRow) -> Literal["skip"]:
        assert row.number is not None, "known where one thread reads"
        uneven[row.number - 1] = row.actual_columns
        return "skip"

    found = pc_csv.read_csv(
        io.BytesIO(data),
        pc_csv.ReadOptions(column_names=list(names), use_threads=False, block_size=len(data) + 1),
        pc_csv.ParseOptions(
            delimiter=options.delimiter,
            quote_char='"' if options.quoted else False,
            newlines_in_values=True,
            invalid_row_handler=skip,
        ),
        pc_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary()),
            check_utf8=False,  # whether a row or the object is refused for it is the reader's to say
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=["", *options.nulls],
        ),
    )
    return found, uneven


def _inferred(source: ObjectFile, options: CsvOptions, names: Sequence[str], new: Sequence[str]) -> dict[str, ColumnType]:
    """The types of the columns that the table does not have, by all values of the object."""
    inferences = {name: Inference() for name in new}
    for _, texts in _texts(source, options, names):
        for name, inference in inferences.items():
            inference.add(single(name, texts[name]))
    return {name: inference.type for name, inference in inferences.items()}


def _typed(name: str, type: ColumnType, texts: pa.Array[Any], block: RecordBlock, options: CsvOptions) -> pa.Array[Any]:
    return fit_whole(from_text, type, texts, lambda row: f"column {name!r}, line {record_lines(block, options.form)[row]}")


CSV: Template[CsvOptions] = Template("csv", ("csv", "csv.gz", "csv.zst"), read, CsvOptions)
