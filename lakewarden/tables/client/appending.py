"""Appends batches to the log right after what was read of it, with the files that they refer to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import TableSchema
from lakewarden.delta.reading.bounds import rows_within
from lakewarden.delta.reading.rows import matches
from lakewarden.errors import BeingErased, Conflict, SchemaChanged, Terminal
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.position import NOTHING, Receipt, position_of
from lakewarden.log.record import USER, Batch, PlainRow
from lakewarden.log.touches import Touched, united
from lakewarden.storage.paths import check_user
from lakewarden.tables.client.reader import TableReader
from lakewarden.tables.files import Filing, Held
from lakewarden.tables.images import inserted
from lakewarden.tables.keys.lookup import touched_by
from lakewarden.tables.rows.files import FileRef, Files, references
from lakewarden.tables.strong_read import ReadSelection

# What a change decided from the rows that it read, and whether that still holds where others appended since.
_USERS = 100
"""Of a write of more users' rows, what came in between is not looked at."""

_EXACT = ("SMALLINT", "INT", "BIGINT", "TEXT", "DATE")
"""Types of which equal values are the same value."""


@dataclass(frozen=True)
class DecisionRows:
    """The rows that a decision depends on."""

    users: Collection[str]
    """Whose; `""` in a SHARED table."""
    holds: Callable[[pa.Table], bool]
    """Whether they are the same where these users' rows of the log came since."""


@dataclass(frozen=True)
class Decision:
    """Rows to append right after what they were decided from."""

    batch: Batch
    read: DecisionRows | None = None
    """None where anything that came since may change it."""
    touched: Touched | None = None
    """The rows that were read and are written, if not all of the users'."""


def absent(batch: Batch, schema: TableSchema, users: Collection[str]) -> DecisionRows | None:
    """Of a decision that depends on no row with one of these keys of these users being live."""
    if len(users) > _USERS:
        return None
    return DecisionRows(users, lambda later: not _any(matches(later, batch.rows, schema.primary_key)))


def live_within(live: pa.Table, wanted: ReadSelection, schema: TableSchema, user: str | None) -> DecisionRows | None:
    """Of a decision that depends on the live rows within the bounds: they are the same unless one of them is written, or another
    row that is within.
    """
    if not set(schema.primary_key) <= set(live.column_names):
        return None

    def holds(later: pa.Table) -> bool:
        return not _any(matches(later, live, schema.primary_key)) and not rows_within(later, wanted.bounds).num_rows

    return DecisionRows((user or "",), holds)


def pinned_key(wanted: ReadSelection, schema: TableSchema) -> pa.Table | None:
    """The one key that rows within the bounds can have; None where there may be several, or none."""
    pinned = {bound.column: bound.low for bound in wanted.bounds if bound.low is not None and bound.low == bound.high}
    columns = [column for column in schema.columns if column.name in schema.primary_key]
    if not columns or not all(column.type.name in _EXACT and column.name in pinned for column in columns):
        return None
    try:
        return pa.table({column.name: pa.array([pinned[column.name]], column.type.arrow) for column in columns})
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None  # beyond the column's range


def touched_with(key: pa.Table, batch: Batch, schema: TableSchema, user: str | None) -> Touched | None:
    """The row with this key, which was read, and those that are written; None where they are many."""
    written = touched_by(schema, batch.rows)
    if written is None:
        return None
    read = tuple(key.column(name)[0].as_py() for name in schema.primary_key)
    return united({user or "": frozenset((read,))}, written)


def _any(found: Any) -> bool:
    return bool(pc.any(found).as_py())


_ATTEMPTS = 20
"""Attempts to read and append before a call raises CONFLICT; each lost one is another writer's success."""

_APPENDS = 1000
"""Attempts to append. One that is lost to rows that change nothing of what was read costs no new reading."""


