"""Loads files into a table: all rows in one commit, or none."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Literal, TypeVar

import pyarrow as pa

from lakewarden.base.quantities import portions
from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import NewFile
from lakewarden.errors import InvalidArgument, LakewardenError, Reject, RowsRejected, Unsupported
from lakewarden.ingest.load_checks import CheckedBlock, RowCheck, RowOwner
from lakewarden.ingest.load_formats import parse_csv, parse_json, parse_parquet
from lakewarden.ingest.load_pieces import FileLook, count_piece, form_of, named, opened, placed, records_of
from lakewarden.ingest.load_sources import SHOWN_REJECTS, FilePiece, LoadReport, SourceFile, find_sources
from lakewarden.ingest.templates.parquet_files import open_parquet
from lakewarden.log.once import Resume, WriterBatch
from lakewarden.log.position import WHOLE, PartlyAppended
from lakewarden.log.record import UPSERT, USER, LogBatch, log_batch
from lakewarden.log.table_log import TableLog
from lakewarden.storage.steps import Steps, in_one_step
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct.outputs import TaskOutput, remove_written, shuffled
from lakewarden.tables.direct.task_files import TaskNumbers, all_written, write_rows
from lakewarden.tables.direct.value import Given, Reserve, TaskFiles
from lakewarden.tables.fanout import Run, SizedWork, done_and_failed, or_error
from lakewarden.tables.intake import TableIntake
from lakewarden.tables.rows.records import RecordBlock, Records, record_lines

# Reads a piece of a file: its rows, block by block, each checked, and what was rejected.


@dataclass
class RowTally:
    """How many rows fit, and how many were rejected; of these the first ones by name."""

    rows: int = 0
    rejected: int = 0
    first: tuple[Reject, ...] = ()

    def reject(self, count: int, first: tuple[Reject, ...]) -> None:
        self.rejected += count
        self.first = (*self.first, *first)[:SHOWN_REJECTS]


def read_piece(check: RowCheck, piece: FilePiece, tally: RowTally) -> Iterator[CheckedBlock]:
    """Yields the rows that fit, in order, and counts them behind; notes the others.

    Raises:
        InvalidArgument: the file cannot be parsed.
        NotFound, StorageUnavailable, StorageRefused: it cannot be read.
    """
    with named(piece.source):
        for made in (_row_groups if piece.source.format == "parquet" else _lines)(check, piece, tally):
            yield made
            tally.rows += made.rows.num_rows


def check_piece(check: RowCheck, piece: FilePiece) -> RowTally:
    """Reads a piece and keeps no row of it."""
    tally = RowTally()
    deque(read_piece(check, piece, tally), maxlen=0)
    return tally


def _row_groups(check: RowCheck, piece: FilePiece, tally: RowTally) -> Iterator[CheckedBlock]:
    line = piece.line
    with opened(piece.source) as file:
        for given in parse_parquet(check.schema, open_parquet(file), piece.first, piece.last):
            made = check(given)
            _note(tally, piece, {number: line + number for number in made.rejects}, made)
            line += given.rows
            yield made


def _lines(check: RowCheck, piece: FilePiece, tally: RowTally) -> Iterator[CheckedBlock]:
    form = form_of(piece.source)
    with opened(piece.source) as file:
        for block in _blocks(piece, records_of(piece.source, file, piece)):
            if form.quotes:
                made = check(parse_csv(check.schema, block.data, piece.header))
            else:
                made = check(parse_json(check.schema, block.data, check.extra))
            if made.rejects:
                lines = record_lines(block, form)
                _note(tally, piece, {number: int(lines[number]) for number in made.rejects}, made)
            yield made


def _blocks(piece: FilePiece, records: Records) -> Iterator[RecordBlock]:
    if piece.first or piece.header:
        records.skip_one()  # the header, or a record that begins in the piece before
    yield from records.blocks(None if piece.source.packed else piece.last - records.passed)


def _note(tally: RowTally, piece: FilePiece, lines: dict[int, int], made: CheckedBlock) -> None:
    numbers = sorted(made.rejects)
    uri = piece.source.found.uri
    tally.reject(len(numbers), tuple(Reject(uri, lines[number], made.rejects[number]) for number in numbers[:SHOWN_REJECTS]))


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


def write_piece(task: PieceTask) -> Steps[tuple[TaskOutput, RowTally] | LakewardenError]:
    """Holds the rows of one data file and one block in memory."""
    tally = RowTally()
    return write_rows(task.target, _numbered(task, tally), tally)


def _numbered(task: PieceTask, tally: RowTally) -> Generator[pa.Table, None, None]:
    """The rows that fit."""
    too_many = f"{task.piece.source.found.uri}: a piece has more rows than can be numbered; make load.piece_bytes smaller"
    numbers = TaskNumbers(task.target, task.first_seq, task.piece.most, too_many)
    for made in read_piece(task.check, task.piece, tally):
        if tally.rejected and task.stops:
            return
        yield numbers.numbered(made.rows)


# Appends the rows of many users to the log. One position is of one user where the rows are many, so these become several.
def append_of_many(log: TableLog, schema: TableSchema, blocks: Iterable[CheckedBlock], most: int) -> int:
    """Appends blocks of rows that name their users, in batches of at most this many rows, or of one block. Returns the rows.

    Raises:
        PartlyAppended: it failed half-way; the error names the users all of whose rows were appended.
        LakewardenError: as `TableLog.append`; nothing was written.
    """
    done, users = 0, set[str]()
    batches = _batches(schema, blocks, most)
    for batch in batches:
        theirs = _users(batch)
        try:
            log.append(batch)
        except LakewardenError as error:
            if isinstance(error, PartlyAppended):
                done, users, theirs = done + error.rows, users | error.users, theirs - error.users
            if not done:
                raise
            raise _half_way(done, users - theirs.union(*map(_users, batches)), schema, error) from error
        done, users = done + batch.rows.num_rows, users | theirs
    return done


def _half_way(rows: int, users: set[str], schema: TableSchema, error: LakewardenError) -> PartlyAppended:
    whole = f"all those of {len(users)} users ({', '.join(map(repr, sorted(users)[:5]))}{', …' if len(users) > 5 else ''})"
    again = "load the other users' rows again" if schema.append_only else "load again, which replaces rows by their keys"
    return PartlyAppended(
        f"{rows} rows were acknowledged, {whole if users else 'of no user all'}; then: {error.message}; {again}",
        rows,
        frozenset(users),
    )


def _users(batch: LogBatch) -> set[str]:
    return {str(user) for user in batch.rows.column(USER).unique().to_pylist()}


def _batches(schema: TableSchema, blocks: Iterable[CheckedBlock], most: int) -> Iterator[LogBatch]:
    some = (made for made in blocks if made.rows.num_rows)
    for held in portions(some, lambda made: made.rows.num_rows, most):
        yield LogBatch(schema.version, pa.concat_tables([_logged(schema, made) for made in held]))


def _logged(schema: TableSchema, made: CheckedBlock) -> pa.Table:
    assert made.users is not None, "each row names its user"
    return log_batch(schema, made.rows, made.users, UPSERT).rows


T = TypeVar("T")
R = TypeVar("R")

OnReject = Literal["refuse", "stop", "skip"]
ON_REJECT: tuple[OnReject, ...] = ("refuse", "stop", "skip")

_NAMED = 3
"""Rejected rows that the message of an error names."""


@dataclass(frozen=True)
class LoadRequest:
    """What to load. `on_reject`: rows that do not fit refuse the load once all files are read (`refuse`) or at once (`stop`), or
    are left out (`skip`)."""

    paths: tuple[str, ...]
    format: str | None = None
    user: str | None = None
    user_column: str | None = None
    on_reject: OnReject = "refuse"
    once: str | None = None
    """The load's identity: a table without a key takes a load of this name once."""
    resume: Resume | None = None
    """How to go on where a repair left uncertain whether it was taken."""


