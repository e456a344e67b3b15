"""Rows of one user, encoded: on their way into a log, and where they are in it."""

from __future__ import annotations

from typing import NamedTuple

Payload = bytes | memoryview


class Chunk(NamedTuple):
    """Rows of one user on their way into the log."""

    user: str
    rows: int
    data: Payload


class RowRange(NamedTuple):
    """Where a chunk is, and what it needs to be read. A tuple, because planning makes one per scope and segment."""

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
