"""A table as people use it: write, delete, read, history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.access.gate import require
from lakewarden.catalog.model import Table
from lakewarden.delta.history import HistoryEntry, history
from lakewarden.delta.rows import matches
from lakewarden.errors import BeingErased, Conflict, ConstraintViolation, InvalidArgument, NotFound, Terminal, Unsupported
from lakewarden.log.closing import is_closed
from lakewarden.log.gather import Receipt
from lakewarden.log.position import NOTHING, position_of
from lakewarden.log.record import DELETE, SEQ, TARGET, UPSERT, USER, LogBatch, log_batch
from lakewarden.log.view import read_view
from lakewarden.log.writer import LogWriter
from lakewarden.operations.files import load_file
from lakewarden.operations.filing import Filing, Held
from lakewarden.operations.leases import Lease, hold, release
from lakewarden.operations.read import EVERYTHING, Freshness, Wanted, read_cold, read_stream_scope, read_strong, where_it_lies
from lakewarden.report import ScopeTarget
from lakewarden.rows.defaults import Defaults
from lakewarden.rows.files import FILES, FileRef, RowFile, Taken, Upload, file_columns, references, take_files
from lakewarden.rows.intake import Rows, split_users, to_arrow
from lakewarden.rows.validate import keys, validated
from lakewarden.scope import Scope
from lakewarden.storage.open import open_store
from lakewarden.storage.paths import check_user
from lakewarden.warehouse import Warehouse, check_scope, find_table

WriteMode = Literal["upsert", "insert"]
FileMode = Literal["upsert", "insert", "merge"]

_ATTEMPTS = 20
"""Rounds of read and append that a call takes part in before it says CONFLICT; each lost one is somebody's success."""


