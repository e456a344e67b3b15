"""Splits files into pieces that tasks read alone: a long file of lines at any place, a Parquet file between row groups."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import BinaryIO, cast

from lakewarden.errors import InvalidArgument
from lakewarden.ingest.load_checks import RowCheck
from lakewarden.ingest.load_formats import header_of
from lakewarden.ingest.load_sources import FilePiece, SourceFile
from lakewarden.ingest.templates.parquet_files import open_parquet
from lakewarden.log.position import WHOLE
from lakewarden.storage.finding import open_found
from lakewarden.tables.rows.records import CSV_LINES, JSON_LINES, LineCount, RecordForm, Records, State, count


@dataclass(frozen=True)
class FileLook:
    """Looks at one file: its columns, and where it can be split. Runs in a task."""

    check: RowCheck
    piece_bytes: int

    def __call__(self, source: SourceFile) -> list[FilePiece]:
        """Raises InvalidArgument: the file is empty or unreadable, or its columns are not those of the table."""
        with named(source), opened(source) as file:
            if source.format == "parquet":
                return self._row_groups(source, file)
            header = header_of(records_of(source, file).skip_one()) if source.format == "csv" else ()
            if source.format == "csv":
                self.check.check_names(header)
            elif not source.found.size:
                raise InvalidArgument("the file is empty")
            return [replace(piece, header=header) for piece in self._ranges(source)]

    def _row_groups(self, source: SourceFile, file: BinaryIO) -> list[FilePiece]:
        facts = open_parquet(file)
        self.check.check_names(facts.schema_arrow.names)
        groups = [facts.metadata.row_group(number) for number in range(facts.num_row_groups)]
        made: list[FilePiece] = []
        line = 1
        for number, group in enumerate(groups):
            last = made[-1] if made else None
            if last is not None and last.size + group.total_byte_size <= self.piece_bytes:
                made[-1] = replace(last, last=number + 1, size=last.size + group.total_byte_size, most=last.most + group.num_rows)
            else:
                made.append(FilePiece(source, number, number + 1, line=line, size=group.total_byte_size, most=group.num_rows))
            line += group.num_rows
        return made

    def _ranges(self, source: SourceFile) -> Iterator[FilePiece]:
        size = source.found.size
        if source.packed:
            yield FilePiece(source, 0, size, size=size, most=WHOLE)
            return
        ends = [*range(0, size, self.piece_bytes), size]
        for first, last in pairwise(ends):
            yield FilePiece(source, first, last, size=last - first, most=(last - first) // 2 + 2)  # a line has two bytes or more


def count_piece(piece: FilePiece) -> LineCount:
    """The line breaks in a piece, and how it ends."""
    with named(piece.source), opened(piece.source) as file:
        return count(file, piece.first, piece.last, form_of(piece.source))


def placed(pieces: Sequence[FilePiece], counts: Sequence[LineCount]) -> Iterator[FilePiece]:
    """The pieces of one file, each with its first line, and the state in which it begins."""
    state: State = "start"
    line = 1
    for piece, found in zip(pieces, counts, strict=True):
        yield replace(piece, line=line, state=state)
        state, line = found.ends[state], line + found.breaks


def form_of(source: SourceFile) -> RecordForm:
    return CSV_LINES if source.format == "csv" else JSON_LINES


def records_of(source: SourceFile, file: BinaryIO, piece: FilePiece | None = None) -> Records:
    """The records of a file from its beginning or a piece's on."""
    if piece is None or not piece.first:
        found = Records(file, form_of(source))
        found.skip_mark()
        return found
    file.seek(piece.first)
    return Records(file, form_of(source), piece.state, piece.line, passed=piece.first)


@contextmanager
def named(source: SourceFile) -> Iterator[None]:
    """Names the file in errors that are about its contents."""
    try:
        yield
    except InvalidArgument as error:
        raise InvalidArgument(f"{source.found.uri}: {error.message}") from error


@contextmanager
def opened(source: SourceFile) -> Iterator[BinaryIO]:
    """The file's contents, unpacked."""
    with open_found(source.found) as file:
        if not source.packed:
            yield file
            return
        try:
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield cast("BinaryIO", unpacked)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InvalidArgument(f"not a whole gzip file: {error}") from error