@dataclass
class Load:
    """One load into one table."""

    client: TableClient
    request: LoadRequest
    run_tasks: Run
    """In this process, or in Spark where the items are large."""
    tally: RowTally = field(default_factory=RowTally)

    def __post_init__(self) -> None:
        if self.request.on_reject not in ON_REJECT:
            raise InvalidArgument(f"on_reject {self.request.on_reject!r} does not exist; it is one of {', '.join(ON_REJECT)}")

    def run(self) -> LoadReport:
        """Loads the files.

        Raises:
            NotFound: a path matches no file.
            FailedPrecondition: the engine of the table's namespace is disabled; or a repair left uncertain whether the table has
                the load: `resume` says how to go on.
            InvalidArgument: a file is empty or unreadable, or its columns are not those of the table; or a bad option.
            RowsRejected: rows do not fit.
            Conflict, StorageUnavailable: as `TableClient.write` and `DirectWrites.append`.
        """
        table, request = self.client.table, self.request
        self.client.reader.check_writable()
        check = RowCheck(table.schema, self._owner(), self.client.warehouse.clock, self.client.warehouse.new_id)
        sources = find_sources(self.client.warehouse, request.paths, request.format)
        pieces = self._pieces(check, sources)
        if table.type == "SHARED" and not table.schema.keyed:
            once = None if request.once is None else WriterBatch(f"load/{request.once}", 0)
            if once is not None and request.resume is not None:
                self.client.direct.resume(once.writer, request.resume, once.batch)
            done = self.client.direct.append(self._given(check, pieces), once=once)
            rows, version, repeated = done.rows_inserted, done.version, done.repeated
        else:
            rows, version, repeated = self._by_key(check, pieces), None, False
        size = sum(source.found.size for source in sources)
        rejected, first = self.tally.rejected, self.tally.first
        return LoadReport(str(table.name), len(sources), size, rows, rejected, first, version, repeated=repeated)

    def _owner(self) -> RowOwner:
        """Raises:
        InvalidArgument: a user of a SHARED table's rows, or none, or two, of another's.
        Unsupported: the table has FILE columns; or `once`, and it is written by key.
        """
        client = self.client
        if self.request.once is not None and (client.table.type != "SHARED" or client.table.schema.keyed):
            raise Unsupported(f"{client.table.name} is written by key: a load that is repeated replaces its rows, without once")
        if columns := client.table.schema.of_files:
            raise Unsupported(f"{client.table.name} has the FILE column {columns[0]!r}: its rows are written with their files")
        intake = TableIntake(client.table, client.warehouse.clock, client.warehouse.new_id, client.author)
        user = intake.owner(self.request.user, self.request.user_column)
        return RowOwner(user, self.request.user_column, client.author)

    def _pieces(self, check: RowCheck, sources: Sequence[SourceFile]) -> list[FilePiece]:
        """The pieces of all files, in order."""
        look = FileLook(check, self.client.warehouse.settings.load.piece_bytes)
        surveyed = self._each(look, [SizedWork(source, 0, source.on_disk) for source in sources])
        pieces = [piece for found in surveyed for piece in found]
        long = [piece for piece in pieces if piece.source.format != "parquet" and piece.size < piece.source.found.size]
        counted = self._each(count_piece, map(_sized, long))
        counts = dict(zip(long, counted, strict=True))
        made: list[FilePiece] = []
        for _, group in groupby(pieces, key=lambda piece: piece.source):
            own = list(group)
            made += placed(own, [counts[piece] for piece in own]) if own[0] in counts else own
        return made

    def _each(self, work: Callable[[T], R], items: Iterable[SizedWork[T]]) -> list[R]:
        """What a task makes of each. Raises the first error."""
        done, failed = done_and_failed(self.run_tasks(partial(in_one_step, partial(or_error, work)), [*items]))
        if failed is not None:
            raise failed
        return done

    def _given(self, check: RowCheck, pieces: Sequence[FilePiece]) -> Given:
        """The rows as they are read, one piece after the other; of many bytes, data files that tasks write."""
        if sum(piece.size for piece in pieces) < self.client.warehouse.settings.load.in_process_bytes:
            return self._rows(check, pieces)
        return TaskFiles(partial(self._written, check, pieces))

    def _written(self, check: RowCheck, pieces: Sequence[FilePiece], target: ScopeTarget, reserve: Reserve) -> Sequence[NewFile]:
        """Has a task write each piece; raises `RowsRejected` where the request says so."""
        stops = self.request.on_reject == "stop"
        tasks = [PieceTask(target, check, piece, reserve(min(piece.most, WHOLE)), stops) for piece in pieces]
        sized = [SizedWork(task, task.piece.size, task.piece.source.on_disk) for task in tasks]
        written, found = all_written(self.run_tasks, target, write_piece, sized)
        try:
            self._note(found)
        except RowsRejected:
            remove_written(target, written)
            raise
        return shuffled(self.run_tasks, target, written)

    def _rows(self, check: RowCheck, pieces: Sequence[FilePiece]) -> Iterator[pa.Table]:
        """Yields the rows of all pieces; raises `RowsRejected` where the request says so."""
        for piece in pieces:
            for made in read_piece(check, piece, self.tally):
                self._check_rejects(end=False)
                yield made.rows
        self._check_rejects(end=True)

    def _check_rejects(self, *, end: bool) -> None:
        count, first = self.tally.rejected, self.tally.first
        if count and (self.request.on_reject == "stop" or (end and self.request.on_reject == "refuse")):
            named = "; ".join(f"{one.file}, line {one.line}: {one.reason}" for one in first[:_NAMED])
            more = f"; and {count - _NAMED} more" if count > _NAMED else ""
            of = f"{count} of {self.tally.rows + count} rows do" if end else f"{count} row{'s do' if count > 1 else ' does'}"
            raise RowsRejected(f"{of} not fit {self.client.table.name}, and nothing was loaded: {named}{more}", count, first)

    def _by_key(self, check: RowCheck, pieces: Sequence[FilePiece]) -> int:
        """Writes the rows to the log. Those of one owner become visible together; those of many after a look at all of them."""
        owner = check.owner.user
        if self.request.user_column is None:
            batches = (log_batch(check.schema, rows, owner, UPSERT) for rows in self._rows(check, pieces) if rows.num_rows)
            return self.client.reader.appending.append_whole(batches).rows
        if self.request.on_reject != "skip":
            self._note(self._each(partial(check_piece, check), map(_sized, pieces)))
        blocks = (made for piece in pieces for made in read_piece(check, piece, self.tally))
        return append_of_many(self.client.log, check.schema, blocks, self.client.warehouse.settings.log.segment_max_rows)

    def _note(self, pieces: Iterable[RowTally]) -> None:
        """Raises RowsRejected: rows of these pieces do not fit, and the request does not skip them."""
        for each in pieces:
            self.tally.rows += each.rows
            self.tally.reject(each.rejected, each.first)
        self._check_rejects(end=True)


def _sized(piece: FilePiece) -> SizedWork[FilePiece]:
    return SizedWork(piece, piece.size, piece.source.on_disk)
