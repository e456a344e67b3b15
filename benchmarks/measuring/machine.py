"""Describes the machine of a measurement in one line."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

_PACKAGES = {"pyspark": "Spark", "deltalake": "deltalake", "pyarrow": "Arrow", "duckdb": "DuckDB"}


def machine() -> str:
    """Cores, processor, memory, load and versions."""
    packages = ", ".join(f"{label} {version(name)}" for name, label in _PACKAGES.items())
    load = os.getloadavg()[0]
    return (
        f"{len(os.sched_getaffinity(0))} cores of {_processor()}, {_memory()} of memory, load {load:.1f} at the start; "
        f"Python {platform.python_version()}, {packages}"
    )


@contextmanager
def busy_cores() -> Iterator[Callable[[], float]]:
    """How many of the machine's cores worked while the block ran, on average; read it after the block."""
    begun, worked = perf_counter(), _worked()
    found: list[float] = []
    yield lambda: found[0]
    found.append((_worked() - worked) / (perf_counter() - begun))


def _worked() -> float:
    """Seconds of work of all cores since the machine's start."""
    user, nice, system, _idle, _iowait, *interrupts = Path("/proc/stat").read_text(encoding="utf-8").split("\n")[0].split()[1:8]
    return sum(map(int, (user, nice, system, *interrupts))) / os.sysconf("SC_CLK_TCK")


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.machine()


def _memory() -> str:
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / (1 << 30):.0f} GB"
