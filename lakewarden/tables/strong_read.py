"""Reads one scope: cold rows only, or hot and cold merged, each row once whatever commits meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

import pyarrow as pa

from lakewarden.base.attempts import Attempts
from lakewarden.base.connection import Location
from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.lifecycle.states import is_frozen
from lakewarden.delta.past import AsOf
from lakewarden.delta.reading.bounds import Bound, rows_within
from lakewarden.delta.reading.column_cache import ColdCache
from lakewarden.delta.reading.past import check_files, open_numbered, open_past
from lakewarden.delta.reading.rows import empty_rows, merged, merged_parts, nothing_but, number_of_rows, read_parts, read_rows
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Corrupt, LakewardenError
from lakewarden.log.drain import LogScope, read_hot
from lakewarden.log.log_reader import LogReader
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.position import NOTHING
from lakewarden.storage.objects import Missing

T = TypeVar("T")

Place = Callable[[], ScopeTarget]
"""Looks up where a scope is now."""


@dataclass(frozen=True)
class ReadSelection:
    """The part of a scope to read. `columns`: names of the newest schema, and `_seq` if needed; None for all of
    them. `bounds`: rows outside them may be left out, but need not be.
    """

    columns: tuple[str, ...] | None = None
    bounds: tuple[Bound, ...] = ()
    number_only: bool = False
    """Whether no value counts, only how many rows there are: the columns may be NULL. There are no bounds then."""

    def with_key(self, schema: TableSchema) -> ReadSelection:
        """Adds the primary key, by which hot and cold rows are merged."""
        if self.columns is None:
            return self
        return replace(self, columns=tuple(dict.fromkeys((*self.columns, *schema.primary_key))), number_only=False)


EVERYTHING = ReadSelection()


class ColdRows:
    """A snapshot of the scope's table, and the watermark of its log in it."""

    def __init__(self, target: ScopeTarget, wanted: ReadSelection, cache: ColdCache | None) -> None:
        self._target = target
        self._wanted = wanted
        self._columns = None if cache is None else cache.columns
        self._table = cache.tables.open(target) if cache else open_scope(target)

    def watermark(self) -> int | None:
        return None if self._table is None else self._table.watermark(self._target.app_id)

    def rows(self, *, keyed: bool = False) -> pa.Table:
        """`keyed` adds the primary key."""
        wanted = self._wanted.with_key(self._target.schema) if keyed else self._wanted
        if self._table is None:
            none = empty_rows(self._target.schema)
            return none if wanted.columns is None else none.select(wanted.columns)
        number = number_of_rows(self._table, self._table.files()) if wanted.number_only else None
        if number is not None:
            return nothing_but(number, wanted.columns or ())
        target = self._target
        rows = read_rows(self._table, target.schemas, wanted.columns, wanted.bounds, self._columns, target.buckets)
        return rows_within(rows, wanted.bounds)

    def parts(self) -> Iterator[pa.Table]:
        """The rows file by file, with the primary key; at least one part, without rows where there are no files."""
        wanted, target = self._wanted.with_key(self._target.schema), self._target
        none = empty_rows(target.schema)
        yield none if wanted.columns is None else none.select(wanted.columns)
        if self._table is not None:
            yield from read_parts(self._table, target.schemas, wanted.columns, wanted.bounds)

    @property
    def sure(self) -> bool:
        """Whether no flush can have gone to another place before this was opened: a scope is frozen here first."""
        return self._table is not None and not is_frozen(self._table, self._target)


def where_it_lies(place: Place, read: Callable[[ScopeTarget], tuple[T, bool]]) -> T:
    """Returns what `read` finds at the scope's place. `read` also says whether that is certain: if not, or if it fails, the scope
    may have been moved since its place was looked up, or been given columns by an ALTER, and then it is read again as it is now.

    Raises:
        Whatever `read` raises for a scope that was neither moved nor altered.
    """
    target = place()
    attempts = Attempts(20, f"{target.scope} was moved or altered", "while it was read", "read again")
    while attempts.next():
        try:
            found, sure = read(target)
        except (LakewardenError, Missing):
            now = place()
            if now.location == target.location and now.schemas == target.schemas:
                raise
        else:
            if sure or (now := place()).location == target.location:
                return found
        target = now


def read_cold(place: Place, wanted: ReadSelection = EVERYTHING, cache: ColdCache | None = None) -> pa.Table:
    """The scope's Delta table as of its last flush: the newest schema's columns and `_seq`, or the selected part."""

    def read(target: ScopeTarget) -> tuple[pa.Table, bool]:
        cold = ColdRows(target, wanted, cache)
        return cold.rows(), cold.sure

    return where_it_lies(place, read)


