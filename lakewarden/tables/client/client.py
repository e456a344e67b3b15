"""The interface to one table: write, delete, read, files, history, pins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.commit_metadata import Metadata, attaches
from lakewarden.catalog.access import OPERATOR
from lakewarden.catalog.evolution import anew
from lakewarden.catalog.model import OBJECT, Table
from lakewarden.delta.past import AsOf
from lakewarden.delta.reading.rows import matches
from lakewarden.errors import InvalidArgument, NotFound, SchemaChanged, Unsupported
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.position import NOTHING, Receipt
from lakewarden.log.record import DELETE, SEQ, TARGET, Batch, LogBatch, log_batch
from lakewarden.storage.paths import check_user
from lakewarden.tables.client.appending import Decision, TableAppender, live_within, pinned_key, touched_with
from lakewarden.tables.client.direct import DirectWrites, FlushPending
from lakewarden.tables.client.file_columns import FiledRows, FileMode
from lakewarden.tables.client.large_writes import ComparedWrite, Decisions, PartsMode, PartsWrite
from lakewarden.tables.client.versions import TableVersions
from lakewarden.tables.files import StoredFile, check_batch, check_rows, texts_of
from lakewarden.tables.freshness import Freshness
from lakewarden.tables.intake import Revision, TableIntake
from lakewarden.tables.rows.files import FileRef, Files, RowFile, RowsWithFiles, Upload
from lakewarden.tables.rows.intake import Renaming, RowParts, Rows, held
from lakewarden.tables.strong_read import EVERYTHING, ReadSelection
from lakewarden.tables.warehouse import Warehouse, find_table

WriteMode = Literal["upsert", "insert"]

T = TypeVar("T")


@dataclass(frozen=True)
class TableClient(TableVersions):
    """One table of an open warehouse; created by `Lakehouse.table`."""

    flush_pending: FlushPending = field(kw_only=True)

    @classmethod
    def of(cls, flush_pending: FlushPending, warehouse: Warehouse, table: Table, author: str = OPERATOR.user) -> TableClient:
        """The client of a table that is there, by default as the operator's."""
        return cls(warehouse, table, warehouse.log(table), author, flush_pending=flush_pending)

    @cached_property
    def direct(self) -> DirectWrites:
        """Writes past the log."""
        return DirectWrites(self.warehouse, self.table, self.flush_pending)

    @cached_property
    def _intake(self) -> TableIntake:
        return TableIntake(self.table, self.warehouse.clock, self.warehouse.new_id, self.author)

    @cached_property
    def _appender(self) -> TableAppender:
        return TableAppender(self.reader)

    @cached_property
    def _as_opened(self) -> Renaming:
        """Of no name, as long as nobody altered the table; kept, since every write asks it."""
        return Renaming(self.table.schema, self.table.schema)

    @cached_property
    def _filed(self) -> FiledRows:
        return FiledRows(self)

    @attaches
    def write(
        self,
        rows: Rows,
        *,
        user: str | None = None,
        user_column: str | None = None,
        mode: WriteMode = "upsert",
        metadata: Metadata | None = None,
    ) -> Receipt:
        """Appends rows to the write log, or straight to the Delta table where there is no primary key; returns once they are
        durable.

        Args:
            rows: dicts, pandas, polars, or anything Arrow. A dict may have an `Upload` for a FILE column.
            user: whose rows they are (USER tables).
            user_column: instead of `user`, the column that names each row's user; it is not stored.
            mode: `upsert` replaces a live key, `insert` refuses it. A STREAM table, and one without a primary key, only appends:
                there both do.
            metadata: a JSON object that the commit with the rows will carry (`HistoryEntry.metadata`).

        Raises:
            InvalidArgument: an unknown column; or the user is missing, invalid, or not allowed.
            ConstraintViolation: a value of the wrong type or range, NULL in a key or a NOT NULL column, a key twice in the
                call, or, under `insert`, a key that is live. Nothing was written.
        """
        if mode not in ("upsert", "insert"):
            raise InvalidArgument(f"mode {mode!r} does not exist; write with mode='upsert' or mode='insert'")
        given = held(rows)
        return self._anew(
            lambda newest, now: newest.write_taken(
                newest.take_files(now.rows(given), user), user=user, user_column=user_column, mode=mode
            )
        )

    @attaches
    def delete(
        self, key_rows: Rows, *, user: str | None = None, user_column: str | None = None, metadata: Metadata | None = None
    ) -> Receipt:
        """Appends tombstones for the rows with these primary keys; a key that does not exist is not an error. `metadata` as in
        `write`."""
        given = held(key_rows)
        return self._anew(lambda newest, now: newest._delete(now.rows(given), user, user_column))

    def _delete(self, key_rows: Rows, user: str | None, user_column: str | None) -> Receipt:
        if self.table.schema.append_only:
            return self._delete_rows_of(*self._intake.keys(key_rows, user, user_column))
        batch = self._intake.deletes(key_rows, user, user_column)
        if not self.table.schema.of_files:
            return self._appender.append(batch)
        return self._appender.behind(lambda _view: Decision(batch), self._appender.filing(user))

    @attaches
    def put_file(
        self,
        row: Mapping[str, object],
        column: str,
        data: bytes,
        *,
        name: str,
        mime: str | None = None,
        user: str | None = None,
        mode: FileMode = "upsert",
        metadata: Metadata | None = None,
    ) -> FileRef:
        """Stores a file beside the scope and writes the row, whose column then refers to it. A file that it replaces is removed.

        Args:
            row: the whole row, but for the column.
            mime: guessed from the name, where it is not given.
            mode: as in `write`; or `merge`, where an existing row keeps what `row` leaves out.
            metadata: as in `write`.

        Raises:
            InvalidArgument: the FILE column does not exist; the file is too large, or its type is not allowed.
            ConstraintViolation, Conflict: the row was refused, or the table is being moved. Neither row nor file is stored.
        """
        upload = Upload(name, data, mime)
        return self._anew(lambda newest, now: newest._filed.put(now.row(row), now.name(column), upload, user, mode))

    def get_file(self, key: Mapping[str, object], column: str, *, user: str | None = None) -> bytes:
        """The file that a row refers to, checked against its checksum.

        Raises:
            NotFound: the row does not exist or refers to no file, or the file was removed meanwhile.
            Corrupt: the bytes are not those that were stored.
        """
        return self._filed.get(key, column, user)

    def open_file(self, key: Mapping[str, object], column: str, *, user: str | None = None) -> StoredFile:
        """As `get_file`, in pieces: for a large file, or one that goes on to somebody else."""
        return self._filed.open(key, column, user)

    @attaches
    def delete_file(
        self, key: Mapping[str, object], column: str, *, user: str | None = None, metadata: Metadata | None = None
    ) -> None:
        """Sets the column of a row to NULL and removes the file; a row without one is not an error.

        Raises:
            NotFound: the row does not exist.
        """
        self._anew(lambda newest, now: newest._filed.delete(now.row(key), now.name(column), user))

    def files(self, *, user: str | None = None) -> list[RowFile]:
        """The files that the scope's rows refer to, by key and column."""
        return self._filed.all(user)

    def _anew(self, write: Callable[[TableClient, Renaming], T]) -> T:
        """Writes; where the table was altered since it was opened, as its newest columns have it.

        Raises:
            SchemaChanged: a column of the rows was dropped since; nothing was written.
        """
        try:
            return write(self, self._as_opened)
        except SchemaChanged:
            return anew(partial(self._written_anew, write))

    def _written_anew(self, write: Callable[[TableClient, Renaming], T]) -> T:
        newest = self._reopened()
        return write(newest, Renaming(self.table.schema, newest.table.schema))

    def _reopened(self) -> TableClient:
        table = find_table(self.warehouse.catalog.read(), self.table.name)
        if table.id != self.table.id:
            raise NotFound(f"{table.name} was dropped, and another table now has its name: open it again")
        return replace(self, table=table)

    def take_files(self, rows: Rows, user: str | None) -> RowsWithFiles:
        """Rows with references in place of uploads, and the files, for the write or the revision of these rows.

        Raises:
            InvalidArgument: too many files, one that is too large, of a type that is not allowed, or for another column.
        """
        return self._filed.take(rows, user) if self.table.schema.of_files else RowsWithFiles(rows)

    def write_taken(
        self, taken: RowsWithFiles, *, user: str | None = None, user_column: str | None = None, mode: WriteMode = "upsert"
    ) -> Receipt:
        """As `write`, for rows that already refer to their files."""
        if not (self.table.schema.keyed or self.table.schema.append_only):
            return self._added(taken, user, user_column)
        batch = self._followed(self._intake.upserts(taken.rows, user, user_column), taken)
        insert = mode == "insert" and not self.table.schema.append_only
        if not (insert or taken.files):
            return self._appender.append(batch)
        filing = self._appender.filing(user, taken.files)
        return self._appender.insert(batch, filing) if insert else self._appender.behind(lambda _view: Decision(batch), filing)

    def _added(self, taken: RowsWithFiles, user: str | None, user_column: str | None) -> Receipt:
        """Appends rows that have no key.

        Raises:
            Unsupported: with files, which are found by their rows' keys.
        """
        self._intake.owner(user, user_column)
        if taken.files:
            raise Unsupported(f"{self.table.name} has no primary key, by which its rows' files would be found")
        rows = self.completed(taken.rows, user=user, follows=taken.follows)
        return Receipt(rows.num_rows, self.direct.append([rows]).last_seq)

    def write_parts(self, given: RowParts, *, user: str | None = None, mode: PartsMode = "upsert") -> Receipt:
        """As `write`, for one user's rows that are too many to be in memory; under `replace` they replace all rows of the user.
        Files of replaced rows stay until a vacuum.

        Raises:
            Conflict: others kept writing in between.
        """
        return self._anew(lambda newest, now: PartsWrite(newest.reader, newest._intake, now.parts(given), user).run(mode))

    def delete_rows(self, seqs: Sequence[int], *, user: str) -> Receipt:
        """Deletes rows of a STREAM table by their `_seq`; one that does not exist is not an error.

        Raises:
            Unsupported: not a STREAM table; its rows are deleted by their primary key.
        """
        if not self.table.schema.append_only:
            raise Unsupported(f"{self.table.name} is a {self.table.type} table: its rows are deleted by their primary key")
        check_user(user)
        return self._appender.append(log_batch(self.table.schema, pa.table({TARGET: pa.array(seqs, pa.int64())}), user, DELETE))

    def read(
        self,
        *,
        user: str | None = None,
        freshness: Freshness = "strong",
        version: int | None = None,
        timestamp: datetime | str | None = None,
    ) -> pa.Table:
        """The scope's rows, in no particular order.

        Args:
            freshness: `strong` sees every acknowledged write, `eventual` the Delta table as of the last flush. A STREAM
                table has none, and is always read strongly: the rows that have not expired.
            version: a version of the Delta table: the rows and the columns that it had then, whatever `freshness` says.
            timestamp: instead of `version`, the one that was the newest then; without a zone it is UTC.

        Raises:
            InvalidArgument: both, or a value that cannot be a version or a timestamp.
            NotFound: the version does not exist, is no longer there, or is still to come; the message names those that are.
            Unsupported: a version of a STREAM table.
        """
        as_of = AsOf.of(version, timestamp)
        if as_of is not None:
            return _shown(self.reader.past(as_of, user).rows(EVERYTHING))
        return _shown(self.reader.scan(EVERYTHING, user, freshness))

    def revise(
        self,
        decide: Callable[[pa.Table], pa.Table | Revision],
        *,
        user: str | None,
        wanted: ReadSelection = EVERYTHING,
        files: Files = (),
    ) -> int:
        """Reads the scope, lets `decide` turn it into rows, and appends them right after what was read.

        Args:
            decide: takes the wanted part of the live rows, and returns the rows to write, or what to write and remove. Called
                again if others wrote meanwhile.
            files: from `take_files`; those that `decide` writes no row for are removed.

        Returns:
            How many rows were written and removed.

        Raises:
            ConstraintViolation, InvalidArgument: as `write`; nothing was written.
            Conflict: others kept writing in between.
        """

        schema = self.table.schema
        key = None if schema.of_files else pinned_key(wanted, schema)

        def made(view: LogView) -> Decision:
            live = self.reader.scan_to_write(wanted, user) if key is None else self.reader.with_keys(key, wanted, user, view)
            decided = decide(live)
            batch = self._intake.revision(decided if isinstance(decided, Revision) else Revision(decided), user)
            if self.table.schema.of_files and isinstance(batch, LogBatch):
                known = RowsWithFiles((), files).known | texts_of(live, schema.of_files)
                check_batch(schema, batch, self.reader.target, known)
            read = None if schema.of_files else live_within(live, wanted, schema, user)
            return Decision(batch, read, None if key is None else touched_with(key, batch, schema, user))

        return self._appender.behind(made, self._appender.filing(user, files), (user or "",)).rows

    def revise_parts(
        self,
        given: RowParts,
        begin: Callable[[], AbstractContextManager[Decisions]],
        *,
        user: str | None,
        part_bytes: int,
        every: bool = False,
    ) -> int:
        """As `revise`, for rows that are too many to be in memory: what `begin` returns decides on a share of them at a time.

        Args:
            part_bytes: of a share, and of the live rows that it takes. Files of replaced rows stay until a vacuum.
            every: whether each share takes all live rows.
        """
        return ComparedWrite(self.reader, self._intake, given, user, begin, part_bytes, every).run().rows

    def completed(self, rows: Rows, *, user: str | None, follows: bool = True) -> pa.Table:
        """The rows as a write would store them: checked, with their defaults.

        Args:
            follows: whether references to files are looked at; `revise` and `write_taken` do so too.
        """
        made = self._intake.completed(rows, user)
        if follows and self.table.schema.of_files:
            check_rows(self.table.schema, made, user, self.reader.target)
        return made

    def _followed(self, batch: Batch, taken: RowsWithFiles) -> Batch:
        """The batch, whose references were looked at."""
        if self.table.schema.of_files and taken.follows and isinstance(batch, LogBatch):
            check_batch(self.table.schema, batch, self.reader.target, taken.known)
        return batch

    def _delete_rows_of(self, key_rows: pa.Table, users: pa.Array[Any]) -> Receipt:
        """Tombstones for the live rows of a STREAM table that have these keys; a key may have several."""
        found, key = [Receipt(0, NOTHING)], self.table.schema.primary_key
        for user in users.unique():
            name = str(user)
            rows = self.reader.stream(name, ReadSelection(key))
            gone = rows.filter(matches(rows, key_rows.filter(pc.equal(users, user)), key))
            found.append(self.delete_rows([int(seq) for seq in gone.column(SEQ).to_numpy()], user=name))
        return Receipt(sum(each.rows for each in found), max(each.last_seq for each in found))


def _shown(rows: pa.Table) -> pa.Table:
    return rows.drop_columns([name for name in (SEQ, OBJECT) if name in rows.column_names])
