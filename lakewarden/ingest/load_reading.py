"""Reads a piece of a file: its rows, block by block, each checked, and what was rejected."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import LakewardenError, Reject
from lakewarden.ingest.load_checks import CheckedBlock, RowCheck
from lakewarden.ingest.load_formats import parse_csv, parse_json, parse_parquet
from lakewarden.ingest.load_pieces import form_of, named, opened, records_of
from lakewarden.ingest.load_sources import SHOWN_REJECTS, FilePiece
from lakewarden.ingest.templates.parquet_files import open_parquet
from lakewarden.storage.steps import Steps
from lakewarden.tables.direct.outputs import TaskOutput
from lakewarden.tables.direct.task_files import TaskNumbers, write_rows
from lakewarden.tables.rows.records import RecordBlock, Records, record_lines


@dataclass
class Rejects:
    """Rejected rows: the first ones by name, all by number."""

    count: int = 0
    first: tuple[Reject, ...] = ()

    def add(self, count: int, first: tuple[Reject, ...]) -> None:
        self.count += count
        self.first = (*self.first, *first)[:SHOWN_REJECTS]


def read_piece(check: RowCheck, piece: FilePiece, rejects: Rejects) -> Iterator[CheckedBlock]:
    """Yields the rows that fit, in order, and notes the others.

    Raises:
        InvalidArgument: the file cannot be parsed.
        NotFound, StorageUnavailable, StorageRefused: it cannot be read.
    """
    with named(piece.source):
        yield from _row_groups(check, piece, rejects) if piece.source.format == "parquet" else _lines(check, piece, rejects)


@dataclass(frozen=True)
class PieceChecked:
    """What a look at all rows of a piece found."""

    rows: int
    rejects: Rejects


def check_piece(check: RowCheck, piece: FilePiece) -> PieceChecked | LakewardenError:
    """Reads a piece and keeps no row of it. An error is a value: a task of Spark cannot raise it."""
    rejects = Rejects()
    try:
        return PieceChecked(sum(made.rows.num_rows for made in read_piece(check, piece, rejects)), rejects)
    except LakewardenError as error:
        return error


def _row_groups(check: RowCheck, piece: FilePiece, rejects: Rejects) -> Iterator[CheckedBlock]:
    line = piece.line
    with opened(piece.source) as file:
        for given in parse_parquet(check.schema, open_parquet(file), piece.first, piece.last):
            made = check(given)
            _note(rejects, piece, {number: line + number for number in made.rejects}, made)
            line += given.rows
            yield made


def _lines(check: RowCheck, piece: FilePiece, rejects: Rejects) -> Iterator[CheckedBlock]:
    form = form_of(piece.source)
    with opened(piece.source) as file:
        for block in _blocks(piece, records_of(piece.source, file, piece)):
            if form.quotes:
                made = check(parse_csv(check.schema, block.data, piece.header))
            else:
                made = check(parse_json(check.schema, block.data, check.extra))
            if made.rejects:
                lines = record_lines(block, form)
                _note(rejects, piece, {number: int(lines[number]) for number in made.rejects}, made)
            yield made


def _blocks(piece: FilePiece, records: Records) -> Iterator[RecordBlock]:
    if piece.first or piece.header:
        records.skip_one()  # the header, or a record that begins in the piece before
    yield from records.blocks(None if piece.source.packed else piece.last - records.passed)


def _note(rejects: Rejects, piece: FilePiece, lines: dict[int, int], made: CheckedBlock) -> None:
    numbers = sorted(made.rejects)
    uri = piece.source.found.uri
    rejects.add(len(numbers), tuple(Reject(uri, lines[number], made.rejects[number]) for number in numbers[:SHOWN_REJECTS]))


# Writes the rows of one piece of a file to data files: in a task, where a load has many bytes.
@dataclass(frozen=True)
class PieceTask:
    """A piece whose rows go into data files of the table. Picklable."""

    target: ScopeTarget
    check: RowCheck
    piece: FilePiece
    first_seq: int
    """The `_seq` of its first row; as many follow as the piece can have rows."""
    stops: bool
    """Whether a row that does not fit ends the task."""


@dataclass(frozen=True)
class PieceWritten:
    """The rows of a piece; and what was rejected."""

    written: TaskOutput
    rejects: Rejects

    @property
    def rows(self) -> int:
        return self.written.rows


def write_piece(task: PieceTask) -> Steps[PieceWritten | LakewardenError]:
    """Holds the rows of one data file and one block in memory."""
    rejects = Rejects()
    return write_rows(task.target, _numbered(task, rejects), lambda written: PieceWritten(written, rejects))


def _numbered(task: PieceTask, rejects: Rejects) -> Generator[pa.Table, None, None]:
    """The rows that fit."""
    too_many = f"{task.piece.source.found.uri}: a piece has more rows than can be numbered; make load.piece_bytes smaller"
    numbers = TaskNumbers(task.target, task.first_seq, task.piece.most, too_many)
    for made in read_piece(task.check, task.piece, rejects):
        if rejects.count and task.stops:
            return
        yield numbers.numbered(made.rows)
