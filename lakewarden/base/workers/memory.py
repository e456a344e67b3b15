"""The bound on the memory of a worker: the kernel refuses allocations above it, which Python and libraries report as errors."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

_STATM = Path("/proc/self/statm")
_DATA = 5
"""The place of data and stacks among the figures there, which are pages."""


@dataclass(frozen=True)
class ProcessMemory:
    """`begun` is what the process took before its first call. `figures` stays open: opening it takes longer than reading it."""

    figures: int | None
    begun: int
    allowed: int

    @classmethod
    def bounded(cls, allowed: int) -> ProcessMemory:
        """Bounds this process to so many bytes more than it takes now, on Linux. What it maps from elsewhere does not count, so
        rows that it is given are free."""
        if not _STATM.exists():
            return cls(None, 0, allowed)
        figures = os.open(_STATM, os.O_RDONLY)
        memory = cls(figures, _data_bytes(figures), allowed)
        most = memory.begun + memory.allowed
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        return memory

    def grown(self) -> bool:
        """Whether half of what is allowed remains taken after a call: the next one would be short of it."""
        return self.figures is not None and _data_bytes(self.figures) - self.begun > self.allowed // 2


def _data_bytes(figures: int) -> int:
    return int(os.pread(figures, 200, 0).split()[_DATA]) * os.sysconf("SC_PAGE_SIZE")
