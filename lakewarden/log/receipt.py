"""The result of an append: how many rows were appended, and where; or how many were, if it failed half-way."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.errors import StorageUnavailable


@dataclass(frozen=True)
class Receipt:
    """A complete append. `last_seq` is the highest `_seq` of the call's rows."""

    rows: int
    last_seq: int


class PartlyAppended(StorageUnavailable):
    """A write of several segments failed half-way: some rows are acknowledged, the outcome of the others is unknown."""

    def __init__(self, message: str, rows: int, users: frozenset[str]) -> None:
        super().__init__(message)
        self.rows = rows
        """The number of acknowledged rows: the first ones of the call, when ordered by user."""
        self.users = users
        """Users all of whose rows were acknowledged."""
