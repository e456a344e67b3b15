"""The changes of a table, of one user, some, or all: by `_seq`, from any process, again and again the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakewarden.base.attempts import Attempts
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.access import can
from lakewarden.catalog.changes.engines import require_active
from lakewarden.catalog.model import Table
from lakewarden.catalog.target import check_scope
from lakewarden.delta.parquet.files import INSERT
from lakewarden.errors import Conflict, InvalidArgument, NotFound, Unsupported
from lakewarden.log.chunk import RowRange
from lakewarden.log.objects.trail import Trail
from lakewarden.log.position import NOTHING, end_of, position_of
from lakewarden.log.record import SEQ, USER
from lakewarden.storage.objects import Missing
from lakewarden.tables.changes.ending import appended, appended_upto, check_goes_on, check_known, is_keyless, there_upto
from lakewarden.tables.changes.scope import Behind, ScopeReader
from lakewarden.tables.changes.value import Changes, Start, change_schema, first_after, typed
from lakewarden.tables.strong_read import Place
from lakewarden.tables.warehouse import Warehouse, find_table


# Where a batch of changes ends: behind whole positions, since the rows of one became visible together.
def upto_of(ranges: Iterable[RowRange], after: int, limit: int, end: int) -> int:
    """The end of the position with which there are at least `limit` rows; `end` where there are fewer.

    Args:
        ranges: beyond `after`, ascending.
    """
    counts = ((position_of(each.last_seq), each.last_seq - max(after, each.first_seq - 1)) for each in ranges)
    return _upto(counts, limit, end)


def ends_of_parts(ranges: Sequence[RowRange], part_bytes: int) -> Iterator[int]:
    """The last `_seq` of each part but the last one: whole chunks of about this many bytes.

    Args:
        ranges: of one user, ascending.
    """
    taken = 0
    for each in ranges[:-1]:
        taken += each.length
        if taken >= part_bytes:
            yield each.last_seq
            taken = 0


def _upto(counts: Iterable[tuple[int, int]], limit: int, end: int) -> int:
    rows = 0
    for position, count in counts:
        rows += count
        if rows >= limit:
            return min(end, end_of(position))
    return end


@dataclass(frozen=True)
class ChangeFeed:
    """Cheap to make. Every method may raise `NotFound` (dropped), and `Conflict` or `StorageUnavailable` (try again)."""

    warehouse: Warehouse
    name: TableName
    users: tuple[str, ...] | None = None
    """None for all of them, and of a SHARED table."""
    table_id: str | None = None
    """Where it is given, a table that took the place of a dropped one is refused."""
    since: int = 0
    """Changes that were stored before this moment, in microseconds since 1970, are left out."""

    def end(self) -> int:
        """The newest `_seq` that changes can be read up to."""
        table = self.table()
        log = self.warehouse.log(table)
        end = log.view(()).end
        return appended_upto(log, end) if is_keyless(table) else end

    def upto(self, after: int, limit: int | None = None) -> int:
        """The `_seq` up to which there are about `limit` rows of the log: whole positions, and at least one.

        Raises:
            Ended, InvalidArgument: as `changes`.
        """
        table = self.table()
        trail = self._trail(table, after)
        check_known(table, trail, after)
        self._check(table, trail, after)
        if is_keyless(table):
            end = max(after, appended_upto(self.warehouse.log(table), trail.end))
            if limit is None:
                return end
            rows = appended(self._places(table)(""), after, end, (SEQ,))
            return _upto(((position_of(seq), 1) for seq in rows.column(SEQ).to_numpy().tolist()), limit, end)
        return trail.end if limit is None else upto_of(self._ranges(table, trail, after), after, limit, trail.end)

    def changes(self, after: int, upto: int | None = None, *, limit: int | None = None, images: bool = True) -> Changes:
        """The changes beyond `after`, up to `upto` (the end where it is None).

        Args:
            limit: rows of the log after which a batch ends; the rows of one position stay together.
            images: rows before an update are read too. Without them, every write of a row is an `update_postimage`, and a delete
                has the primary key alone.

        Raises:
            InvalidArgument: `after` is too old (the message names the oldest that works), or was never given out.
            Ended: the table was restored, changed directly, or a user's rows were erased, after `after` was given: start again.
        """
        attempts = Attempts(20, f"{self.name} was settled", "while its changes were read")
        while attempts.next():
            table = self.table()
            end = self.upto(after, limit) if limit is not None or upto is None else upto
            end = end if upto is None else min(end, upto)
            trail = self._trail(table, NOTHING)
            self._check(table, trail, after)
            check_known(table, trail, end)
            try:
                return Changes(self._rows(table, trail, after, end, images), end)
            except (Missing, Behind, Conflict):
                continue

    def snapshot(self) -> tuple[Iterator[pa.Table], int]:
        """The rows as of now as `insert`, scope by scope, and the `_seq` after which their changes come."""
        end = self.end()
        return self.rows_at(end), end

    def rows_at(self, seq: int) -> Iterator[pa.Table]:
        """The rows that were live at a `_seq` that was given out not long ago. Raises as `changes`."""
        return (rows for _, rows in self.scopes_at(seq))

    def scopes_at(self, seq: int, since: str = "") -> Iterator[tuple[str, pa.Table]]:
        """The same, with the user of each part, empty text for a SHARED table; from the user `since` on, in order."""
        table = self.table()
        schema = change_schema(table.schema, owned=_owned(table))
        users = sorted(user for each in self.owners(seq) if (user := each or "") >= since)
        reader = None
        for user in users:
            rows, reader = self._rows_at(table, user, seq, reader or self._reader(table, users))
            yield user, typed(rows.append_column(USER, pa.repeat(user, rows.num_rows)), INSERT, schema)

    def start(self, where: Start) -> int | None:
        """The `_seq` after which changes begin; None for `full`: begin with `snapshot`.

        Raises:
            InvalidArgument: as `changes`; or a timestamp of which changes are no longer kept.
        """
        table = self.table()
        if where.kind == "full":
            return None
        if where.kind == "latest":
            return self.end()
        trail = self._trail(table, NOTHING)
        if where.kind == "seq":
            check_known(table, trail, where.seq)
            self._check(table, trail, where.seq)
            return where.seq
        if is_keyless(table):
            raise InvalidArgument(f"{table.name} has no primary key, so its log has no times: start at full, latest or seq:…")
        retention = self.warehouse.retention_of(table)
        return first_after(trail, self._ranges(table, trail, NOTHING), where, self.warehouse.clock(), retention)

    def owners(self, seq: int) -> Sequence[str | None]:
        """Whose rows there may be: None stands for the one scope of a SHARED table."""
        table = self.table()
        if not _owned(table):
            return (None,)
        if self.users is not None:
            return self.users
        pending = {each.user for each in self._trail(table, NOTHING).every_range(NOTHING) if each.first_seq <= seq}
        flushed = self.warehouse.registry.users(table.id) if can(table.type, "cold tier") else frozenset[str]()
        return sorted(flushed | pending)

    def changed(self, after: int, upto: int) -> dict[str, int]:
        """Who has changes there, and how many bytes they take in the log. Raises as `changes`."""
        table = self.table()
        trail = self._trail(table, after)
        self._check(table, trail, after)
        found = dict.fromkeys(("",) if is_keyless(table) else self._wanted(table, trail, after, upto), 0)
        for each in self._ranges(table, trail, after):
            if each.first_seq <= upto:
                found[each.user] += each.length
        return found

    def divided(self, after: int, upto: int, part_bytes: int) -> list[int]:
        """The `_seq` at which each part ends, where the changes are divided into parts of about this many bytes of the log: one
        after the other, the changes of the parts are those of the whole. Raises as `changes`."""
        table = self.table()
        trail = self._trail(table, after)
        self._check(table, trail, after)
        ranges = [] if is_keyless(table) else [each for each in self._ranges(table, trail, after) if each.first_seq <= upto]
        return [*ends_of_parts(ranges, part_bytes), upto] if ranges or is_keyless(table) else []

    def schema(self) -> pa.Schema:
        """The columns of `Changes.rows`, as of now."""
        table = self.table()
        return change_schema(table.schema, owned=_owned(table))

    def table(self) -> Table:
        """The table as it is now.

        Raises:
            NotFound: it does not exist, or is another one than before.
            Unsupported: its change tracking is disabled.
        """
        catalog = self.warehouse.catalog.read()
        table = find_table(catalog, self.name)
        if self.table_id not in (None, table.id):
            raise NotFound(f"the table {self.name} whose changes were read was dropped; this is another of the same name")
        require_active(catalog, self.name.namespace)
        if not table.tracks_changes:
            raise Unsupported(f"change tracking is disabled for {self.name}: its changes are not kept; read its rows instead")
        for user in self.users or ():
            check_scope(table, Scope(self.name, user))
        return table

    def _trail(self, table: Table, after: int) -> Trail:
        names = self._names(table)
        return self.warehouse.log(table).trail(after, names)

    def _names(self, table: Table) -> tuple[str, ...] | None:
        """As the log names them."""
        return self.users if _owned(table) else ("",)

    def _check(self, table: Table, trail: Trail, after: int) -> None:
        names = self._names(table)
        check_goes_on(table, trail, after, None if names is None else self._marks(names))

    def _marks(self, names: Sequence[str]) -> list[tuple[str, str]]:
        return [(name, self.warehouse.erasures.mark(name)) for name in names]

    def _ranges(self, table: Table, trail: Trail, after: int) -> tuple[RowRange, ...]:
        names = self._names(table)
        if names is None:
            return trail.every_range(after)
        found = [each for name in names for each in trail.ranges(name, after)]
        return tuple(sorted(found, key=lambda each: each.first_seq))

    def _rows(self, table: Table, trail: Trail, after: int, upto: int, images: bool) -> pa.Table:
        schema = change_schema(table.schema, owned=_owned(table))
        if is_keyless(table):
            return typed(appended(self._places(table)(""), after, upto), INSERT, schema)
        reader = ScopeReader(self.warehouse, table, self._places(table), trail, self.since)
        found = reader.changes(self._wanted(table, trail, after, upto), after, upto, images=images)
        return _by_seq(typed(found.rows, found.types, schema))

    def _wanted(self, table: Table, trail: Trail, after: int, upto: int) -> Sequence[str]:
        """Whose changes to read: where some may be no longer kept, each user's are looked at."""
        names = self._names(table)
        if names is not None and not trail.complete_after(after):
            return names
        return sorted({each.user for each in self._ranges(table, trail, after) if each.first_seq <= upto})

    def _rows_at(self, table: Table, user: str, seq: int, reader: ScopeReader) -> tuple[pa.Table, ScopeReader]:
        """The rows of a scope, and the reader that showed them: one look at the log does for all scopes, until flushes since have
        settled what it saw."""
        given = reader
        attempts = Attempts(20, f"{self.name} was settled", "while it was read")
        while attempts.next():
            check_known(table, reader.trail, seq)
            check_goes_on(table, reader.trail, seq, self._marks([user]))
            try:
                return (there_upto(reader.place(""), seq) if is_keyless(table) else reader.as_of(user, seq)), reader
            except (Missing, Behind, Conflict):
                reader = self._reader(table, (user,))
            except InvalidArgument:  # the log as it is now says why
                if reader is not given:
                    raise
                reader = self._reader(table, (user,))

    def _reader(self, table: Table, users: Sequence[str]) -> ScopeReader:
        """Of the log as it is now. Those users are looked up without a search."""
        return ScopeReader(self.warehouse, table, self._places(table), self.warehouse.log(table).trail(NOTHING, users))

    def _places(self, table: Table) -> Callable[[str], Place]:
        """Where the users' scopes are: for all of them, the catalog is read once."""
        catalog = self.warehouse.catalog.read()
        return lambda user: self.warehouse.place(catalog, table, user or None)


def _by_seq(rows: pa.Table) -> pa.Table:
    seqs = rows.column(SEQ).to_numpy()
    return rows if np.all(seqs[1:] >= seqs[:-1]) else rows.take(np.argsort(seqs, kind="stable"))


def _owned(table: Table) -> bool:
    """Whether rows belong to users."""
    return table.type != "SHARED"
