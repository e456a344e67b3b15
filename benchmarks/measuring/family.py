"""Processor time of this process and of all that it started: Spark's JVM, and the Python workers below it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

from benchmarks.measuring.timing import quiet_seconds

P = ParamSpec("P")


def seconds_and_processor(work: Callable[P, object], *given: P.args, **named: P.kwargs) -> tuple[float, float]:
    """How long the call takes, after a sync, and the processor time of the whole family meanwhile."""
    before = _processor_time()
    taken = quiet_seconds(work, *given, **named)
    return taken, _processor_time() - before


def _processor_time() -> float:
    """Seconds, of those that ended and were waited for, too."""
    parents, ticks = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                _, _, rest = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
            except OSError:
                continue  # it ended
            fields = rest.split()
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    family = {os.getpid()}
    while found := {child for child, parent in parents.items() if parent in family} - family:
        family |= found
    return sum(ticks[member] for member in family) / os.sysconf("SC_CLK_TCK")
