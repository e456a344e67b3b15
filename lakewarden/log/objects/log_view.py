"""One partition of the write log as of one moment."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.arrays import numbers, texts, values
from lakewarden.errors import Terminal
from lakewarden.log.chunk import RowRange
from lakewarden.log.objects.cut import EVERYBODY, LogCut
from lakewarden.log.objects.header import Header
from lakewarden.log.objects.index import Columns, Numbers
from lakewarden.log.objects.search import ChunkSearch
from lakewarden.log.position import NOTHING, end_of
from lakewarden.log.view import PendingCounts, PendingRows


# What is pending of one log: by user, or counted in columns.
class PendingChunks(Mapping[str, PendingRows]):
    """The chunks above their users' marks. One user's are found without a look at the others'."""

    def __init__(self, search: ChunkSearch, marks: Mapping[str, int]) -> None:
        self._search = search
        self._marks = marks

    def followed_by(self, headers: Sequence[Header]) -> PendingChunks:
        """The same with further headers, and nothing loaded."""
        return PendingChunks(self._search.followed_by(headers), self._marks)

    @property
    def weight(self) -> int:
        """That of the headers."""
        return self._search.weight

    def load(self, users: Collection[str] | None) -> None:
        """As `ChunkSearch.load`."""
        self._search.load(users)

    def __getitem__(self, user: str) -> PendingRows:
        return self.of((user,))[user]

    def of(self, users: Collection[str]) -> dict[str, PendingRows]:
        """Those of the users who have pending rows."""
        # Already made for all users: then no header is searched.
        if "_by_user" in self.__dict__:
            return {user: _summed(user, self._by_user[user]) for user in users if user in self._by_user}
        found = self._search.of(users).items()
        return {user: _summed(user, there) for user, ranges in found if (there := self._open(user, ranges))}

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_user)

    def __len__(self) -> int:
        return len(self.counts.users)

    def __bool__(self) -> bool:
        # Without `_by_user`, which would read every block of every index.
        return any(header.has_open(self._marks) for header in self._search.headers)

    @cached_property
    def counts(self) -> PendingCounts:
        """Sorted by user."""
        if not any(header.wide for header in self._search.headers):
            return _counted(self._by_user)  # sooner
        parts = [Columns.of(header.key, header.put_id, header.open(self._marks)) for header in self._search.headers]
        names = [part.users for part in parts]
        users = names[0] if len(names) == 1 else pa.concat_arrays(names)
        rows, sizes, stored = (_joined([getattr(part, name) for part in parts]) for name in ("rows", "lengths", "stored_ats"))
        # Before the sort, which needs about as much memory again for a million users.
        del parts, names
        order = values(pc.sort_indices(users))
        if not _ascends(order):
            users, rows, sizes, stored = users.take(numbers(order)), rows[order], sizes[order], stored[order]
        first = np.flatnonzero(_begins(users))
        if len(first) == len(users):
            return PendingCounts(users, rows, sizes, stored)
        rows, sizes = (np.add.reduceat(each, first) for each in (rows, sizes))
        return PendingCounts(users.take(numbers(first)), rows, sizes, np.minimum.reduceat(stored, first))

    @cached_property
    def _by_user(self) -> dict[str, list[RowRange]]:
        found: dict[str, list[RowRange]] = {}
        for header in self._search.headers:
            for each in header.open(self._marks):
                found.setdefault(each.user, []).append(each)
        return found

    def _open(self, user: str, ranges: Sequence[RowRange]) -> Sequence[RowRange]:
        upto = self._marks.get(user)
        return ranges if upto is None else [each for each in ranges if each.last_seq > upto]


# Each read and each INSERT of a key sums its user's chunks: a getter in C costs a fifth of an expression for each.
_ROWS, _LENGTH, _STORED_AT, _FIRST_SEQ = map(attrgetter, ("rows", "length", "stored_at", "first_seq"))


def _summed(user: str, ranges: Sequence[RowRange]) -> PendingRows:
    return PendingRows(
        user=user,
        rows=sum(map(_ROWS, ranges)),
        bytes=sum(map(_LENGTH, ranges)),
        oldest=datetime.fromtimestamp(min(map(_STORED_AT, ranges)) / 1_000_000, UTC),
        ranges=tuple(sorted(ranges, key=_FIRST_SEQ)),
    )


def _counted(by_user: Mapping[str, Sequence[RowRange]]) -> PendingCounts:
    users = sorted(by_user)
    found = [by_user[user] for user in users]
    return PendingCounts(
        texts(users),
        np.array([sum(each.rows for each in ranges) for ranges in found], np.int64),
        np.array([sum(each.length for each in ranges) for ranges in found], np.int64),
        np.array([min(each.stored_at for each in ranges) for ranges in found], np.int64),
    )


