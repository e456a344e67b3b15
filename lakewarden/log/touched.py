"""What appends of one process read and write of a log: by it, those that read before they write can share segments."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

Keys = frozenset[tuple[object, ...]]

Touched = Mapping[str, Keys | None]
"""By user, the primary keys of the rows that were looked for and are written; None for all of the user's rows."""

_PUTS = 64
"""Own puts that a call may have missed. One that missed more reads again."""

_MOST_USERS = 1000
"""Of a put that is remembered; one of more may touch anything."""


def apart(one: Touched, other: Touched) -> bool:
    """Whether neither touches a row of the other."""
    few, many = (one, other) if len(one) <= len(other) else (other, one)
    return all(_apart(keys, many[user]) for user, keys in few.items() if user in many)


def united(one: Touched, other: Touched) -> Touched:
    both = {user: _united(one[user], other[user]) for user in one.keys() & other.keys()}
    return {**one, **other, **both}


def _united(one: Keys | None, other: Keys | None) -> Keys | None:
    return None if one is None or other is None else one | other


def _apart(one: Keys | None, other: Keys | None) -> bool:
    return one is not None and other is not None and one.isdisjoint(other)


class OwnPuts:
    """The last puts of one writer: their positions, and what they touch."""

    def __init__(self) -> None:
        self._puts: deque[tuple[int, Touched]] = deque(maxlen=_PUTS)

    def made(self, position: int, touched: Touched) -> None:
        if len(touched) > _MOST_USERS:
            self._puts.clear()
        else:
            self._puts.append((position, touched))

    def passed(self, after: int, touched: Touched) -> int:
        """The position behind which rows may come that were decided on by what was read up to `after`.

        A put of this writer that touches nothing of it changes nothing in what was read. `after` itself, if any other put came.
        """
        reached = after
        for position, put in self._puts:
            if position > reached:
                if position != reached + 1 or not apart(put, touched):
                    return after
                reached = position
        return reached
