"""The highest memory of a process."""

from __future__ import annotations

import re
from pathlib import Path

_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


def peak_bytes(process: int | str = "self") -> int:
    """The most bytes of a process that were in memory at one time; 0 of one that has ended.

    Not `ru_maxrss` of getrusage(2): exec(2) hands a process the peak of the one that started it, so that a small child of a
    large parent counts as large.
    """
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = _PEAK.search(status)
    return int(found[1]) << 10 if found else 0  # a zombie has no such line
