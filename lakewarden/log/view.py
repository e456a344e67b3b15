"""Views of a table's log: the pending rows, everything that the log keeps, and the state of a user."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakewarden.errors import Terminal
from lakewarden.log.chunk import RowRange


@dataclass(frozen=True)
class PendingRows:
    """A user's rows that no flush has settled. Small and picklable: it is sent to the task that flushes them."""

    user: str
    rows: int
    bytes: int
    oldest: datetime
    """When the oldest row was stored, by its writer's clock."""
    ranges: tuple[RowRange, ...]
    """Ascending by `_seq`."""

    @property
    def first_seq(self) -> int:
        return self.ranges[0].first_seq

    @property
    def last_seq(self) -> int:
        return self.ranges[-1].last_seq


@dataclass(frozen=True, eq=False)
class PendingCounts:
    """How much each user has pending, in columns: for a million users, no object for each."""

    users: pa.Array[Any]
    """Names; each once."""
    rows: NDArray[np.int64]
    bytes: NDArray[np.int64]
    oldest: NDArray[np.int64]
    """When the oldest row was stored, by its writer's clock: microseconds since the epoch."""


class LogView(Protocol):
    """A table's log as of one moment."""

    @property
    def log_id(self) -> str: ...

    @property
    def pending(self) -> Mapping[str, PendingRows]:
        """By user; `""` for a SHARED table. One user's are found without a look at the others'."""
        ...

    def pending_of(self, users: Collection[str]) -> Mapping[str, PendingRows]:
        """Those of these users, without a look at the others'."""
        ...

    def since(self, former: LogView, users: Collection[str]) -> tuple[RowRange, ...] | None:
        """The chunks of these users that came since a former view of the log; None where something else happened to it since: a
        flush, an erasure, a write past the log."""
        ...

    @property
    def counts(self) -> PendingCounts:
        """The same, counted in columns."""
        ...

    @property
    def last_position(self) -> int: ...

    @property
    def end(self) -> int:
        """The last possible `_seq` of what was read: a flush of the view settles up to here."""
        ...

    @property
    def settled(self) -> bool:
        """Whether any part of the log was ever settled."""
        ...

    @property
    def removals(self) -> tuple[tuple[str, int], ...]:
        """Whose rows the last erasures left out, by keyed hash and up to where, and whether the warehouse came from a backup:
        another value than before wherever users with rows were removed since."""
        ...

    @property
    def closed(self) -> Collection[str]:
        """Who is being erased, by keyed hash. An erasure that begins later takes a position behind the view."""
        ...


V_co = TypeVar("V_co", bound=LogView, covariant=True)


@dataclass(frozen=True)
class LogViews(Generic[V_co]):
    """Logs by their ids. A fault of one log does not hide others."""

    sound: Mapping[str, V_co]
    faults: Mapping[str, Terminal]


@dataclass(frozen=True)
class UserSigns:
    """The state of one user in a log. A position is None when that never happened."""

    dropped: bool
    """The table was dropped: the log refuses all appends."""
    closed: bool
    """The user is being erased: the log refuses their rows."""
    erased: int | None
    """The position up to which an erasure removed the user's rows."""
    rewound: int | None
    """A position that was taken after a restore of the user's rows."""
    restarted: int | None
    """The position up to which the whole log was settled because the warehouse came from a backup."""

    @property
    def shut(self) -> bool:
        return self.dropped or self.closed

    def erased_until(self, now: UserSigns) -> bool:
        """Whether an erasure of the user began or ended between these signs and those of now. Who has stored the user's name in
        between takes it back: the erasure may have looked for it before."""
        return now.closed or now.erased not in (None, self.erased)


@dataclass(frozen=True)
class Upset:
    """The last positions taken after a change of any user's rows that no row of the log says; None when that never happened."""

    rewound: int | None
    erased: int | None


class Trail(Protocol):
    """A log and its history as of one moment, where they hold rows beyond some `_seq`."""

    @property
    def after(self) -> int:
        """That `_seq`."""
        ...

    @property
    def view(self) -> LogView: ...

    @property
    def end(self) -> int:
        """The last possible `_seq` of what was read."""
        ...

    @property
    def forgotten(self) -> int:
        """All rows beyond this `_seq` still exist, in the log or in its history."""
        ...

    def load(self, users: Collection[str]) -> None:
        """Looks these users up at once, so that `ranges` finds each without a search. Raises `Missing` as they do."""
        ...

    def complete_after(self, seq: int) -> bool:
        """Returns whether every row of the log beyond this `_seq` is here. If not, one scope's rows may still all be here."""
        ...

    def ranges(self, user: str, after: int) -> tuple[RowRange, ...]:
        """Returns the user's chunks with rows beyond a `_seq` (not below `after` of the trail), ascending."""
        ...

    def every_range(self, after: int) -> tuple[RowRange, ...]:
        """Returns all users' chunks with rows beyond a `_seq`, ascending. Of a trail that was read for all users."""
        ...

    @property
    def upset(self) -> Upset:
        """Returns when users' rows were last changed by what is not a row of the log, whoever they are."""
        ...

    def settled_upto(self, user: str) -> int:
        """Returns the highest `_seq` up to which flushes have certainly settled the user's rows; `NOTHING` when unknown."""
        ...

    def signs(self, mark: str) -> UserSigns:
        """Returns the state of the user with this keyed hash."""
        ...


class LogFaults(Protocol):
    """Returns whether anything is lost."""

    def __bool__(self) -> bool: ...

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions whose acknowledged rows are lost from the log."""
        ...

    @property
    def rows(self) -> Mapping[int, int | None]:
        """The number of rows by lost position; None when unknown."""
        ...

    @property
    def carry(self) -> Sequence[str]:
        """Lost objects with rows of earlier positions that no flush has taken."""
        ...

    @property
    def summary(self) -> str:
        """The same in words, such as `the segments of positions 3, 4 are lost`."""
        ...