@dataclass(frozen=True)
class TableAppender:
    """Appends to the log of the table that `reader` reads."""

    reader: TableReader

    def append(self, batch: Batch) -> Receipt:
        """Appends after whatever is there."""
        self.reader.check_writable()
        some = isinstance(batch, PlainRow) or batch.rows.num_rows
        return self.reader.appending.append(batch) if some else Receipt(0, NOTHING)

    def insert(self, batch: Batch, filing: Filing) -> Receipt:
        """Raises DuplicateKey: a key is live; nothing was written."""

        schema = self.reader.table.schema
        # only all rows show whether others refer to a file
        keys = None if schema.of_files else touched_by(schema, batch.rows)
        users = keys.keys() if keys is not None else [str(user) for user in batch.rows.column(USER).unique().to_pylist()]

        def unless_taken(view: LogView) -> Decision:
            self._check_absent(batch, view)
            made = inserted(batch, schema) if schema.keeps_before else batch
            return Decision(made, None if schema.of_files else absent(batch, schema, users), keys)

        if not batch.rows.num_rows:
            return Receipt(0, NOTHING)
        return self.behind(unless_taken, filing, users, short=keys is not None)

    def behind(
        self, decide: Callable[[LogView], Decision], filing: Filing, users: Collection[str] = (), *, short: bool = False
    ) -> Receipt:
        """Reads, decides and appends right after what was read. If others appended in between what changes the decision, or may,
        starts again.

        Args:
            users: whom `decide` looks up in the view.
            short: whether it reads little, so that appends of others wait for this one, and none of them for a turn.
        """
        table, warehouse, log = self.reader.table, self.reader.warehouse, self.reader.log
        try:
            self.reader.check_writable()
            made, former, decisions = None, None, 0
            for _ in range(_APPENDS):
                with log.announced() if short else log.turn(filing.user):
                    view = log.view(made.read.users if made is not None and made.read is not None else users)
                    self.reader.appending.ready(view)
                    if made is None or former is None or not self._holds(made, former, view):
                        if decisions == _ATTEMPTS:
                            break
                        decisions += 1
                        made = decide(view)
                        batch = made.batch
                        if not batch.rows.num_rows:
                            filing.undo()
                            return Receipt(0, NOTHING)
                        held = list(self._held(batch))
                        filing.store()
                    former = view
                    try:
                        receipt = self.reader.appending.append(batch, position_of(view.end), made.touched)
                    except Conflict:
                        continue
                filing.settle(held, self._brought(batch))
                return receipt
            raise Conflict(f"{table.name} was written to {decisions} times in between; try again")
        except (
            Terminal,
            Conflict,
            SchemaChanged,
            BeingErased,
        ) as error:  # after any other error the rows may be stored, and need their files
            filing.undo()
            if isinstance(error, BeingErased) and filing.noted is not None and filing.user is not None:
                warehouse.registry.withdraw(table.id, filing.noted, {filing.user})
            raise

    def _holds(self, made: Decision, former: LogView, view: LogView) -> bool:
        """Whether a decision from a former view is the same as of this one."""
        if made.read is None or view.end == former.end:
            return False
        later = self.reader.later_rows(former, view, made.read.users)
        return later is not None and (later.num_rows == 0 or made.read.holds(later))

    def filing(self, user: str | None, files: Files = ()) -> Filing:
        """The files of a change in one scope."""
        noted = self._keep_place(check_user(user)) if files and user is not None else None
        return Filing(user, files, self.reader.target, partial(self.reader.open_target, user), noted)

    def _keep_place(self, user: str) -> str | None:
        """Registers the scope before anything is stored there, so that a drop finds it and its place stays fixed.

        Returns the key of a new entry. A user who is being erased gets none.
        """
        table, warehouse = self.reader.table, self.reader.warehouse
        if self.reader.log.signs(warehouse.erasures.mark(user)).closed:
            raise BeingErased(frozenset({user}))
        warehouse.fix_storage(warehouse.catalog.read(), table, user)
        known = bool(warehouse.registry.known(table.id, {user}))
        return None if known else warehouse.registry.add(table.id, {user})

    def _held(self, batch: Batch) -> Iterator[Held]:
        """The files of live rows that a batch replaces or removes, without files that other rows refer to."""
        columns, key = self.reader.table.schema.of_files, self.reader.table.schema.primary_key
        for user, rows in _by_user(batch) if columns else ():
            live = self.reader.scan_to_write(ReadSelection((*key, *columns)), user)
            hit = matches(live, rows, key)
            yield from ((user, ref) for ref in _only_there(live.filter(hit), live.filter(pc.invert(hit)), columns))

    def _brought(self, batch: Batch) -> Iterator[Held]:
        """The files that a batch refers to."""
        columns = self.reader.table.schema.of_files
        for user, rows in _by_user(batch) if columns else ():
            yield from ((user, ref) for ref in references(rows, columns))

    def _check_absent(self, batch: Batch, view: LogView) -> None:
        for user, mine in _by_user(batch):
            taken = self.reader.first_live(mine, user, view)
            if taken is not None:
                raise self.reader.key_taken(taken)


def _only_there(rows: pa.Table, others: pa.Table, columns: Sequence[str]) -> Iterator[FileRef]:
    """The files that rows refer to and others do not: copying a row copies its reference, and both share the file.

    By its path, whatever else a reference says of it.
    """
    mine = [*references(rows, columns)]
    ids = pa.array({ref.id for ref in mine}, pa.string())
    alike = [others.filter(pc.is_in(_ids(others.column(name)), value_set=ids)).select([name]) for name in columns]
    shared = {ref.path for rows in alike for ref in references(rows, rows.column_names)}
    return (ref for ref in mine if ref.path not in shared)


def _ids(texts: pa.ChunkedArray[Any]) -> Any:
    """The id in each reference, found without reading all of it; NULL where there is none."""
    return pc.struct_field(pc.extract_regex(texts, r'"id"\s*:\s*"(?P<id>[0-9]+)"'), "id")


def _by_user(batch: Batch) -> Iterator[tuple[str | None, pa.Table]]:
    """Each user's rows; None for the rows of a SHARED table."""
    if batch.rows.num_rows == 1:
        yield batch.rows[USER][0].as_py() or None, batch.rows
        return
    for user in batch.rows[USER].unique():
        yield user.as_py() or None, batch.rows.filter(pc.equal(batch.rows[USER], user))