def read_undrained(
    place: Place, log: LogReader, wanted: ReadSelection = EVERYTHING, cache: ColdCache | None = None, view: LogView | None = None
) -> pa.Table:
    """The rows of the log that the scope's table does not have yet, the newest of each key, without deleted ones.

    Args:
        view: as in `read_strong`.

    Raises:
        Conflict: flushes kept settling the rows while they were read.
    """

    def read(target: ScopeTarget) -> tuple[pa.Table, bool]:
        found = read_hot(lambda: _look(target, log, view), lambda: ColdRows(target, wanted, cache))
        none = empty_rows(target.schema)
        return none if found.rows is None else merged(none, found.rows, target.schema.primary_key), found.cold.sure

    return where_it_lies(place, read)


def _look(target: ScopeTarget, log: LogReader, view: LogView | None = None) -> LogScope:
    user = target.scope.user or ""
    return LogScope.of(log, view or log.view((user,)), user, target.schemas)


def read_strong(
    place: Place, log: LogReader, wanted: ReadSelection = EVERYTHING, cache: ColdCache | None = None, view: LogView | None = None
) -> pa.Table:
    """Hot and cold rows, one per key, without deleted ones. Includes the key's columns where there are hot rows.

    Args:
        view: of the log, read for several scopes at once; what is acknowledged later need not be seen.

    Raises:
        Conflict: flushes kept settling the rows while they were read.
    """
    return read_strong_upto(place, log, wanted, cache, view)[0]


def read_strong_upto(
    place: Place, log: LogReader, wanted: ReadSelection = EVERYTHING, cache: ColdCache | None = None, view: LogView | None = None
) -> tuple[pa.Table, int]:
    """As `read_merged`, with the last possible `_seq` of what was read: a flush behind the look at the log may have brought more
    rows into the table."""

    def read(target: ScopeTarget) -> tuple[tuple[pa.Table, int], bool]:
        found = read_hot(lambda: _look(target, log, view), lambda: ColdRows(target, wanted, cache))
        cold = found.cold.rows(keyed=found.rows is not None)
        rows = cold if found.rows is None else merged(cold, found.rows, target.schema.primary_key)
        return (rows, max(found.end, found.cold.watermark() or NOTHING)), found.cold.sure

    return where_it_lies(place, read)


def use_live(place: Place, log: LogReader, wanted: ReadSelection, cache: ColdCache, use: Callable[[Iterator[pa.Table]], T]) -> T:
    """Returns what `use` makes of all live rows, of which it gets one part after the other, with the primary key. Called again
    if the scope was moved meanwhile.

    Raises:
        Conflict: flushes kept settling the rows while they were read.
    """

    def read(target: ScopeTarget) -> tuple[T, bool]:
        found = read_hot(lambda: _look(target, log), lambda: ColdRows(target, wanted, cache))
        cold = found.cold.parts()
        return use(cold if found.rows is None else merged_parts(cold, found.rows, target.schema.primary_key)), found.cold.sure

    return where_it_lies(place, read)


# Reads one scope as of a version of its past: cold rows only, with the columns that it had then.
@dataclass(frozen=True)
class PastScope:
    """One version of a scope, found once: whatever is read of it is of that version, though the scope may be moved meanwhile."""

    place: Place
    location: Location
    table: ScopeTable
    schemas: tuple[TableSchema, ...]
    """Of the table up to this version, oldest first."""

    @property
    def schema(self) -> TableSchema:
        """The columns that the scope had then."""
        return self.schemas[-1]

    def rows(self, wanted: ReadSelection) -> pa.Table:
        """The part of its rows, in no particular order. Columns are those of `schema`.

        What was read of a file is not kept: a file that a vacuum removed must not be read from memory.

        Raises:
            NotFound: files of the version are no longer there; the message names the versions that can be read.
            Corrupt: a file cannot be read.
        """

        def read(target: ScopeTarget) -> tuple[pa.Table, bool]:
            here = target.location == self.location
            table = self.table if here else open_numbered(target, self.table.version)
            try:
                rows = read_rows(table, self.schemas, wanted.columns, wanted.bounds)
            except Corrupt:
                check_files(target, table)
                raise
            return rows_within(rows, wanted.bounds), False

        return where_it_lies(self.place, read)


def past_of(place: Place, as_of: AsOf, now: datetime) -> PastScope:
    """Finds the version. Raises as `open_past`."""

    def look(target: ScopeTarget) -> tuple[PastScope, bool]:
        table = open_past(target, as_of, now)
        then = target.schemas.index(table.schema_version(target.schemas)) + 1
        return PastScope(place, target.location, table, target.schemas[:then]), False

    return where_it_lies(place, look)
