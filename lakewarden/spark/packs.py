"""Plans which scopes a task reads, by what the state knows of their bytes: no scope is looked at."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import cast

import numpy as np

from lakewarden.catalog.access import can
from lakewarden.catalog.model import Table
from lakewarden.catalog.state.floor import RECENT_SECONDS, floor_at
from lakewarden.log.objects.log_view import LogView
from lakewarden.tables.freshness import Freshness
from lakewarden.tables.warehouse import Warehouse

_SCOPE = 64 << 10
"""Bytes that take about as long to read as it takes to open a scope."""

_SMALLEST = 2 << 20
"""Below this a task's own cost is more than its work."""

_READ_PER_TASK_BYTE = 4
"""A task that reads holds less than one that flushes, which merges and writes: it takes more for the same memory."""

_TASKS_PER_CORE = 4
"""Where there is enough work: no core idles long while the last task runs."""


def scope_packs(
    warehouse: Warehouse, table: Table, users: Collection[str] | None, freshness: Freshness, cores: int
) -> list[tuple[str, ...]]:
    """The users whose scopes a task reads, for each task.

    Args:
        users: those wanted; None for every user who has rows.
    """
    view = None if freshness == "eventual" else warehouse.log(table).view(users)
    found = sorted(_with_rows(warehouse, table, freshness, view) if users is None else users)
    return _divided(found, _weights(warehouse, table, found, view), warehouse.settings.spark.task_bytes, cores)


def packed(users: Sequence[str], sizes: Mapping[str, int], task_bytes: int, cores: int) -> list[tuple[str, ...]]:
    """The users for each task, by the bytes that are read of each."""
    return _divided(users, np.array([_SCOPE + sizes[user] for user in users], np.int64), task_bytes, cores)


def part_bytes(total: int, task_bytes: int, cores: int) -> int:
    """Bytes of the log for each task that reads a part of one scope's changes. It looks through what came before its part, too:
    one task for each core, as long as that fits."""
    return min(_READ_PER_TASK_BYTE * task_bytes, max(total // cores, _SMALLEST))


def _divided(users: Sequence[str], weights: np.ndarray, task_bytes: int, cores: int) -> list[tuple[str, ...]]:
    fair = int(weights.sum()) // (_TASKS_PER_CORE * cores) + 1
    most = min(_READ_PER_TASK_BYTE * task_bytes, max(fair, _SMALLEST))
    ends = np.flatnonzero(np.diff((np.cumsum(weights) - weights) // most)) + 1
    return [tuple(users[start:end]) for start, end in pairwise([0, *ends.tolist(), len(users)]) if end > start]


def _with_rows(warehouse: Warehouse, table: Table, freshness: Freshness, view: LogView | None) -> frozenset[str]:
    pending = frozenset[str]() if view is None else frozenset(cast("list[str]", view.counts.users.to_pylist()))
    cold = can(table.type, "cold tier") and freshness != "oltp_only"
    return warehouse.registry.users(table.id) | pending if cold else pending


def _weights(warehouse: Warehouse, table: Table, users: Sequence[str], view: LogView | None) -> np.ndarray:
    """Bytes by user, in the table and in the log, with the cost of opening a scope."""
    hot = {} if view is None else dict(zip(view.counts.users.to_pylist(), view.counts.bytes.tolist(), strict=True))
    cold = _known(warehouse, table, users)
    return np.array([_SCOPE + hot.get(user, 0) + cold.get(user, 0) for user in users], np.int64)


def _known(warehouse: Warehouse, table: Table, users: Sequence[str]) -> Mapping[str, int]:
    if not (warehouse.identifies and can(table.type, "cold tier")):
        return {}
    marks = {user: warehouse.erasures.mark(user) for user in users}
    known = floor_at(warehouse.floor(table)).known(marks.values(), RECENT_SECONDS)
    return {user: found.upkeep.bytes for user, mark in marks.items() if (found := known.get(mark)) and found.upkeep}
