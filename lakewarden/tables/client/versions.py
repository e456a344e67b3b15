"""What there is to know of one table beside its rows: history, changes, pins, users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa

from lakewarden.catalog.access import OPERATOR
from lakewarden.catalog.model import Table
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.reading.history import HistoryEntry, history
from lakewarden.errors import Conflict
from lakewarden.log.table_log import TableLog
from lakewarden.tables.changes.feed import ChangeFeed
from lakewarden.tables.changes.value import Changes
from lakewarden.tables.client.reader import TableReader
from lakewarden.tables.pins import Pin, pin_version, release, unless_erased
from lakewarden.tables.strong_read import where_it_lies
from lakewarden.tables.warehouse import Warehouse, find_table

MakeReader = Callable[[Warehouse, Table, TableLog], TableReader]


@dataclass(frozen=True)
class TableVersions:
    """The versions of one table's scopes, and who holds on to them."""

    warehouse: Warehouse
    table: Table
    log: TableLog
    author: str = OPERATOR.user
    """The user who writes; rows of USER and STREAM tables belong to their scope's user."""
    make_reader: MakeReader = TableReader
    """Another one in a block, where what is written is kept and what is kept is read."""

    @cached_property
    def reader(self) -> TableReader:
        return self.make_reader(self.warehouse, self.table, self.log)

    def history(
        self, *, user: str | None = None, limit: int | None = 20, before_version: int | None = None
    ) -> list[HistoryEntry]:
        """The scope's commits, newest first; `before_version` is the cursor of the next page."""

        def read(target: ScopeTarget) -> tuple[list[HistoryEntry], bool]:
            # never certain: the old place of a scope that was moved meanwhile has a log of its own
            return history(target, limit, before_version), False

        return where_it_lies(partial(self.reader.target, user), read)

    def changes(
        self, *, user: str | None = None, after: int | None = None, limit: int | None = None, images: bool = True
    ) -> Changes:
        """The changes beyond a `_seq`, with the rows before them; `upto` of the answer is where the next call continues.

        Args:
            user: whose changes; those of all users where none is named.
            after: None for the rows as of now, as `insert`, with the `_seq` after which their changes come.
            limit: about how many changed rows; rows that became visible together stay together.
            images: as in `ChangeFeed.changes`.

        Raises:
            InvalidArgument: `after` is too old (the message names the oldest that works), or was never given out.
            Ended: the table was restored, changed directly, or rows were erased since: start again.
        """
        feed = ChangeFeed(self.warehouse, self.table.name, None if user is None else (user,), self.table.id)
        if after is not None:
            return feed.changes(after, limit=limit, images=images)
        rows, upto = feed.snapshot()
        return Changes(pa.concat_tables([feed.schema().empty_table(), *rows]), upto)

    def lease(self, *, user: str | None = None, version: int | None = None, seconds: float) -> Pin:
        """Pins a version, the newest where none is given, for some time: no vacuum removes its files while a reader uses them.

        Raises:
            InvalidArgument: the time is not above 0 and up to 30 days.
            NotFound: the version does not exist, or is older than the retention.
            Conflict: the table is being moved, and its old place emptied.
            BeingErased: the user is being erased, or was meanwhile.
        """
        warehouse = self.warehouse
        target = self.reader.target(user)
        now, new_id = warehouse.clock(), warehouse.new_id
        keep = partial(pin_version, warehouse.state, self.table.id, target, version, seconds, now=now, new_id=new_id)
        pin: Pin = unless_erased(self.log, warehouse.erasures.mark(user or ""), user, keep, partial(release, warehouse.state))
        # checked after the pin is stored: a move that is not seen here has seen the pin, and waits
        moving = find_table(warehouse.catalog.read(), self.table.name).move is not None
        if moving or self.reader.target(user).location != target.location:
            release(warehouse.state, pin)
            raise Conflict(f"{self.table.name} is being moved to another storage: pin a version after the move")
        return pin

    def release(self, pin: Pin) -> None:
        """Ends a pin before its time."""
        release(self.warehouse.state, pin)

    def users(self) -> list[str]:
        """The users whose scopes were ever flushed; none for a SHARED table."""
        return sorted(self.warehouse.registry.users(self.table.id))
