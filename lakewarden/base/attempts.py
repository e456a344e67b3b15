"""Trying again what others came between, within a bound: each attempt that is lost is the success of another process."""

from __future__ import annotations

from typing import Literal

from lakewarden.errors import Conflict


class Attempts:
    """Counts attempts, in a loop that ends by returning what one of them brought:

        attempts = Attempts(20, "n.t was written to", "in between")
        while attempts.next():
            …

    Args:
        most: how many are made. Whoever gives up says so instead of waiting for ever: a busy place, or a fault that repeats.
        what, when: the error says that this happened so many times, and when it did.
        then: what to do about it.
    """

    def __init__(self, most: int, what: str, when: str, then: str = "try again") -> None:
        self._most = most
        self._said = what, when, then
        self.made = 0

    def next(self) -> Literal[True]:
        """Begins an attempt.

        Raises:
            Conflict: all were made.
        """
        if self.made == self._most:
            what, when, then = self._said
            raise Conflict(f"{what} {self._most} times {when}; {then}")
        self.made += 1
        return True
