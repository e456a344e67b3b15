"""Reading one scope: cold rows alone, or hot and cold merged, each row once whatever commits meanwhile."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa

from lakewarden.delta.rows import empty_rows, merged, read_rows
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict
from lakewarden.log0.view import HeaderCache, after, read_view, rows_of
from lakewarden.report import ScopeTarget
from lakewarden.storage.objects import Missing, ObjectStore

Freshness = Literal["strong", "eventual"]

_ATTEMPTS = 20
"""Rounds in which an object may vanish under a reader, each because a flush finished; more means something else."""


def read_cold(target: ScopeTarget) -> pa.Table:
    """The scope's Delta table as of its last flush: the newest schema's columns and `_seq`."""
    table = ScopeTable.open(target.uri)
    return empty_rows(target.schema) if table is None else read_rows(table, target.schemas)


def read_strong(target: ScopeTarget, state: ObjectStore, log_id: str, headers: HeaderCache) -> pa.Table:
    """Hot and cold rows, one per key; tombstones hide.

    The log is read before the Delta table: the other way round, a flush and its cleanup in between would hide rows.
    """
    for _ in range(_ATTEMPTS):
        try:
            return _read_once(target, state, log_id, headers)
        except Missing:
            continue  # a flush finished while we read, so the rows are in the Delta table by now
    raise Conflict(f"{target.scope} changed {_ATTEMPTS} times while it was read; try again")


def _read_once(target: ScopeTarget, state: ObjectStore, log_id: str, headers: HeaderCache) -> pa.Table:
    pending = read_view(state, log_id, headers).pending.get(target.scope.user or "")
    hot = None if pending is None else rows_of(state, pending, target.schemas)
    table = ScopeTable.open(target.uri)
    cold = empty_rows(target.schema) if table is None else read_rows(table, target.schemas)
    if hot is None:
        return cold
    watermark = None if table is None else table.watermark(target.app_id)
    return merged(cold, after(hot, watermark), target.schema.primary_key)
