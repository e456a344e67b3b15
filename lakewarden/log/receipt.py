"""What an append says: how many rows were taken, and where; or how many of them, where it failed half-way."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.errors import StorageUnavailable


@dataclass(frozen=True)
class Receipt:
    """What was appended. `last_seq` is the highest `_seq` that the call's rows were given."""

    rows: int
    last_seq: int


class PartlyAppended(StorageUnavailable):
    """A write of several segments failed half-way: some rows are acknowledged and there, the others are not known to be."""

    def __init__(self, message: str, rows: int, users: frozenset[str]) -> None:
        super().__init__(message)
        self.rows = rows
        """Acknowledged rows: the first ones of the call, if it is ordered by user."""
        self.users = users
        """Users all of whose rows were acknowledged."""
