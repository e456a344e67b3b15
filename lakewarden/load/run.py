"""Loads files into a table: all rows in one commit, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Literal, Protocol, TypeVar

import pyarrow as pa

from lakewarden.errors import InvalidArgument, LakewardenError, RowsRejected, Unsupported
from lakewarden.load.checking import Owner, RowCheck
from lakewarden.load.pieces import Survey, count_piece, placed, survey
from lakewarden.load.reading import Rejects, read_piece
from lakewarden.load.sources import find_sources, total_bytes
from lakewarden.load.value import LoadReport, Piece, Source
from lakewarden.log.position import WHOLE
from lakewarden.log.record import UPSERT, LogBatch, log_batch
from lakewarden.operations.fanout import Sized
from lakewarden.rows.files import file_columns
from lakewarden.storage.location import local_path
from lakewarden.storage.steps import Steps, in_one_step
from lakewarden.table import TableClient
from lakewarden.table.intake import TableIntake

T = TypeVar("T")
R = TypeVar("R")

OnReject = Literal["refuse", "stop", "skip"]
ON_REJECT: tuple[OnReject, ...] = ("refuse", "stop", "skip")

_NAMED = 3
"""Rejected rows that the message of an error names."""


class RunTasks(Protocol):
    """Runs work over items: in this process, or in Spark where they are large."""

    def __call__(self, work: Callable[[T], Steps[R]], items: Sequence[Sized[T]]) -> list[R]: ...


@dataclass(frozen=True)
class LoadRequest:
    """What to load. `on_reject`: rows that do not fit refuse the load once all files are read (`refuse`) or at once (`stop`), or
    are left out (`skip`)."""

    paths: tuple[str, ...]
    format: str | None = None
    user: str | None = None
    user_column: str | None = None
    on_reject: OnReject = "refuse"


@dataclass
class Load:
    """One load into one table."""

    client: TableClient
    request: LoadRequest
    run_tasks: RunTasks
    rejects: Rejects = field(default_factory=Rejects)

    def __post_init__(self) -> None:
        if self.request.on_reject not in ON_REJECT:
            raise InvalidArgument(f"on_reject {self.request.on_reject!r} does not exist; it is one of {', '.join(ON_REJECT)}")

    def run(self) -> LoadReport:
        """Loads the files.

        Raises:
            NotFound: a path matches no file.
            FailedPrecondition: the engine of the table's namespace is disabled.
            InvalidArgument: a file is empty or unreadable, or its columns are not those of the table; or a bad option.
            RowsRejected: rows do not fit.
            Conflict, StorageUnavailable: as `TableClient.write` and `DirectWrites.append`.
        """
        table, request = self.client.table, self.request
        self.client.reader.check_active()
        check = RowCheck(table.schema, self._owner(), self.client.warehouse.clock, self.client.warehouse.new_id)
        sources = find_sources(self.client.warehouse, request.paths, request.format)
        pieces = self._pieces(check, sources)
        if table.type == "SHARED" and not table.schema.keyed:
            done = self.client.direct.append(self._rows(check, pieces))
            rows, version = done.rows_inserted, done.version
        else:
            rows, version = self._by_key(check, pieces), None
        return LoadReport(
            str(table.name), len(sources), total_bytes(sources), rows, self.rejects.count, self.rejects.first, version
        )

    def _owner(self) -> Owner:
        """Raises:
        InvalidArgument: a user of a SHARED table's rows, or none, or two, of another's.
        Unsupported: the table has FILE columns.
        """
        client = self.client
        if columns := file_columns(client.table.schema):
            raise Unsupported(f"{client.table.name} has the FILE column {columns[0]!r}: its rows are written with their files")
        intake = TableIntake(client.table, client.warehouse.clock, client.warehouse.new_id, client.author)
        user = intake.owner(self.request.user, self.request.user_column)
        return Owner(user, self.request.user_column, client.author)

    def _pieces(self, check: RowCheck, sources: Sequence[Source]) -> list[Piece]:
        """The pieces of all files, in order."""
        look = Survey(check, self.client.warehouse.settings.load.piece_bytes)
        surveyed = self._each(partial(survey, look), sources, lambda _source: 0, lambda source: source.found.place.uri)
        pieces = [piece for found in surveyed for piece in _or_raise(found)]
        long = [piece for piece in pieces if piece.source.format != "parquet" and piece.size < piece.source.found.size]
        counted = self._each(count_piece, long, lambda piece: piece.size, lambda piece: piece.source.found.place.uri)
        counts = dict(zip(long, counted, strict=True))
        made: list[Piece] = []
        for _, group in groupby(pieces, key=lambda piece: piece.source):
            own = list(group)
            made += placed(own, [counts[piece] for piece in own]) if own[0] in counts else own
        return made

    def _each(self, work: Callable[[T], R], items: Sequence[T], size: Callable[[T], int], place: Callable[[T], str]) -> list[R]:
        sized = [Sized(item, size(item), on_disk=local_path(place(item)) is not None) for item in items]
        return self.run_tasks(partial(in_one_step, work), sized)

    def _rows(self, check: RowCheck, pieces: Sequence[Piece]) -> Iterator[pa.Table]:
        """Yields the rows of all pieces; raises `RowsRejected` where the request says so."""
        read = 0
        for piece in pieces:
            for made in read_piece(check, piece, self.rejects):
                read += made.rows.num_rows
                self._check_rejects(read, end=False)
                yield made.rows
        self._check_rejects(read, end=True)

    def _check_rejects(self, read: int, *, end: bool) -> None:
        if self.rejects.count and (self.request.on_reject == "stop" or (end and self.request.on_reject == "refuse")):
            count, first = self.rejects.count, self.rejects.first
            named = "; ".join(f"{one.file}, line {one.line}: {one.reason}" for one in first[:_NAMED])
            more = f"; and {count - _NAMED} more" if count > _NAMED else ""
            of = f"{count} of {read + count} rows do" if end else f"{count} row{'s do' if count > 1 else ' does'}"
            raise RowsRejected(f"{of} not fit {self.client.table.name}, and nothing was loaded: {named}{more}", count, first)

    def _by_key(self, check: RowCheck, pieces: Sequence[Piece]) -> int:
        """Writes the rows to the log; checks all of them before the first is written, unless misfits are left out."""
        if self.request.on_reject != "skip":
            sizes = self._each(
                partial(check_piece, check), pieces, lambda piece: piece.size, lambda piece: piece.source.found.place.uri
            )
            for found in map(_or_raise, sizes):
                self.rejects.add(found.rejects.count, found.rejects.first)
            self._check_rejects(sum(_or_raise(found).rows for found in sizes), end=True)
        rows = 0
        for batch in self._batches(check, pieces):
            self.client.log.append(batch)
            rows += batch.rows.num_rows
        return rows

    def _batches(self, check: RowCheck, pieces: Sequence[Piece]) -> Iterator[LogBatch]:
        """The rows in one batch, which becomes visible at once; those of many users in batches of about one segment."""
        most = WHOLE if self.request.user_column is None else self.client.warehouse.settings.log.segment_max_rows
        held: list[LogBatch] = []
        for piece in pieces:
            for made in read_piece(check, piece, self.rejects):
                if held and sum(each.rows.num_rows for each in held) + made.rows.num_rows > most:
                    yield _joined(held)
                    held = []
                users = check.owner.user if made.users is None else made.users
                held.append(log_batch(check.schema, made.rows, users, UPSERT))
        if held:
            yield _joined(held)


@dataclass(frozen=True)
class PieceChecked:
    """What a look at all rows of a piece found."""

    rows: int
    rejects: Rejects


def check_piece(check: RowCheck, piece: Piece) -> PieceChecked | LakewardenError:
    """Reads a piece and keeps no row of it. An error is a value: a task of Spark cannot raise it."""
    rejects = Rejects()
    try:
        return PieceChecked(sum(made.rows.num_rows for made in read_piece(check, piece, rejects)), rejects)
    except LakewardenError as error:
        return error


def _joined(batches: Sequence[LogBatch]) -> LogBatch:
    return LogBatch(batches[0].schema_version, pa.concat_tables([batch.rows for batch in batches]))


def _or_raise(found: R | LakewardenError) -> R:
    if isinstance(found, LakewardenError):
        raise found
    return found
