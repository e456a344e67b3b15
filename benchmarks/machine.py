"""What a figure was measured on, in one line."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

_PACKAGES = {"pyspark": "Spark", "deltalake": "deltalake", "pyarrow": "Arrow", "duckdb": "DuckDB"}


def machine() -> str:
    """Cores, processor, memory, load and versions."""
    packages = ", ".join(f"{label} {version(name)}" for name, label in _PACKAGES.items())
    load = os.getloadavg()[0]
    return (
        f"{len(os.sched_getaffinity(0))} cores of {_processor()}, {_memory()} of memory, load {load:.1f} at the start; "
        f"Python {platform.python_version()}, {packages}"
    )


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.machine()


def _memory() -> str:
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / (1 << 30):.0f} GB"
