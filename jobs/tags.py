"""Tags of runs: by these the sensors and the queue's limits know them."""

from __future__ import annotations

from typing import Literal

OPERATION = "lakewarden/operation"

SCOPE = "lakewarden/scope"
"""The scope of a run that has only one: the queue runs one of those at a time (dagster.yaml)."""

SEEN_UNTIL = "lakewarden/seen_until"
"""Of a run that the flush sensor asked for: the log's time up to which it had seen the rows of its scopes."""

Importance = Literal[
    "restore", "erase", "flush", "export", "evict", "queued", "record", "compact", "optimize", "vacuum", "check", "move"
]

_PRIORITY: dict[Importance, int] = {
    "restore": 20,  # somebody waits for it
    "erase": 20,
    "flush": 10,  # rows wait in the log
    "export": 10,
    "evict": 10,  # soon done, and every minute again
    "queued": 5,
    "record": 5,
    "move": 5,
    "compact": 0,
    "optimize": -5,
    "vacuum": -10,
    "check": -10,
}


def job_tags(operation: Importance) -> dict[str, str]:
    return {OPERATION: operation, "dagster/priority": str(_PRIORITY[operation])}
