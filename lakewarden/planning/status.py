"""The status of scopes with pending rows: an operator's view of what is waiting."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from lakewarden.catalog.model import Catalog
from lakewarden.delta.commit_log.damage import torn_error
from lakewarden.delta.history import history
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import check_whole
from lakewarden.errors import LakewardenError
from lakewarden.planning.pending import Pending
from lakewarden.report import ScopeState
from lakewarden.target import ScopeTarget
from lakewarden.warehouse import Warehouse

_THREADS = 8


@dataclass(frozen=True)
class ScopeStatus:
    """One scope with pending rows. Ages in seconds, sizes in bytes; files and bytes are those of its Delta table."""

    table: str
    user: str | None
    pending_rows: int
    pending_bytes: int
    oldest_pending_age: float
    oldest_pending: datetime
    version: int | None
    files: int
    bytes: int
    last_operation: str | None
    error: str | None
    """Why the Delta table could not be read."""


def status(warehouse: Warehouse, pending: Sequence[Pending]) -> list[ScopeStatus]:
    """Every scope with pending rows, the longest waiting first."""
    now = warehouse.clock()
    catalog = warehouse.catalog.read()
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(lambda one: _look(warehouse, catalog, one, now), sorted(pending, key=lambda one: one.oldest)))


def _look(warehouse: Warehouse, catalog: Catalog, one: Pending, now: datetime) -> ScopeStatus:
    state, last_operation, error = _cold(warehouse.target(catalog, one.scope))
    return ScopeStatus(
        table=str(one.table),
        user=one.user,
        pending_rows=one.rows,
        pending_bytes=one.bytes,
        oldest_pending_age=round((now - one.oldest).total_seconds(), 3),
        oldest_pending=one.oldest,
        version=state.version if state else None,
        files=state.files if state else 0,
        bytes=state.bytes if state else 0,
        last_operation=last_operation,
        error=error,
    )


def _cold(target: ScopeTarget) -> tuple[ScopeState | None, str | None, str | None]:
    """The Delta table's state and last operation; or why they are unknown, or why no flush proceeds. A fault hides no other
    scope."""
    try:
        table = open_scope(target)
        if table is None:
            check_whole(table, target.location)
            return None, None, None
        newest = history(target, 1, None)
        torn = None if table.torn is None else torn_error(target.location, table.torn).message
        return table.state(target.app_id), newest[0].operation if newest else None, torn
    except LakewardenError as error:
        return None, None, error.message
