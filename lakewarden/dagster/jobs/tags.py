"""Tags of runs, which the sensors and the queue's limits read."""

from __future__ import annotations

from typing import Literal

OPERATION = "lakewarden/operation"

SCOPE = "lakewarden/scope"
"""The scope of a run that has only one: the queue runs one run of a scope at a time (dagster.yaml)."""

SEEN_UNTIL = "lakewarden/seen_until"
"""On a run that the flush sensor requested: the log's time up to which the sensor had seen the scopes' rows."""

SLOT = "lakewarden/slot"
"""Which slots of the queue a run needs: dagster.yaml limits the runs of each value."""

SPARK = "spark"
"""One JVM at a time."""
LIGHT = "light"
"""Work in the run's own process: it does not wait behind a JVM."""

Importance = Literal[
    "restore", "erase", "flush", "export", "evict", "queued", "record", "compact", "optimize", "vacuum", "check", "move", "prune"
]

_PRIORITY: dict[Importance, int] = {
    "restore": 20,  # a user waits for it
    "erase": 20,
    "flush": 10,  # rows wait in the log
    "export": 10,
    "evict": 10,  # quick, and repeated every minute
    "queued": 5,
    "record": 5,
    "move": 5,
    "compact": 0,
    "optimize": -5,
    "vacuum": -10,
    "check": -10,
    "prune": -10,
}


_ON_SPARK: frozenset[Importance] = frozenset({"flush", "queued", "move", "compact", "optimize", "vacuum"})
"""Those that may need a JVM: over many scopes, or over a large one. A run of few may be tagged `LIGHT` instead."""


def job_tags(operation: Importance) -> dict[str, str]:
    slot = SPARK if operation in _ON_SPARK else LIGHT
    return {OPERATION: operation, SLOT: slot, "dagster/priority": str(_PRIORITY[operation])}
