"""The transaction block of one session: what BEGIN, COMMIT, ROLLBACK and SAVEPOINT do, and which writes belong to it.

A block writes rows of one scope of one table, so that one position of its log decides about all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from lakewarden.base.clock import Clock, system_clock
from lakewarden.base.scope import TableName
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.errors import FailedPrecondition, LakewardenError, Terminal, Unsupported
from lakewarden.sql.services import OpenBlock
from lakewarden.sql.temporary import TemporaryTable, TemporaryTables
from lakewarden.tables.rows.files import file_columns

if TYPE_CHECKING:
    from lakewarden.tables.client import TableClient
    from lakewarden.tables.client.block import TableBlock
    from lakewarden.tables.client.kept_rows import Mark


class FailedBlock(FailedPrecondition):
    """An earlier statement of the block failed: nothing runs until ROLLBACK."""


class IdleBlock(FailedPrecondition):
    """The block waited for too long, and its rows were dropped."""


class NoBlock(FailedPrecondition):
    """There is no block."""


class NoSavepoint(FailedPrecondition):
    """The block has no savepoint of that name."""


class ReadOnlyBlock(FailedPrecondition):
    """The block is READ ONLY, and the statement may change something."""


@dataclass(frozen=True)
class _Point:
    """How far the block had come at its beginning, or at a savepoint."""

    name: str
    kept: Mark | None
    at_once: int
    temporary: Mapping[TableName, TemporaryTable]


class SessionBlock:
    """For one thread at a time. Outside a block, `open` is False and the methods for statements do nothing."""

    def __init__(self, clock: Clock, settings: SqlSettings, temporary: TemporaryTables, *, refused: str = "") -> None:
        """
        Args:
            temporary: the session's temporary tables, which a ROLLBACK sets back as well.
            refused: why the session has no blocks, if it has none.
        """
        self.open = self.failed = self.read_only = False
        self._clock = clock
        self._settings = settings
        self._temporary = temporary
        self._refused = refused
        self._table: TableBlock | None = None
        self._points: list[_Point] = []
        self._at_once: list[str] = []
        """Statements that took effect by themselves."""
        self._began = self._used = clock()

    # What the block's own statements do

    def begin(self, *, read_only: bool = False) -> None:
        """Raises:
        NoBlock: there is a block already.
        """
        self.check()
        if self.open:
            raise NoBlock("there is a block already: COMMIT or ROLLBACK ends it, and SAVEPOINT begins a part of it")
        self.open, self.read_only = True, read_only
        self._began = self._used = self._clock()
        self._points = [self._point("")]

    def commit(self) -> str:
        """Ends the block. Returns `COMMIT`; or `ROLLBACK`, as for a block that failed.

        Raises:
            NoBlock: there is none.
            Conflict, LakewardenError: as `TableBlock.commit`; the block is over.
        """
        self._check_open("COMMIT")
        self._check_idle()
        if self.failed:
            return self.roll_back()
        table = self._writes_to
        self.drop()
        if table is not None:
            table.commit()
        return "COMMIT"

    def roll_back(self) -> str:
        """Ends the block, and drops what it wrote.

        Raises:
            NoBlock: there is none.
            Unsupported: something of it took effect by itself, and stays. The block is over all the same.
        """
        self._check_open("ROLLBACK")
        self._temporary.restore(self._points[0].temporary)
        stays = self._at_once
        self.drop()
        _check_undone(stays)
        return "ROLLBACK"

    def save(self, name: str) -> None:
        self._check_open("SAVEPOINT")
        self.check()
        self._points.append(self._point(name.lower()))

    def release(self, name: str) -> None:
        self._check_open("RELEASE SAVEPOINT")
        self.check()
        del self._points[self._place(name) :]

    def roll_back_to(self, name: str) -> None:
        """Drops what came behind the savepoint, which stays. Raises as `roll_back`, and `NoSavepoint`."""
        self._check_open("ROLLBACK TO SAVEPOINT")
        self._check_idle()
        place = self._place(name)
        point, self.failed = self._points[place], False
        del self._points[place + 1 :]
        if point.kept is None:
            self._table = None
        elif self._table is not None:
            self._table.kept.undo(point.kept)
        self._temporary.restore(point.temporary)
        stays, self._at_once = self._at_once[point.at_once :], self._at_once[: point.at_once]
        _check_undone(stays)

    def drop(self) -> None:
        """Ends the block without a word; nothing of it is written."""
        self.open = self.failed = self.read_only = False
        self._table, self._points, self._at_once = None, [], []

    # What other statements do in it

    def check_allowed(self, what: str) -> None:
        """Raises:
        Unsupported: the session has no blocks.
        """
        if self._refused:
            raise Unsupported(f"{what}: {self._refused}")

    def check(self) -> None:
        """Before any other statement.

        Raises:
            IdleBlock: nothing came for too long, and the block's rows were dropped.
            FailedBlock: the block failed, so that no statement runs until it is ended.
        """
        self._check_idle()
        if self.failed:
            raise FailedBlock("an earlier statement of this block failed: ROLLBACK ends the block")
        self._used = self._clock()

    def fail(self) -> None:
        self.failed = self.open

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around statements that run: an error fails the block, which waits from their end on."""
        try:
            yield
        except LakewardenError:
            self.fail()
            raise
        self._used = self._clock()

    @contextmanager
    def alone(self, what: str) -> Iterator[None]:
        """Around a statement that takes effect by itself.

        Raises:
            Unsupported: the block keeps rows, beside which it would take effect first.
        """
        if (mine := self._writes_to) is not None:
            raise Unsupported(
                f"{what} takes effect by itself, and the block keeps rows of {mine.table.name}: COMMIT first, or run it before"
                " the first write of the block"
            )
        if self.open:
            self._at_once.append(what)
        try:
            yield
        except Terminal:  # nothing was done; after any other error a part of it may stay
            if self.open:
                self._at_once.pop()
            raise

    def writing(self, client: TableClient, user: str | None, *, past_log: bool = False) -> TableClient:
        """The client for a write of this session: in a block, one that keeps the rows.

        Args:
            user: whose scope it is.
            past_log: whether the statement would be carried out straight in Delta.

        Raises:
            Unsupported: the write cannot be part of the block; nothing of it was kept.
            Conflict: the table was altered since the block wrote to it.
        """
        if not self.open:
            return client
        self._check_takes(client, user, past_log)
        if self._writes_to is None:
            from lakewarden.tables.client.block import TableBlock  # imports what writes need, which a query does not

            self._table = TableBlock(client, user, self._settings.block_bytes)
        assert self._table is not None, "it was made, or has rows"
        return self._table.joined(client)

    def reading(self, client: TableClient, user: str | None) -> TableClient:
        """The client for a read: one that sees what the block wrote to the scope."""
        mine = self._writes_to
        return mine.joined(client) if mine is not None and self.keeps(client.table.name, user) else client

    def keeps(self, table: TableName, user: str | None) -> bool:
        """Whether the block wrote to this scope."""
        mine = self._writes_to
        return mine is not None and mine.table.name == table and mine.user == user

    def _check_takes(self, client: TableClient, user: str | None, past_log: bool) -> None:
        table, mine = client.table, self._writes_to
        if mine is not None and mine.table.name != table.name:
            raise Unsupported(
                f"the block has written to {mine.table.name}, and a block writes to one table: one position of that table's log"
                f" decides about all of it. COMMIT before {table.name}, or write to it in a block of its own"
            )
        if mine is not None and mine.user != user:
            raise Unsupported(
                f"the block has written rows of {mine.user!r}, and a block writes rows of one user: COMMIT before those of"
                f" {user!r}"
            )
        if past_log or not (table.schema.keyed or table.schema.append_only):
            raise Unsupported(
                f"this write to {table.name} goes straight into Delta, past the write log that a block's COMMIT is in: run it"
                " outside a block (autocommit)"
            )
        if file_columns(table.schema):
            raise Unsupported(
                f"{table.name} has FILE columns, whose files are stored and removed at once: write to it outside a block"
                " (autocommit)"
            )

    @property
    def _writes_to(self) -> TableBlock | None:
        """The scope that the block keeps rows of."""
        return self._table if self._table is not None and self._table.kept.rows else None

    def described(self) -> OpenBlock | None:
        """For `system.transactions`, also from another thread."""
        table, began = self._table, self._began
        if not self.open:
            return None
        if table is None:
            return OpenBlock(began, self.failed, None, None, 0, 0)
        return OpenBlock(began, self.failed, table.table.name, table.user, table.kept.rows, table.kept.bytes)

    def _point(self, name: str) -> _Point:
        kept = None if self._table is None else self._table.kept.mark()
        return _Point(name, kept, len(self._at_once), self._temporary.held())

    def _place(self, name: str) -> int:
        places = [place for place, point in enumerate(self._points) if place and point.name == name.lower()]
        if not places:
            raise NoSavepoint(f"there is no savepoint {name!r}")
        return places[-1]

    def _check_open(self, what: str) -> None:
        if not self.open:
            raise NoBlock(f"{what} works in a block alone: BEGIN first")

    def _check_idle(self) -> None:
        seconds = self._settings.block_idle_seconds
        if not self.open or self.failed or self._clock() - self._used <= timedelta(seconds=seconds):
            return
        self.failed, self._table, self._points = True, None, self._points[:1]  # no savepoint brings the rows back
        raise IdleBlock(
            f"the block had no statement for more than {seconds:g} seconds (sql.block_idle_seconds): its rows were dropped, and"
            " nothing was written. ROLLBACK ends it; then run it again"
        )


def _check_undone(stays: list[str]) -> None:
    if stays:
        raise Unsupported(
            f"the block's rows were dropped, but {', '.join(stays)} took effect by itself and stays: ROLLBACK undoes rows alone"
        )


def no_block() -> SessionBlock:
    """Of statements outside a session."""
    return SessionBlock(system_clock, SqlSettings(), TemporaryTables(), refused="there is no session, in which a block could be")
