"""Names of jobs: every operation that somebody asks for has an id, which its commits carry."""

from __future__ import annotations

from lakewarden.clock import Clock, NewId, to_millis
from lakewarden.report import Operation

_PREFIX: dict[Operation, str] = {
    "flush": "FL",
    "compact": "CO",
    "optimize": "OP",
    "vacuum": "VA",
    "restore": "RS",
    "drop": "CL",
    "export": "UE",
    "import": "UI",
    "erase": "UC",
    "evict": "SE",
    "move": "MV",
}
"""Prefixes of kalamdb.md 3.3 where it has one."""


def new_job_id(operation: Operation, clock: Clock, new_id: NewId) -> str:
    """`FL-` and so on, then the moment in milliseconds and eight random digits: unique, and sorted by time."""
    return f"{_PREFIX[operation]}-{to_millis(clock()):012x}-{new_id()[:8]}"
