"""The status of scopes that are broken or have pending rows: an operator's view of what is wrong, and what is waiting.

Which are known to be broken, why, and what mends them, says the state alone, which opens none.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from lakewarden.base.scope import Scope
from lakewarden.base.threads import at_once
from lakewarden.catalog.access import can
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.operations import SPECS
from lakewarden.catalog.state.failed_checks import EXPECTATION, StandingFailure
from lakewarden.catalog.state.floor_entries import NO_TABLE, OPERATIONS, KnownState
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.damage import torn_error
from lakewarden.delta.reading.history import history
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import check_whole
from lakewarden.errors import Corrupt, LakewardenError
from lakewarden.log.position import NOTHING
from lakewarden.maintenance.check.memory import BROKEN, named, nameless
from lakewarden.maintenance.planning.pending import ScopeBacklog, why_pending
from lakewarden.maintenance.plans.census import users_of
from lakewarden.tables.warehouse import Warehouse, find_table

_OF_ROWS = ("one_row_per_key", "no_null_in_key", "rows_in_their_bucket", "columns_as_declared", "log_and_table_agree")
"""Checks that fail for what another program committed: a repair, which brings back what is missing, does nothing about it."""

_VARIES = re.compile(r"[0-9a-f]{8,}|[0-9]+")

_OF_VALUES = frozenset(_OF_ROWS) - {"log_and_table_agree"}


def is_broken(check: str) -> bool:
    """Whether a failure is of the scope as a whole: it cannot be read, or an operation cannot work on it. Other checks find rows
    or columns that are not as they should be."""
    return check not in _OF_VALUES and not check.startswith(EXPECTATION)


@dataclass(frozen=True)
class BrokenScope:
    """A scope that a check, or an operation, found broken: which, why, and the command that mends it or shows more."""

    scope: Scope
    check: str
    code: str
    reason: str
    command: str
    kind: str
    """The reason without what differs from scope to scope: their names, ids of files, numbers."""


@dataclass(frozen=True)
class BrokenScopes:
    """Those of one table, by user."""

    warehouse: Warehouse
    catalog: Catalog
    table: Table
    failed: tuple[tuple[Scope, StandingFailure], ...]
    """Of each, the newest failure."""
    error: Corrupt | None = None
    """Why they are not known: something is broken, and the list of the table's users cannot be read."""

    @classmethod
    def of(cls, warehouse: Warehouse, catalog: Catalog, table: Table) -> BrokenScopes:
        """One listing; users are looked up only where something is broken."""
        failed = warehouse.failed_checks.of(table.id)
        try:
            by_user = sorted(users_of(warehouse, table, failed).items(), key=lambda one: one[1] or "")
        except Corrupt as error:
            return cls(warehouse, catalog, table, (), error)
        scopes = ((Scope(table.name, user), failed[mark]) for mark, user in by_user)
        standing = ((scope, _standing(warehouse, catalog, table, scope, found)) for scope, found in scopes)
        return cls(warehouse, catalog, table, tuple((scope, found[-1]) for scope, found in standing if found))

    def __len__(self) -> int:
        return len(self.failed)

    def reasons_of(self, failed: Sequence[tuple[Scope, StandingFailure]]) -> list[BrokenScope]:
        """What is known of these: one read for each, some at once."""
        return at_once(lambda one: self._broken(*one), failed)

    def _broken(self, scope: Scope, failure: StandingFailure) -> BrokenScope:
        mark = self.warehouse.erasures.mark(scope.user or "")
        cause = self.warehouse.failed_checks.cause(self.table.id, mark, failure)
        target = self.warehouse.bare_target(self.catalog, self.table, scope.user)
        said = named(cause.reason, target) or f"it is {cause.code}"
        what = f"{failure.check} failed" if failure.check in SPECS else f"failed check {failure.check}"
        command, kind = command_for(scope, failure.check, cause.code), kind_of(cause.reason, target)
        return BrokenScope(scope, failure.check, cause.code, f"{what}: {said}", command, kind)


def _standing(
    warehouse: Warehouse, catalog: Catalog, table: Table, scope: Scope, found: Sequence[StandingFailure]
) -> Sequence[StandingFailure]:
    """The failures, oldest first, without that of a flush if rows were flushed since."""
    flushed = NOTHING
    if any(each.check == "flush" for each in found):
        with suppress(Corrupt):  # the floor cannot be read, and nothing says that it succeeded
            known = warehouse.target_of(catalog, table, scope.user).known
            flushed = NOTHING if known is None else known.watermark
    left = [each for each in found if each.check != "flush" or each.version >= flushed]
    return sorted(left, key=lambda each: each.at)


def kind_of(reason: str, target: ScopeTarget) -> str:
    """The reason without what differs from scope to scope."""
    return _VARIES.sub("#", nameless(reason, target) or reason)


def command_for(scope: Scope, check: str, code: str) -> str:
    """What mends such a failure, or shows how."""
    whose = f"{scope.table}" if scope.user is None else f"{scope.table} --user {shlex.quote(scope.user)}"
    if check.startswith(EXPECTATION):
        return f"lakewarden history {whose}"
    if check == "not_frozen":
        return f"lakewarden move {scope.table} --cancel"
    if code == "INTERNAL" or code not in BROKEN:
        return "lakewarden check"
    return f"lakewarden {'history' if code == 'UNSUPPORTED' or check in _OF_ROWS else 'repair'} {whose}"


