"""Encoded rows of one user: before they are appended to a log, and their place in it."""

from __future__ import annotations

from typing import NamedTuple

Payload = bytes | memoryview


class Chunk(NamedTuple):
    """Rows of one user to be appended to the log."""

    user: str
    rows: int
    data: Payload


class RowRange(NamedTuple):
    """Where a chunk is, and what a reader needs. A tuple, because planning creates one per scope and segment."""

    key: str
    put_id: str
    user: str
    rows: int
    offset: int
    length: int
    first_seq: int
    schema_version: int
    stored_at: int

    @property
    def last_seq(self) -> int:
        return self.first_seq + self.rows - 1
