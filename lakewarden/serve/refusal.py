"""A request that is declined for a reason of the network's: no token, too large, too many."""

from __future__ import annotations


class RequestDeclined(Exception):
    """`status` is HTTP's; after `retry_after` seconds another attempt may help, where one may at all."""

    def __init__(self, status: int, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.status = status
        self.message = message