_NO_FAULTS: Mapping[str, LakewardenError] = {}

OPENED = 100
"""Scopes, the worst, whose tables are opened, so that damage shows; of the others the state knows enough."""


@dataclass(frozen=True, kw_only=True)
class ScopeStatus:
    """One scope that needs something; by itself, as if it had no pending row and no table. Ages in seconds, sizes in bytes; files
    and bytes are those of its Delta table."""

    table: str
    user: str | None
    pending_rows: int = 0
    pending_bytes: int = 0
    oldest_pending_age: float | None = None
    """None where no row is pending."""
    oldest_pending: datetime | None = None
    version: int | None = None
    files: int | None = 0
    """None, as `bytes`, where the scope was not looked at since the state was lost."""
    bytes: int | None = 0
    last_operation: str | None = None
    error: str | None = None
    """Why the Delta table could not be read."""
    reason: str
    """Why the scope is listed."""
    code: str | None = None
    """That of the error, where the scope, or for a table the log, is broken; then `reason` says what is."""
    command: str | None = None
    """What mends that, or shows more."""


def status(
    warehouse: Warehouse,
    catalog: Catalog,
    pending: Sequence[ScopeBacklog],
    limit: int | None = None,
    broken: Sequence[BrokenScopes] = (),
    faults: Mapping[str, LakewardenError] = _NO_FAULTS,
) -> list[ScopeStatus]:
    """The scopes that are broken, then those with pending rows, the longest waiting first; at most `limit`.

    Args:
        catalog: that whose tables the pending scopes are of.
        faults: by log id, why a table's log cannot be read.
    """
    now = warehouse.clock()
    shown = list(pending[: len(pending) if limit is None else limit])
    looked = at_once(lambda one: _look(warehouse, catalog, one, now), shown[:OPENED])
    waiting = looked + _as_known(warehouse, catalog, shown[OPENED:], now)
    red = {(str(one.scope.table), one.scope.user): one for each in broken for one in each.reasons_of(each.failed[:limit])}
    known = {(one.table, one.user): one for one in waiting}
    found = [_log_status(each.table, fault) for each in broken if (fault := faults.get(each.table.log_id) or each.error)]
    for key, one in red.items():
        listed = known.get(key) or _without_rows(warehouse, catalog, one)
        found.append(replace(listed, reason=one.reason, code=one.code, command=one.command))
    others = [one for key, one in known.items() if key not in red]
    return sorted(found + others, key=lambda one: one.code is None)[:limit]


def _log_status(table: Table, fault: LakewardenError) -> ScopeStatus:
    """That of a table whose log, or list of users, cannot be read."""
    said, command = fault.message, command_for(Scope(table.name), "log", fault.code)
    return ScopeStatus(table=str(table.name), user=None, error=said, reason=said, code=fault.code, command=command)


def _without_rows(warehouse: Warehouse, catalog: Catalog, one: BrokenScope) -> ScopeStatus:
    """The status of a scope that is listed for what is wrong alone."""
    shown = ScopeStatus(table=str(one.scope.table), user=one.scope.user, reason=one.reason)
    try:
        known = warehouse.target(catalog, one.scope).known
    except LakewardenError as error:
        return replace(shown, error=error.message)
    return shown if known is None else as_known(shown, known)


def _ill(shown: ScopeStatus, scope: Scope, error: LakewardenError) -> ScopeStatus:
    """The status of a scope that could not be read: broken, unless it is the storage that is away."""
    shown = replace(shown, error=error.message)
    if error.code not in BROKEN:
        return shown
    return replace(shown, reason=error.message, code=error.code, command=command_for(scope, "readable", error.code))


def _look(warehouse: Warehouse, catalog: Catalog, one: ScopeBacklog, now: datetime) -> ScopeStatus:
    """What is found in the scope's table; or why it is unknown, or why no flush proceeds. A fault hides no other scope."""
    shown = _waiting(catalog, one, now)
    try:
        target = warehouse.target(catalog, one.scope)
        table = open_scope(target)
        if table is None:
            check_whole(table, target.location)
            return shown
        newest, state = history(target, 1, None), table.state(target.app_id)
        last = newest[0].operation if newest else None
        shown = replace(shown, version=state.version, files=state.files, bytes=state.bytes, last_operation=last)
        return shown if table.torn is None else _ill(shown, one.scope, torn_error(target.location, table.torn))
    except LakewardenError as error:
        return _ill(shown, one.scope, error)


def _as_known(warehouse: Warehouse, catalog: Catalog, pending: Sequence[ScopeBacklog], now: datetime) -> list[ScopeStatus]:
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
            found.append(_ill(shown, one.scope, error))
            continue
        # It has a table of which nothing is noted: its files are unknown, not none.
        if known is None and (one.user is None or one.scope in flushed):
            shown = replace(shown, files=None, bytes=None)
        found.append(shown if known is None else as_known(shown, known))
    return found


def as_known(shown: ScopeStatus, known: KnownState) -> ScopeStatus:
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


def _waiting(catalog: Catalog, one: ScopeBacklog, now: datetime) -> ScopeStatus:
    """The status without what is known of the table."""
    return ScopeStatus(
        table=str(one.table),
        user=one.user,
        pending_rows=one.rows,
        pending_bytes=one.bytes,
        oldest_pending_age=round(one.age(now), 3),
        oldest_pending=one.oldest,
        reason=why_pending(find_table(catalog, one.table).options.flush_policy, one, now),
    )
