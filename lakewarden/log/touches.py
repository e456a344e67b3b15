"""What the appends of one process read and write in a log. With it, appends that depend on reads can share segments."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

Keys = frozenset[tuple[object, ...]]

Touched = Mapping[str, Keys | None]
"""By user, the primary keys of the rows that were read or are written; None for all of the user's rows."""

ANYTHING: Touched = {}
"""In place of the rows of very many users: it may be any row. Compared by identity."""

_PUTS = 64
"""The number of own puts that a call may have missed. A call that missed more reads again."""

_MOST_USERS = 1000
"""The number of keys remembered of a put. A put with more counts as touching everything."""


def apart(one: Touched, other: Touched) -> bool:
    """Returns whether neither touches a row of the other."""
    if one is ANYTHING or other is ANYTHING:
        return False
    # The work follows the smaller of the two: a statement of one key meets a load of many users.
    few, many = (one, other) if len(one) <= len(other) else (other, one)
    return all(_apart(keys, many[user]) for user, keys in few.items() if user in many)


def united(one: Touched, other: Touched) -> Touched:
    if one is ANYTHING or other is ANYTHING:
        return ANYTHING
    both = {user: _united(one[user], other[user]) for user in one.keys() & other.keys()}
    return {**one, **other, **both}


def _united(one: Keys | None, other: Keys | None) -> Keys | None:
    return None if one is None or other is None else one | other


def _apart(one: Keys | None, other: Keys | None) -> bool:
    return one is not None and other is not None and one.isdisjoint(other)


class OwnPuts:
    """The last puts of one writer: their positions, and the rows that they touch."""

    def __init__(self) -> None:
        self._puts: deque[tuple[int, Touched]] = deque(maxlen=_PUTS)

    def made(self, position: int, touched: Touched) -> None:
        # Forgotten puts leave a gap in the positions, and a gap is a conflict. So it counts as touching everything.
        if touched is ANYTHING or len(touched) > _MOST_USERS:
            self._puts.clear()
        else:
            self._puts.append((position, touched))

    def passed(self, after: int, touched: Touched) -> int:
        """Returns the position after which rows may come that depend on what was read up to `after`.

        A put of this writer that touches none of these rows does not change what was read. Returns `after` if another put came.
        """
        reached = after
        for position, put in self._puts:
            if position > reached:
                # A position that is not ours is another process's, or of a put whose outcome is unknown.
                if position != reached + 1 or not apart(put, touched):
                    return after
                reached = position
        return reached
