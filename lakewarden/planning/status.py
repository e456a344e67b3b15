"""The status of scopes with pending rows: an operator's view of what is waiting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime

from lakewarden.access.rights import can
from lakewarden.catalog.model import Catalog
from lakewarden.delta.commit_log.damage import torn_error
from lakewarden.delta.history import history
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import check_whole
from lakewarden.errors import LakewardenError
from lakewarden.planning.pending import Pending, why_pending
from lakewarden.report import ScopeState
from lakewarden.scope import Scope
from lakewarden.state.floors.entries import NO_TABLE, OPERATIONS, Known
from lakewarden.target import ScopeTarget
from lakewarden.warehouse import Warehouse, find_table

_THREADS = 8

OPENED = 100
"""Scopes, the worst, whose tables are opened, so that damage shows; of the others the state knows enough."""


@dataclass(frozen=True)
class ScopeStatus:
    """One scope that needs something. Ages in seconds, sizes in bytes; files and bytes are those of its Delta table."""

    table: str
    user: str | None
    pending_rows: int
    pending_bytes: int
    oldest_pending_age: float | None
    """None where no row is pending."""
    oldest_pending: datetime | None
    version: int | None
    files: int | None
    """None, as `bytes`, where the scope was not looked at since the state was lost."""
    bytes: int | None
    last_operation: str | None
    error: str | None
    """Why the Delta table could not be read."""
    reason: str
    """Why the scope is listed."""


def status(warehouse: Warehouse, pending: Sequence[Pending], limit: int | None = None) -> list[ScopeStatus]:
    """The scopes with pending rows, the longest waiting first; at most `limit`."""
    now = warehouse.clock()
    catalog = warehouse.catalog.read()
    shown = list(pending[: len(pending) if limit is None else limit])
    with ThreadPoolExecutor(_THREADS) as pool:
        looked = list(pool.map(lambda one: _look(warehouse, catalog, one, now), shown[:OPENED]))
    return looked + _as_known(warehouse, catalog, shown[OPENED:], now)


def _look(warehouse: Warehouse, catalog: Catalog, one: Pending, now: datetime) -> ScopeStatus:
    """What is found in the scope's table."""
    state, last_operation, error = _cold(lambda: warehouse.target(catalog, one.scope))
    return replace(
        _waiting(catalog, one, now),
        version=state.version if state else None,
        files=state.files if state else 0,
        bytes=state.bytes if state else 0,
        last_operation=last_operation,
        error=error,
    )


def _as_known(warehouse: Warehouse, catalog: Catalog, pending: Sequence[Pending], now: datetime) -> list[ScopeStatus]:
    """What the state knows of the scopes."""
    users = {table: {one.user or "" for one in pending if one.table == table} for table in {one.table for one in pending}}
    flushed = {
        Scope(name, user)
        for name, those in users.items()
        if can((table := find_table(catalog, name)).type, "a scope per user")
        for user in warehouse.registry.known(table.id, those)
    }
    found: list[ScopeStatus] = []
    for one in pending:
        shown = _waiting(catalog, one, now)
        try:
            known = warehouse.target(catalog, one.scope).known
        except LakewardenError as error:
            found.append(replace(shown, error=error.message))
            continue
        if known is None and (one.user is None or one.scope in flushed):
            shown = replace(shown, files=None, bytes=None)
        found.append(shown if known is None else as_known(shown, known))
    return found


def as_known(shown: ScopeStatus, known: Known) -> ScopeStatus:
    """The status with what the state knows of the table."""
    if known.forgotten or known.version == NO_TABLE:
        return shown
    noted = known.upkeep
    return replace(
        shown,
        version=known.version,
        files=None if noted is None else noted.files,
        bytes=None if noted is None else noted.bytes,
        last_operation=(OPERATIONS[noted.operation] or None) if noted else None,
    )


def _waiting(catalog: Catalog, one: Pending, now: datetime) -> ScopeStatus:
    """The status without what is known of the table."""
    return ScopeStatus(
        table=str(one.table),
        user=one.user,
        pending_rows=one.rows,
        pending_bytes=one.bytes,
        oldest_pending_age=round((now - one.oldest).total_seconds(), 3),
        oldest_pending=one.oldest,
        version=None,
        files=0,
        bytes=0,
        last_operation=None,
        error=None,
        reason=why_pending(find_table(catalog, one.table).options.flush_policy, one, now),
    )


def _cold(target_of: Callable[[], ScopeTarget]) -> tuple[ScopeState | None, str | None, str | None]:
    """The Delta table's state and last operation; or why they are unknown, or why no flush proceeds. A fault hides no other
    scope."""
    try:
        target = target_of()
        table = open_scope(target)
        if table is None:
            check_whole(table, target.location)
            return None, None, None
        newest = history(target, 1, None)
        torn = None if table.torn is None else torn_error(target.location, table.torn).message
        return table.state(target.app_id), newest[0].operation if newest else None, torn
    except LakewardenError as error:
        return None, None, error.message
