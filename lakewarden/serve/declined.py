"""A request that is declined for a reason of the network's: no token, too large, too many."""

from __future__ import annotations


class Declined(Exception):
    """`status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
