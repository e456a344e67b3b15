"""The bounds of a worker for queries."""

from __future__ import annotations

from dataclasses import dataclass

_RESERVE_BYTES = 128 << 20


@dataclass(frozen=True)
class QueryBounds:
    """The bounds of one worker."""

    memory_bytes: int
    threads: int


def overall(memory_bytes: int) -> int:
    """The bytes that a query may take in a worker whose DuckDB may use `memory_bytes`.

    DuckDB's own limit knows its buffers and hash tables, but not a function's strings and lists: there is half as much for these,
    and a fixed reserve.
    """
    return memory_bytes + memory_bytes // 2 + _RESERVE_BYTES
