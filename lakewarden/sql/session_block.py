"""The transaction block of one session: what BEGIN, COMMIT, ROLLBACK and SAVEPOINT do, and which writes belong to it.

A block writes rows of one scope of one table, so that one position of its log decides about all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from lakewarden.base.clock import Clock, system_clock
from lakewarden.base.scope import TableName
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.errors import FailedPrecondition, Terminal, Unsupported
from lakewarden.sql.temporary import TemporaryTable, TemporaryTables

if TYPE_CHECKING:
    from lakewarden.catalog.model import Table
    from lakewarden.log.position import Receipt
    from lakewarden.log.table_log import TableLog
    from lakewarden.tables.client.kept_rows import KeptRows, Mark
    from lakewarden.tables.client.reader import TableReader
    from lakewarden.tables.warehouse import Warehouse


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


@dataclass(frozen=True)
class OpenBlock:
    """What `system.transactions` shows of a block. `table` and `user` are those of the rows that it keeps."""

    started_at: datetime
    failed: bool
    table: TableName | None
    user: str | None
    rows: int
    bytes: int


class BlockRows(Protocol):
    """The rows of one scope that a block keeps (`tables.client.block`)."""

    kept: KeptRows
    user: str | None
    """Whose scope it is; None of a SHARED table."""

    @property
    def table(self) -> Table: ...
    def reader(self, warehouse: Warehouse, table: Table, log: TableLog) -> TableReader:
        """Sees the rows, and takes what is written."""
        ...

    def commit(self) -> Receipt:
        """Appends them, or nothing.

        Raises:
            Conflict, LakewardenError: nothing was written.
        """
        ...


class SessionBlock:
    """For one thread at a time. Outside a block, `open` is False and the methods for statements do nothing."""

    def __init__(self, clock: Clock, settings: SqlSettings, temporary: TemporaryTables, *, refused: str = "") -> None:
        """
        Args:
            temporary: the session's temporary tables, which a ROLLBACK sets back as well.
            refused: why the session has no blocks, if it has none.
        """
        self.open = self.failed = self.read_only = False
        self.most_bytes = settings.block_bytes
        """Of the rows that it keeps."""
        self._clock = clock
        self._idle_seconds = settings.block_idle_seconds
        self._temporary = temporary
        self._refused = refused
        self._rows: BlockRows | None = None
        self._points: list[_Point] = []
        self._at_once: list[str] = []
        """Statements that took effect by themselves."""
        self._began = self._used = clock()

    # What the block's own statements do

    def begin(self, *, read_only: bool = False) -> None:
        """Raises NoBlock: there is a block already."""
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
            Conflict, LakewardenError: as `BlockRows.commit`; the block is over.
        """
        self._check_open("COMMIT")
        self._check_idle()
        if self.failed:
            return self.roll_back()
        table = self.writes_to
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
            self._rows = None
        elif self._rows is not None:
            self._rows.kept.undo(point.kept)
        self._temporary.restore(point.temporary)
        stays, self._at_once = self._at_once[point.at_once :], self._at_once[: point.at_once]
        _check_undone(stays)

    def drop(self) -> None:
        """Ends the block without a word; nothing of it is written."""
        self.open = self.failed = self.read_only = False
        self._rows, self._points, self._at_once = None, [], []

    # What other statements do in it

    def check_allowed(self, what: str) -> None:
        """Raises Unsupported: the session has no blocks."""
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

    def rest(self) -> None:
        """Behind statements that ran: the block waits from now on."""
        self._used = self._clock()

    @contextmanager
    def alone(self, what: str) -> Iterator[None]:
        """Around a statement that takes effect by itself.

        Raises:
            Unsupported: the block keeps rows, beside which it would take effect first.
        """
        if (mine := self.writes_to) is not None:
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

    def keep(self, rows: BlockRows) -> None:
        """From the first write on, which they keep."""
        self._rows = rows

    def keeps(self, table: TableName, user: str | None) -> bool:
        """Whether the block wrote to this scope."""
        mine = self.writes_to
        return mine is not None and mine.table.name == table and mine.user == user

    @property
    def writes_to(self) -> BlockRows | None:
        """What the block keeps; None as long as that are no rows."""
        return self._rows if self._rows is not None and self._rows.kept.rows else None

    def described(self) -> OpenBlock | None:
        """For `system.transactions`, also from another thread."""
        table, began = self._rows, self._began
        if not self.open:
            return None
        if table is None:
            return OpenBlock(began, self.failed, None, None, 0, 0)
        return OpenBlock(began, self.failed, table.table.name, table.user, table.kept.rows, table.kept.bytes)

    def _point(self, name: str) -> _Point:
        kept = None if self._rows is None else self._rows.kept.mark()
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
        seconds = self._idle_seconds
        if not self.open or self.failed or self._clock() - self._used <= timedelta(seconds=seconds):
            return
        self.failed, self._rows, self._points = True, None, self._points[:1]  # no savepoint brings the rows back
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
