"""Which scopes are known to be broken, why, and what mends them: from the state alone, opening none."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from lakewarden.base.scope import Scope
from lakewarden.base.threads import at_once
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.operations import SPECS
from lakewarden.catalog.state.failed_checks import EXPECTATION, StandingFailure
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import Corrupt
from lakewarden.log.position import NOTHING
from lakewarden.maintenance.check.memory import BROKEN, named, nameless
from lakewarden.maintenance.plans.census import users_of
from lakewarden.tables.warehouse import Warehouse

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
