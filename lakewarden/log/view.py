"""What views of a table's log show: pending rows, and the state of a user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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


Mark = Callable[[str], str]
"""The keyed hash by which a log names a user who is being erased."""


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