def _joined(parts: Sequence[Numbers]) -> Numbers:
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])


def _ascends(order: np.ndarray) -> bool:
    """Whether nothing has to move."""
    return bool(np.all(order[1:] > order[:-1]))


def _begins(users: pa.Array[Any]) -> np.ndarray:
    """Where a sorted column has another user than the row before."""
    if not len(users):
        return np.empty(0, np.bool_)
    return np.append(np.True_, values(pc.not_equal(users[1:], users[:-1])))


@dataclass(frozen=True)
class LogView:
    """A table's log as of one moment: what a listing and the headers showed."""

    log_id: str
    cut: LogCut
    carry: tuple[Header, ...]
    run: tuple[Header, ...]
    """The segments above the cut, one for each position; that of a lost one is empty."""
    litter: bool
    """Whether a cleanup would find something to remove."""
    unnamed: frozenset[str]
    """Ids of staged batches that no segment above the cut names."""
    _pending: PendingChunks = field(repr=False, compare=False)

    @classmethod
    def of(
        cls, log_id: str, cut: LogCut, carry: tuple[Header, ...], run: tuple[Header, ...], litter: bool, staged: frozenset[str]
    ) -> LogView:
        """`staged`: the ids of all batches."""
        return cls(
            log_id, cut, carry, run, litter, _unnamed(staged, run), PendingChunks(ChunkSearch.over((*carry, *run)), cut.settled)
        )

    def followed_by(self, headers: Sequence[Header]) -> LogView:
        """The same partition with further segments, and nothing loaded."""
        return replace(
            self,
            run=(*self.run, *headers),
            unnamed=_unnamed(self.unnamed, headers),
            _pending=self._pending.followed_by(headers),
        )

    @property
    def pending(self) -> Mapping[str, PendingRows]:
        """By user; `""` for a SHARED table. One user's are found without a look at the others'."""
        return self._pending

    def pending_of(self, users: Collection[str]) -> Mapping[str, PendingRows]:
        """Those of these users, without a look at the others'."""
        return self._pending.of(users)

    def load(self, users: Collection[str] | None) -> None:
        """Reads what is needed to look these users up, or all. Raises `Missing` when some of it was cleaned up meanwhile."""
        self._pending.load(users)

    def since(self, former: LogView, users: Collection[str]) -> tuple[RowRange, ...] | None:
        """The chunks of these users that came since a former view of the log; None where something else happened to it since: a
        flush, an erasure, a write past the log."""
        # With the same cut both runs begin at the same position, so what is new stands behind.
        new = self.run[len(former.run) :]
        # A segment without rows (filled, or of a direct write) stands for something that no row says.
        if former.cut.version != self.cut.version or not all(header.rows for header in new):
            return None
        found = (each for pending in self.pending_of(users).values() for each in pending.ranges)
        return tuple(each for each in found if each.first_seq > former.end)

    @property
    def counts(self) -> PendingCounts:
        """What is pending, counted in columns."""
        return self._pending.counts

    @property
    def weight(self) -> int:
        """That of its headers."""
        return self._pending.weight

    @cached_property
    def last_position(self) -> int:
        return self.cut.upto + len(self.run)

    @cached_property
    def end(self) -> int:
        """The last possible `_seq` of what was read: a flush of the view settles up to here."""
        return end_of(self.last_position)

    @property
    def settled(self) -> bool:
        """Whether any part of the log was ever settled."""
        return self.cut.upto > NOTHING

    @property
    def removals(self) -> tuple[tuple[str, int], ...]:
        """Whose rows the last erasures left out, by keyed hash and up to where, and whether the warehouse came from a backup:
        another value than before wherever users with rows were removed since."""
        # A jump counts as a removal of everyone: the registry may have come from the backup too
        # (docs/decisions/0038-what-a-flush-job-requests.md).
        return (*self.cut.erased.items(), (EVERYBODY, self.cut.rewound.get(EVERYBODY, NOTHING)))

    @property
    def closed(self) -> Collection[str]:
        """Who is being erased, by keyed hash. An erasure that begins later takes a position behind the view."""
        return self.cut.closed


@dataclass(frozen=True)
class LogViews:
    """Logs by their ids. A fault of one log does not hide others."""

    sound: Mapping[str, LogView]
    faults: Mapping[str, Terminal]


def _unnamed(staged: frozenset[str], run: Sequence[Header]) -> frozenset[str]:
    return staged.difference(header.put_id for header in run) if staged else staged
