"""Checks the rows of scopes that are in the log: that they can be read, and keep what other writers ask of a table's rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Table
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.row_rules import check_known
from lakewarden.errors import ConstraintViolation, Corrupt, LakewardenError, Unsupported
from lakewarden.log.garbled_chunks import garbled_of
from lakewarden.maintenance.check.scope import PENDING_ROWS, CheckedScope, Finding
from lakewarden.tables.strong_read import EVERYTHING, read_undrained
from lakewarden.tables.warehouse import Warehouse, find_table


def garbled_pending(warehouse: Warehouse, table: Table, users: Collection[str] | None) -> dict[str | None, Finding]:
    """Whose rows in the log cannot be read; of these users, or of all who have any."""
    log = warehouse.log(table)
    try:
        view = log.view(users)
        pending = list((view.pending if users is None else view.pending_of(users)).values())
    except LakewardenError:  # the finding on the log says it
        return {}
    wrong = {each.user: error for each, error in garbled_of(log, [each for one in pending for each in one.ranges]).items()}
    return {user or None: _as_finding(table, Scope(table.name, user or None), error) for user, error in wrong.items()}


def _as_finding(table: Table, scope: Scope, error: Corrupt) -> Finding:
    message = (
        f"{error.message}; no flush can take its rows until the object is put back whole, as from a backup;"
        f" `lakewarden repair {table.name}` goes on without them"
    )
    return Finding(str(scope), PENDING_ROWS, False, error.code, message)


def with_pending(warehouse: Warehouse, target: ScopeTarget, one: CheckedScope) -> CheckedScope:
    """Adds a finding where the table has such rules: reads the scope's log."""
    if one.ruled is None:
        return one
    wrong = ""
    try:
        log = warehouse.log(find_table(warehouse.catalog.read(), target.scope.table))
        rows = read_undrained(lambda: target, log, EVERYTHING, warehouse.cold)
        check_known(one.ruled, target.schema, rows, target.uri)
    except ConstraintViolation as error:
        wrong = (
            f"{error.message}; they are in the log, and the scope is not flushed until they are changed, or the rule is dropped"
        )
    except LakewardenError:  # the finding on the log, or the table, says it
        return one
    found = Finding(str(target.scope), "pending_rows_keep_rules", not wrong, Unsupported.code if wrong else "", wrong)
    return replace(one, findings=(*one.findings, found))
