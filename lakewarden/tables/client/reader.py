"""Finds and reads the scopes of one table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

import pyarrow as pa

from lakewarden.base.scope import Scope
from lakewarden.catalog.changes.engines import require_active
from lakewarden.catalog.model import Catalog, Table, TableSchema
from lakewarden.catalog.target import ScopeTarget, check_scope
from lakewarden.delta.past import AsOf
from lakewarden.delta.reading.keys import Key
from lakewarden.delta.reading.rows import matches
from lakewarden.errors import DuplicateKey, SchemaChanged, Unsupported
from lakewarden.log.appending import Appending
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.record import SEQ, decode
from lakewarden.log.stream import read_stream
from lakewarden.log.table_log import TableLog
from lakewarden.storage.objects import Missing
from lakewarden.tables.direct.barrier import wait_for_commit
from lakewarden.tables.freshness import Freshness, check_freshness
from lakewarden.tables.images import ImagedLog, Images
from lakewarden.tables.keys.lookup import first_live, live_rows
from lakewarden.tables.keys.seen_keys import SeenKeys
from lakewarden.tables.rows.validate import keys
from lakewarden.tables.strong_read import (
    EVERYTHING,
    PastScope,
    ReadSelection,
    past_of,
    read_cold,
    read_strong,
    read_undrained,
    use_live,
)
from lakewarden.tables.warehouse import Warehouse, find_table

T = TypeVar("T")


@dataclass(frozen=True)
class TableReader:
    """The table is as of its opening; the places of its scopes are looked up each time."""

    warehouse: Warehouse
    table: Table
    log: TableLog

    @cached_property
    def appending(self) -> Appending:
        """Where rows go into the log."""
        if not self.table.schema.keeps_before:
            return self.log
        return ImagedLog(self.log, Images(self.warehouse, self.table), partial(wait_for_commit, self.warehouse))

    def target(self, user: str | None, catalog: Catalog | None = None) -> ScopeTarget:
        return self.warehouse.target(self._active(catalog or self.warehouse.catalog.read()), Scope(self.table.name, user))

    def check_writable(self) -> None:
        """Looks at the catalog at most once a second: another process that disables an engine stops writes a second later. Of
        an ALTER that is younger, the log knows.

        Raises:
            FailedPrecondition: the engine of the table's namespace is disabled.
            SchemaChanged: the table was altered since it was opened.
        """
        there = self._active(self.warehouse.catalog.recent()).tables.get(self.table.name)
        if there is not None and there.id == self.table.id and there.schema.version > self.table.schema.version:
            raise self._altered()

    def _active(self, catalog: Catalog) -> Catalog:
        require_active(catalog, self.table.name.namespace)
        return catalog

    def open_target(self, user: str | None) -> ScopeTarget:
        """The scope's place, while files may be stored there; raises `Conflict` while it is being moved."""
        catalog = self._active(self.warehouse.catalog.read())
        self.warehouse.check_open(catalog, find_table(catalog, self.table.name), user)
        return self.warehouse.target(catalog, Scope(self.table.name, user))

    def scan(
        self, wanted: ReadSelection, user: str | None, freshness: Freshness = "strong", catalog: Catalog | None = None
    ) -> pa.Table:
        """A part of the scope's rows, in no particular order; with all columns and `_seq` where none are named.

        Args:
            catalog: where the scope is looked up first, if it was read just now; by default the newest.

        Raises:
            SchemaChanged: a wanted name is not a column's any more, or means another one.
        """
        if self.table.schema.append_only:
            rows = self.stream(user, wanted)
        else:
            first = iter((catalog,))
            rows = self._scan(lambda: self._target_with(wanted, user, next(first, None)), wanted, check_freshness(freshness))
        return rows if wanted.columns is None else rows.select(wanted.columns)

    def scan_to_write(self, wanted: ReadSelection, user: str | None) -> pa.Table:
        """The same, for who writes what follows from the rows; raises `SchemaChanged` where there are other columns by now."""
        rows = self._scan(partial(self._unaltered, user), wanted, "strong")
        return rows if wanted.columns is None else rows.select(wanted.columns)

    def _scan(self, place: Callable[[], ScopeTarget], wanted: ReadSelection, freshness: Freshness) -> pa.Table:
        cold = self.warehouse.cold
        match freshness:
            case "eventual":
                return read_cold(place, wanted, cold)
            case "oltp_only":
                return read_undrained(place, self.log, wanted, cold)
            case "strong":
                return read_strong(place, self.log, wanted, cold)

    def _target_with(self, wanted: ReadSelection, user: str | None, catalog: Catalog | None) -> ScopeTarget:
        target = self.target(user, catalog)
        self._check_names(wanted, target.schema)
        return target

    def _check_names(self, wanted: ReadSelection, newest: TableSchema) -> None:
        if newest.version == self.table.schema.version:
            return
        names = {*(wanted.columns or ()), *(bound.column for bound in wanted.bounds)}
        for column in self.table.schema.columns:
            there = newest.column(column.name)
            if column.name in names and (there is None or there.id != column.id):
                raise SchemaChanged(f"column {column.name!r} of {self.table.name} was renamed or dropped meanwhile; try again")

    def _unaltered(self, user: str | None) -> ScopeTarget:
        target = self.target(user)
        if target.schema.version != self.table.schema.version:
            raise self._altered()
        return target

    def _altered(self) -> SchemaChanged:
        return SchemaChanged(
            f"the columns of {self.table.name} were changed since it was opened; nothing was written: open it again"
        )

    def past(self, as_of: AsOf, user: str | None) -> PastScope:
        """A version of the scope's past.

        Raises:
            Unsupported: a STREAM table, which has no versions.
            NotFound: the version cannot be read; the message names those that can.
        """
        if self.table.schema.append_only:
            raise Unsupported(f"{self.table.name} is a {self.table.type} table, which has no versions: read it as it is")
        return past_of(partial(self.target, user), as_of, self.warehouse.clock())

    def later_rows(self, former: LogView, view: LogView, users: Collection[str]) -> pa.Table | None:
        """The rows of the log that these users got between two views; None where something else may have happened to theirs."""
        chunks = view.since(former, users)
        if chunks is None:
            return None
        try:
            return decode(self.log.chunks(chunks), chunks, self.table.schemas)
        except Missing:
            return None  # settled and cleaned up since

    def key_taken(self, key: Key) -> DuplicateKey:
        """What an INSERT of a key says that is live."""
        first = dict(zip(self.table.schema.primary_key, key, strict=True))
        return DuplicateKey(
            f"{self.table.name} has a row with the key {first} already; use mode='upsert', or ON CONFLICT, to replace it"
        )

    def first_live(self, rows: pa.Table, user: str | None, view: LogView) -> Key | None:
        """Returns the first key of these rows that a live row of the scope has, as of the view or later; None if none has."""
        warehouse = self.warehouse
        return first_live(partial(self._unaltered, user), self.log, view, rows, warehouse.pending_keys, warehouse.cold)

    def with_keys(self, keys: pa.Table, wanted: ReadSelection, user: str | None, view: LogView) -> pa.Table:
        """The live rows of the scope with these few keys, as of the view or later, in the wanted columns."""
        warehouse = self.warehouse
        found = live_rows(partial(self._unaltered, user), self.log, view, keys, warehouse.pending_keys, warehouse.cold)
        return found if wanted.columns is None else found.select(wanted.columns)

    def first_of(self, keys: SeenKeys, user: str | None) -> Key | None:
        """Returns a key of these that a live row of the scope has; None if none has. In bounded memory."""
        return self.use_live(ReadSelection(self.table.schema.primary_key, keys.bounds), user, keys.first_of)

    def live_keys(self, user: str | None) -> SeenKeys:
        """The keys of all live rows of the scope, in bounded memory: a context of the caller's."""

        def kept(parts: Iterator[pa.Table]) -> SeenKeys:
            with ExitStack() as undone:
                found = undone.enter_context(SeenKeys(self.table.schema.primary_key))
                for part in parts:
                    found.add(part)
                undone.pop_all()
            return found

        return self.use_live(ReadSelection(self.table.schema.primary_key), user, kept)

    def use_live(self, wanted: ReadSelection, user: str | None, use: Callable[[Iterator[pa.Table]], T]) -> T:
        """Returns what `use` makes of the scope's live rows, of which it gets one part after the other, with the primary key."""
        return use_live(partial(self._unaltered, user), self.log, wanted, self.warehouse.cold, use)

    def stream(self, user: str | None, wanted: ReadSelection | None = None) -> pa.Table:
        """The unexpired rows of a STREAM table's scope; raises `SchemaChanged` where the wanted names are others' by now."""
        table = find_table(self._active(self.warehouse.catalog.read()), self.table.name)
        self._check_names(wanted or EVERYTHING, table.schema)
        check_scope(table, Scope(table.name, user))
        return read_stream(self.warehouse.log(table), table, user or "", self.warehouse.clock())

    def row_of(self, live: pa.Table, row: pa.Table) -> pa.Table:
        """The live row with a row's key, without `_seq`. A key that is left to its default matches no row yet."""
        key = self.table.schema.primary_key
        whole = set(key) <= set(row.column_names)
        found = live.filter(matches(live, keys(self.table.schema, row.select(key)), key)) if whole else live.slice(0, 0)
        return found.select([name for name in found.column_names if name != SEQ])
