"""The bound on the memory of a worker: the kernel refuses allocations above it, which DuckDB and Python report as errors."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

_RESERVE_BYTES = 128 << 20
_STATM = Path("/proc/self/statm")
_DATA = 5
"""The place of data and stacks among the figures there, which are pages."""


@dataclass(frozen=True)
class Memory:
    """`begun` is what the process took before its first query. `figures` stays open: opening it takes longer than reading it."""

    figures: int | None
    begun: int
    allowed: int

    @classmethod
    def bounded(cls, memory_bytes: int) -> Memory:
        """Bounds this process. What it maps from elsewhere does not count, so rows that it is given are free.

        DuckDB's own limit knows its buffers and hash tables, but not a function's strings and lists: there is half as much
        for these, and a fixed reserve. Only Linux counts so; elsewhere there is DuckDB's limit alone.
        """
        if not _STATM.exists():
            return cls(None, 0, overall(memory_bytes))
        figures = os.open(_STATM, os.O_RDONLY)
        memory = cls(figures, _data_bytes(figures), overall(memory_bytes))
        most = memory.begun + memory.allowed
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        return memory

    def grown(self) -> bool:
        """Whether half of what is allowed remains taken after a query: the next one would be short of it."""
        return self.figures is not None and _data_bytes(self.figures) - self.begun > self.allowed // 2


def overall(memory_bytes: int) -> int:
    """The bytes that a query may take in a worker whose DuckDB may use `memory_bytes`."""
    return memory_bytes + memory_bytes // 2 + _RESERVE_BYTES


def _data_bytes(figures: int) -> int:
    return int(os.pread(figures, 200, 0).split()[_DATA]) * os.sysconf("SC_PAGE_SIZE")