@dataclass(frozen=True)
class TableClient:
    """One table of an open warehouse; made by `Lakehouse.table`."""

    warehouse: Warehouse
    table: Table
    writer: LogWriter

    def write(
        self, rows: Rows, *, user: str | None = None, user_column: str | None = None, mode: WriteMode = "upsert"
    ) -> Receipt:
        """Appends rows to the write log; returns once they are durable.

        Args:
            rows: dicts, pandas, polars, or anything Arrow. A dict may have an `Upload` for a FILE column.
            user: whose rows they are (USER tables).
            user_column: instead of `user`, the column that names each row's user; it is not stored.
            mode: `upsert` replaces a live key, `insert` refuses it. A STREAM table only appends: there both do.

        Raises:
            InvalidArgument: an unknown column; or the user is missing, impossible, or not wanted.
            ConstraintViolation: a value of the wrong type or range, NULL in a key or a NOT NULL column, a key twice in the
                call, or, under `insert`, a key that is live. Nothing was written.
        """
        if mode not in ("upsert", "insert"):
            raise InvalidArgument(f"mode {mode!r} is none; write with mode='upsert' or mode='insert'")
        return self._write(self.take_files(rows, user), user, user_column, mode)

    def delete(self, key_rows: Rows, *, user: str | None = None, user_column: str | None = None) -> Receipt:
        """Appends tombstones for the rows with these primary keys; a key that is not there is no error."""
        given, users = self._with_users(key_rows, user, user_column)
        gone = keys(self.table.schema, given, users)
        if self.table.schema.append_only:
            return self._delete_rows_of(gone, users)
        batch = log_batch(self.table.schema, gone, users, DELETE)
        return self._behind(lambda: batch, self._filing(user)) if file_columns(self.table.schema) else self._append(batch)

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
    ) -> FileRef:
        """Stores a file beside the scope and writes the row, whose column then refers to it. What it replaces is removed.

        Args:
            row: the whole row, but for the column.
            mime: guessed from the name, where it is not given.
            mode: as in `write`; or `merge`, where a row that is there keeps what `row` leaves out.

        Raises:
            InvalidArgument: no such FILE column; too large a file, or of a type that is not allowed.
            ConstraintViolation, Conflict: the row was refused, or the table is being moved. Neither it nor the file is there.
        """
        self._check_file_column(column)
        taken = self.take_files([{**row, column: Upload(name, data, mime)}], user)
        if mode == "merge":
            self.revise(lambda live: self._over(live, to_arrow(taken.rows, self.table.schema)), user=user, files=taken.files)
        else:
            self._write(taken, user, None, mode)
        return taken.files[0][0]

    def get_file(self, key: Mapping[str, object], column: str, *, user: str | None = None) -> bytes:
        """The file that a row refers to, checked against its checksum.

        Raises:
            NotFound: no such row, or it refers to no file, or the file was removed meanwhile.
            Corrupt: the bytes are not those that were stored.
        """
        self._check_file_column(column)
        live = self.scan(Wanted((*self.table.schema.primary_key, column)), user=user)
        text = next(iter(self._row_of(live, to_arrow([key], self.table.schema)).column(column).to_pylist()), None)
        if not text:
            raise NotFound(f"{self.table.name} has no file in column {column!r} of the row {dict(key)}")
        ref = FileRef.parse(text)
        return where_it_lies(partial(self._target, user), lambda target: (load_file(target, ref), True))

    def delete_file(self, key: Mapping[str, object], column: str, *, user: str | None = None) -> None:
        """Sets the column of a row to NULL and removes the file; a row without one is no error.

        Raises:
            NotFound: no such row.
        """
        self._check_file_column(column)

        def without(live: pa.Table) -> pa.Table:
            row = self._row_of(live, to_arrow([key], self.table.schema))
            if not row.num_rows:
                raise NotFound(f"{self.table.name} has no row {dict(key)}")
            return row.set_column(row.column_names.index(column), column, pa.nulls(row.num_rows, pa.string()))

        self.revise(without, user=user)

    def files(self, *, user: str | None = None) -> list[RowFile]:
        """The files that the scope's rows refer to, by key and column."""
        require(self.table, "files", "files")
        columns, key = file_columns(self.table.schema), self.table.schema.primary_key
        rows = self.scan(Wanted((*key, *columns)), user=user).sort_by([(name, "ascending") for name in key])
        return [
            RowFile({name: row[name] for name in key}, column, ref)
            for row in rows.to_pylist()
            for column in columns
            if (ref := FileRef.found(row[column])) is not None
        ]

    def take_files(self, rows: Rows, user: str | None) -> Taken:
        """Rows with references in place of uploads, and the files, for the write or the revision of these rows.

        Raises:
            InvalidArgument: too many files, one that is too large, of a type that is not allowed, or for another column.
        """
        settings = self.warehouse.settings.files

        def folder() -> str:
            return self.warehouse.folders.take(open_store(self._target(user).location), FILES, settings.max_per_folder)

        return take_files(rows, self.table.schema, folder, settings, self.warehouse.clock())

    def _write(self, taken: Taken, user: str | None, user_column: str | None, mode: WriteMode) -> Receipt:
        given, users = self._with_users(taken.rows, user, user_column)
        defaults = Defaults(self.warehouse.clock, self.warehouse.new_id, user)
        batch = log_batch(self.table.schema, validated(self.table.schema, given, defaults, users), users, UPSERT)
        if mode == "insert" and not self.table.schema.append_only:
            return self._insert(batch, self._filing(user, taken.files))
        return self._behind(lambda: batch, self._filing(user, taken.files)) if taken.files else self._append(batch)

    def _filing(self, user: str | None, files: Sequence[tuple[FileRef, bytes]] = ()) -> Filing:
        noted = self._keep_place(check_user(user)) if files and user is not None else None
        return Filing(user, files, self._target, partial(self._open_target, user), noted)

    def _keep_place(self, user: str) -> str | None:
        """Notes the scope before anything lies there, so that it is found when the table is dropped, and never moves.

        Returns the key of a new note. A user who is being erased gets none.
        """
        warehouse = self.warehouse
        if is_closed(warehouse.state, self.table.log_id, user, warehouse.erasures.mark):
            raise BeingErased(frozenset({user}))
        warehouse.settle_place(warehouse.catalog.read(), self.table, user)
        known = user in warehouse.registry.users(self.table.id)
        return None if known else warehouse.registry.add(self.table.id, {user})

    def _check_file_column(self, column: str) -> None:
        require(self.table, "files", "files")
        if column not in file_columns(self.table.schema):
            there = ", ".join(file_columns(self.table.schema)) or "none"
            raise InvalidArgument(f"{self.table.name} has no FILE column {column!r}; it has {there}")

    def _over(self, live: pa.Table, given: pa.Table) -> pa.Table:
        """One row over the live one of its key, which keeps what the row leaves out."""
        there = self._row_of(live, given)
        for name in given.column_names if there.num_rows else ():
            there = there.set_column(self.table.schema.names.index(name), name, given.column(name))
        return there if there.num_rows else given

    def _row_of(self, live: pa.Table, row: pa.Table) -> pa.Table:
        """The live row with a row's key, without `_seq`. A key that is left to its default is no row's yet."""
        key = self.table.schema.primary_key
        whole = set(key) <= set(row.column_names)
        found = live.filter(matches(live, keys(self.table.schema, row.select(key)), key)) if whole else live.slice(0, 0)
        return found.select([name for name in found.column_names if name != SEQ])

    def _held(self, batch: LogBatch) -> Iterator[Held]:
        """The files of the live rows that a batch replaces or removes."""
        columns, key = file_columns(self.table.schema), self.table.schema.primary_key
        for user, rows in _by_user(batch) if columns else ():
            live = self.scan(Wanted((*key, *columns)), user=user)
            yield from ((user, ref) for ref in references(live.filter(matches(live, rows, key)), columns))

    def _brought(self, batch: LogBatch) -> Iterator[Held]:
        """The files that a batch refers to."""
        columns = file_columns(self.table.schema)
        for user, rows in _by_user(batch) if columns else ():
            yield from ((user, ref) for ref in references(rows, columns))

    def delete_rows(self, seqs: Sequence[int], *, user: str) -> Receipt:
        """Takes rows of a STREAM table away by their `_seq`; one that is not there is no error.

        Raises:
            Unsupported: another table: its rows go by their primary key.
        """
        if not self.table.schema.append_only:
            raise Unsupported(f"{self.table.name} is a {self.table.type} table: its rows are deleted by their primary key")
        check_user(user)
        return self._append(log_batch(self.table.schema, pa.table({TARGET: pa.array(seqs, pa.int64())}), user, DELETE))

    def read(self, *, user: str | None = None, freshness: Freshness = "strong") -> pa.Table:
        """The scope's rows, in no particular order.

        Args:
            freshness: `strong` sees every acknowledged write, `eventual` the Delta table as of the last flush. A STREAM
                table has none, and is always read strongly: the rows whose time is not over.
        """
        return self.scan(EVERYTHING, user=user, freshness=freshness).drop_columns([SEQ])

    def scan(self, wanted: Wanted, *, user: str | None, freshness: Freshness = "strong") -> pa.Table:
        """A part of the scope's rows, in no particular order; without columns named, all of them and `_seq`."""
        if freshness not in ("strong", "eventual"):
            raise InvalidArgument(f"freshness {freshness!r} is none; read with 'strong' or 'eventual'")
        if self.table.schema.append_only:
            rows = self._stream(user)
            return rows if wanted.columns is None else rows.select(wanted.columns)
        place = partial(self._target, user)
        if freshness == "eventual":
            rows = read_cold(place, wanted, self.warehouse.cold)
        else:
            warehouse = self.warehouse
            rows = read_strong(place, warehouse.state, self.table.log_id, warehouse.headers, wanted, warehouse.cold)
        return rows if wanted.columns is None else rows.select(wanted.columns)

    def revise(
        self,
        decide: Callable[[pa.Table], pa.Table],
        *,
        user: str | None,
        wanted: Wanted = EVERYTHING,
        delete: bool = False,
        files: Sequence[tuple[FileRef, bytes]] = (),
    ) -> int:
        """Reads the scope, lets `decide` make rows of it, and appends them right behind what was read.

        Args:
            decide: gets what is wanted of the live rows, and returns those to write, or with `delete` the keys of those to
                remove. Called again when others wrote meanwhile.
            files: what `take_files` took out of the rows; those that `decide` writes no row for do not stay.

        Returns:
            How many rows were written.

        Raises:
            ConstraintViolation, InvalidArgument: as `write`; nothing was written.
            Conflict: others kept writing in between.
        """

        def batch() -> LogBatch:
            given, users = self._with_users(decide(self.scan(wanted, user=user)), user, None)
            if delete:
                return log_batch(self.table.schema, keys(self.table.schema, given, users), users, DELETE)
            defaults = Defaults(self.warehouse.clock, self.warehouse.new_id, user)
            return log_batch(self.table.schema, validated(self.table.schema, given, defaults, users), users, UPSERT)

        return self._behind(batch, self._filing(user, files)).rows

    def completed(self, rows: Rows, *, user: str | None) -> pa.Table:
        """The rows as a write would store them: checked, with their defaults."""
        given, users = self._with_users(rows, user, None)
        return validated(self.table.schema, given, Defaults(self.warehouse.clock, self.warehouse.new_id, user), users)

    def history(
        self, *, user: str | None = None, limit: int | None = 20, before_version: int | None = None
    ) -> list[HistoryEntry]:
        """The scope's commits, newest first; `before_version` is the cursor of the next page."""
        # never sure: the old place of a scope that was moved meanwhile has a log of its own
        return where_it_lies(partial(self._target, user), lambda target: (history(target.location, limit, before_version), False))

    def lease(self, *, user: str | None = None, version: int | None = None, seconds: float) -> Lease:
        """Keeps a version, the newest where none is given, for so long: no vacuum takes its files from under a reader.

        Raises:
            InvalidArgument: not between a moment and 30 days.
            NotFound: no such version, or it is older than the retention keeps.
            Conflict: the table is being moved, and its old place emptied.
        """
        warehouse = self.warehouse
        target = self._target(user)
        lease = hold(warehouse.state, self.table.id, target, version, seconds, now=warehouse.clock(), new_id=warehouse.new_id)
        # looked at when the lease is there: a move that goes unseen here has seen it, and waits
        moving = find_table(warehouse.catalog.read(), self.table.name).move is not None
        if moving or self._target(user).location != target.location:
            release(warehouse.state, lease)
            raise Conflict(f"{self.table.name} is being moved to another storage: lease a version when that is over")
        return lease

    def release(self, lease: Lease) -> None:
        """Ends a lease before its time."""
        release(self.warehouse.state, lease)

    def users(self) -> list[str]:
        """The users whose scopes were ever flushed; none for a SHARED table."""
        return sorted(self.warehouse.registry.users(self.table.id))

    def _stream(self, user: str | None) -> pa.Table:
        table = find_table(self.warehouse.catalog.read(), self.table.name)
        check_scope(table, Scope(table.name, user))
        return read_stream_scope(self.warehouse, table, user or "")

    def _delete_rows_of(self, key_rows: pa.Table, users: pa.Array[Any]) -> Receipt:
        """Tombstones for the live rows of a STREAM table that have these keys; a key may have several."""
        found = [Receipt(0, NOTHING)]
        for user in users.unique():
            name = str(user)
            rows = self._stream(name)
            gone = rows.filter(matches(rows, key_rows.filter(pc.equal(users, user)), self.table.schema.primary_key))
            found.append(self.delete_rows([int(seq) for seq in gone.column(SEQ).to_numpy()], user=name))
        return Receipt(sum(each.rows for each in found), max(each.last_seq for each in found))

    def _open_target(self, user: str | None) -> ScopeTarget:
        """The scope's place, while files may be stored there; raises `Conflict` while it is being moved."""
        catalog = self.warehouse.catalog.read()
        self.warehouse.check_open(catalog, find_table(catalog, self.table.name), user)
        return self.warehouse.target(catalog, Scope(self.table.name, user))

    def _target(self, user: str | None) -> ScopeTarget:
        return self.warehouse.target(self.warehouse.catalog.read(), Scope(self.table.name, user))

    def _with_users(self, rows: Rows, user: str | None, user_column: str | None) -> tuple[pa.Table, pa.Array[Any]]:
        """The rows without the user's column, and each row's user; empty text on a SHARED table."""
        given = to_arrow(rows, self.table.schema)
        if self.table.type == "SHARED":
            if user is not None or user_column is not None:
                raise InvalidArgument(f"{self.table.name} is a SHARED table: its rows belong to no user, so name none")
            return given, pa.repeat("", given.num_rows)
        if (user is None) == (user_column is None):
            raise InvalidArgument(
                f"{self.table.name} is a {self.table.type} table: name either the user, or the column that names each row's"
            )
        if user_column is None:
            return given, pa.repeat(check_user(user or ""), given.num_rows)
        return split_users(given, user_column)

    def _append(self, batch: LogBatch) -> Receipt:
        return self.writer.append(batch) if batch.rows.num_rows else Receipt(0, NOTHING)

    def _insert(self, batch: LogBatch, filing: Filing) -> Receipt:
        if not batch.rows.num_rows:
            return Receipt(0, NOTHING)

        def unless_taken() -> LogBatch:
            self._check_absent(batch)
            return batch

        return self._behind(unless_taken, filing)

    def _behind(self, decide: Callable[[], LogBatch], filing: Filing) -> Receipt:
        """Reads, decides and appends, right behind what was read; starts again when others appended in between."""
        try:
            for _ in range(_ATTEMPTS):
                view = read_view(self.warehouse.state, self.table.log_id, self.warehouse.headers)
                batch = decide()
                if not batch.rows.num_rows:
                    filing.undo()
                    return Receipt(0, NOTHING)
                held = list(self._held(batch))
                filing.store()
                try:
                    receipt = self.writer.append(batch, after=position_of(view.end))
                except Conflict:
                    continue
                filing.settle(held, self._brought(batch))
                return receipt
            raise Conflict(f"{self.table.name} was written to {_ATTEMPTS} times in between; try again")
        except (Terminal, Conflict, BeingErased) as error:  # after any other error the rows may be there, and need their files
            filing.undo()
            if isinstance(error, BeingErased) and filing.noted is not None and filing.user is not None:
                self.warehouse.registry.withdraw(self.table.id, filing.noted, {filing.user})
            raise

    def _check_absent(self, batch: LogBatch) -> None:
        key = self.table.schema.primary_key
        if find_table(self.warehouse.catalog.read(), self.table.name).schema.primary_key != key:
            raise Conflict(f"the primary key of {self.table.name} was renamed meanwhile; open the table again")
        for user, mine in _by_user(batch):
            live = self.scan(Wanted(key), user=user)
            taken = mine.filter(matches(mine, live, key)) if live.num_rows else mine.slice(0, 0)
            if taken.num_rows:
                first = {name: taken[name][0].as_py() for name in key}
                raise ConstraintViolation(
                    f"{self.table.name} has a row with the key {first} already; use mode='upsert', or ON CONFLICT, to replace it"
                )


def _by_user(batch: LogBatch) -> Iterator[tuple[str | None, pa.Table]]:
    """Each user's rows; None for the rows of a SHARED table."""
    for user in batch.rows[USER].unique():
        yield user.as_py() or None, batch.rows.filter(pc.equal(batch.rows[USER], user))
