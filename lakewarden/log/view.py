"""What a look at a table's log shows: the rows that are pending, all that is kept of it, and what became of a user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from lakewarden.errors import Terminal
from lakewarden.log.chunk import RowRange


@dataclass(frozen=True)
class PendingRows:
    """A user's rows that no flush has settled; small and picklable, it travels to the task that flushes them."""

    user: str
    rows: int
    bytes: int
    oldest: datetime
    """When the oldest one was stored, by its writer's clock."""
    ranges: tuple[RowRange, ...]
    """Ascending by `_seq`."""

    @property
    def first_seq(self) -> int:
        return self.ranges[0].first_seq

    @property
    def last_seq(self) -> int:
        return self.ranges[-1].last_seq


class LogView(Protocol):
    """A table's log as of one moment."""

    @property
    def log_id(self) -> str: ...

    @property
    def pending(self) -> Mapping[str, PendingRows]:
        """By user; `""` for a SHARED table."""
        ...

    @property
    def last_position(self) -> int: ...

    @property
    def end(self) -> int:
        """The last possible `_seq` of what was read: a flush of the view settles up to here."""
        ...

    @property
    def settled(self) -> bool:
        """Whether anything of the log was ever settled."""
        ...


V_co = TypeVar("V_co", bound=LogView, covariant=True)


@dataclass(frozen=True)
class LogViews(Generic[V_co]):
    """Logs by their ids. A fault of one hides no other."""

    sound: Mapping[str, V_co]
    faults: Mapping[str, Terminal]


@dataclass(frozen=True)
class UserSigns:
    """What a log says of one user. A position is None where that never happened."""

    dropped: bool
    """The table was dropped: nothing is appended any more."""
    closed: bool
    """The user is being erased: nothing of theirs is appended."""
    erased: int | None
    """The position up to which the user's rows were left out by an erasure."""
    rewound: int | None
    """A position that was taken after a restore had set the user's rows back."""
    restarted: int | None
    """The position up to which the whole log was settled because the warehouse came from a backup."""

    @property
    def shut(self) -> bool:
        return self.dropped or self.closed


class Trail(Protocol):
    """A log and its history as of one moment, as far as they hold rows beyond some `_seq`."""

    @property
    def after(self) -> int:
        """That `_seq`."""
        ...

    @property
    def view(self) -> LogView: ...

    @property
    def end(self) -> int:
        """The last possible `_seq` of what was seen."""
        ...

    @property
    def forgotten(self) -> int:
        """Rows beyond this `_seq` are all there still, in the log or in its history."""
        ...

    def complete_after(self, seq: int) -> bool:
        """Whether every row of the log beyond this `_seq` is here. One scope's rows may all be here even if not."""
        ...

    def ranges(self, user: str, after: int) -> tuple[RowRange, ...]:
        """The user's chunks with rows beyond a `_seq` (not below `after` of the trail), ascending."""
        ...

    def settled_upto(self, user: str) -> int:
        """The highest `_seq` up to which flushes have surely settled the user's rows; `NOTHING` where none is known."""
        ...

    def signs(self, mark: str) -> UserSigns:
        """Of the user with this keyed hash."""
        ...
