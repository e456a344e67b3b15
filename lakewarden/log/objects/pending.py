"""What is pending of one log: by user, or counted in columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.log.chunk import RowRange
from lakewarden.log.objects.columns import Columns, Numbers
from lakewarden.log.objects.header import Header
from lakewarden.log.position import NOTHING
from lakewarden.log.view import PendingCounts, PendingRows


class Pending(Mapping[str, PendingRows]):
    """The chunks of headers above their users' marks. One user's are found without a look at the others'."""

    def __init__(self, headers: Sequence[Header], marks: Mapping[str, int]) -> None:
        self._headers = headers
        self._marks = marks

    def __getitem__(self, user: str) -> PendingRows:
        return self.of((user,))[user]

    def of(self, users: Collection[str]) -> dict[str, PendingRows]:
        """Those of the users who have pending rows."""
        if "_by_user" in self.__dict__:
            return {user: _summed(user, self._by_user[user]) for user in users if user in self._by_user}
        found = {user: [*self._narrow[user]] for user in users if user in self._narrow}
        for header in self._wide:
            for each in header.of(users):
                if each.last_seq > self._marks.get(each.user, NOTHING):
                    found.setdefault(each.user, []).append(each)
        return {user: _summed(user, ranges) for user, ranges in found.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_user)

    def __len__(self) -> int:
        return len(self.counts.users) if self._wide else len(self._by_user)

    def __bool__(self) -> bool:
        return any(header.open(self._marks) for header in self._headers)

    @cached_property
    def counts(self) -> PendingCounts:
        """Sorted by user."""
        parts = [Columns.of(header.key, header.put_id, header.open(self._marks)) for header in self._headers]
        users: pa.Array[Any] = pa.concat_arrays([pa.array([], pa.string()), *(part.users for part in parts)])
        rows, sizes, stored = (_joined([getattr(part, name) for part in parts]) for name in ("rows", "lengths", "stored_ats"))
        order = np.asarray(pc.sort_indices(users))
        users = users.take(cast("Any", pa.array(order)))
        first = np.flatnonzero(_begins(users))
        if not len(first):
            return PendingCounts(users, rows, sizes, stored)
        rows, sizes = (np.add.reduceat(each[order], first) for each in (rows, sizes))
        return PendingCounts(users.take(cast("Any", pa.array(first))), rows, sizes, np.minimum.reduceat(stored[order], first))

    @cached_property
    def _wide(self) -> list[Header]:
        """Those with many users."""
        return [header for header in self._headers if header.wide]

    @cached_property
    def _narrow(self) -> dict[str, list[RowRange]]:
        """Open chunks of the others, by user."""
        return _grouped([header for header in self._headers if not header.wide], self._marks)

    @cached_property
    def _by_user(self) -> dict[str, list[RowRange]]:
        return _grouped(self._headers, self._marks) if self._wide else self._narrow


def _grouped(headers: Sequence[Header], marks: Mapping[str, int]) -> dict[str, list[RowRange]]:
    by_user: dict[str, list[RowRange]] = {}
    for header in headers:
        for each in header.open(marks):
            by_user.setdefault(each.user, []).append(each)
    return by_user


def _summed(user: str, ranges: Sequence[RowRange]) -> PendingRows:
    return PendingRows(
        user=user,
        rows=sum(each.rows for each in ranges),
        bytes=sum(each.length for each in ranges),
        oldest=datetime.fromtimestamp(min(each.stored_at for each in ranges) / 1_000_000, UTC),
        ranges=tuple(sorted(ranges, key=lambda each: each.first_seq)),
    )


def _joined(parts: Sequence[Numbers]) -> Numbers:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _begins(users: pa.Array[Any]) -> np.ndarray:
    """Where a sorted column has another user than the row before."""
    if not len(users):
        return np.empty(0, np.bool_)
    return np.append(np.True_, np.asarray(pc.not_equal(users[1:], users[:-1])))
