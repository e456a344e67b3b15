"""What checks and operations found broken, kept in the state until something finds it right (`catalog.state.failed_checks`).

A check that passes lifts all that it looks at, and the failures of operations. So does the check of each broken scope that an
operation has changed, which comes behind it: what a repair or a restore mends is known to be mended at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

from lakewarden.base.quantities import grouped
from lakewarden.base.scope import Scope
from lakewarden.catalog.access import can
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.operations import SPECS, Operation
from lakewarden.catalog.report import Fault, ScopeReport
from lakewarden.catalog.state.failed_checks import LATEST, UNREADABLE, CheckResult
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import StorageRefused, StorageUnavailable
from lakewarden.log.position import NOTHING
from lakewarden.maintenance.check.scope import (
    PENDING_ROWS,
    SCOPE_CHECKS,
    SECOND_OPINION,
    CheckedScope,
    Finding,
    check_scopes,
    log_end,
    target_of,
    task_of,
)
from lakewarden.storage.paths import encode
from lakewarden.tables.fanout import Run
from lakewarden.tables.warehouse import Warehouse, cold_tables

BROKEN = ("CORRUPT", "UNSUPPORTED", "INTERNAL")
"""Codes of faults that stay until something is mended; others are of the request, or of the moment."""


def results_of(target: ScopeTarget, one: CheckedScope, garbled: Finding | None = None) -> list[CheckResult]:
    """What a check of the scope shows, to be recorded. `garbled`: its rows in the log cannot be read."""
    found = results_of_table(target, one)
    if garbled is None:
        return [*found, CheckResult(target.scope.user, PENDING_ROWS, LATEST, passed=True)]
    theirs = [each for each in found if each.check != "flush"]  # a flush fails again
    return [
        *theirs,
        CheckResult(target.scope.user, garbled.check, UNREADABLE, False, garbled.code, nameless(garbled.message, target)),
    ]


def results_of_table(target: ScopeTarget, one: CheckedScope) -> list[CheckResult]:
    """The same without the scope's rows in the log, where these were not looked at."""
    user = target.scope.user
    if all(finding.passed for finding in one.findings):
        version = LATEST if one.version is None else one.version
        left_out = {SECOND_OPINION} - {finding.check for finding in one.findings}
        right = [CheckResult(user, name, version, passed=True) for name in SCOPE_CHECKS if name not in left_out]
        lifted = [name for name in SPECS if name != "flush" or one.ruled is None]  # rows in the log may still break a rule
        return right + [CheckResult(user, name, LATEST, passed=True) for name in lifted]
    version = UNREADABLE if one.version is None else one.version
    return [
        CheckResult(user, each.check, version, each.passed, each.code, nameless(each.message, target))
        for each in one.findings
        if each.code in BROKEN or (each.passed and one.version is not None and each.check in SCOPE_CHECKS)
    ]


def remember(warehouse: Warehouse, run: Run, operation: Operation, reports: Sequence[ScopeReport], *, rechecks: bool) -> None:
    """Keeps which scopes an operation found broken.

    Args:
        rechecks: whether it spends a request for each table to check those again that were broken before and that it changed.
    """
    relevant = (one for one in reports if (one.fault and one.fault.code in BROKEN) or (rechecks and one.outcome == "done"))
    found = grouped(relevant, lambda report: report.scope.table)
    if not found:
        return
    catalog = warehouse.catalog.last_read()
    tables = {table.name: table for table in cold_tables(catalog)}
    for name, theirs in found.items():
        if name in tables:
            with suppress(StorageUnavailable, StorageRefused):  # the reports say all the same what failed
                _remember(warehouse, run, catalog, tables[name], operation, theirs)


def _remember(
    warehouse: Warehouse, run: Run, catalog: Catalog, table: Table, operation: Operation, reports: Iterable[ScopeReport]
) -> None:
    faults = {
        report.scope.user: report.fault
        for report in reports
        if (report.scope.user is not None) == can(table.type, "a scope per user")  # otherwise of the table's log
    }
    target = partial(target_of, warehouse, catalog, table)
    results = [_failed(target(user), operation, fault) for user, fault in faults.items() if fault is not None]
    changed = [user for user, fault in faults.items() if fault is None]
    if changed and (before := warehouse.failed_checks.of(table.id)):
        again = [target(user) for user in changed if warehouse.erasures.mark(user or "") in before]
        results += _rechecked(warehouse, run, table, again)
    if results:
        warehouse.failed_checks.record(table.id, results)


def recheck(warehouse: Warehouse, run: Run, scopes: Sequence[Scope]) -> None:
    """Checks scopes that a look found broken which was no operation, and keeps what is wrong with them."""
    catalog = warehouse.catalog.last_read()
    for table in cold_tables(catalog):
        users = {one.user for one in scopes if one.table == table.name and (one.user is None) == (table.type == "SHARED")}
        with suppress(StorageUnavailable, StorageRefused):  # whoever looked says all the same what is broken
            if results := _rechecked(warehouse, run, table, [target_of(warehouse, catalog, table, user) for user in users]):
                warehouse.failed_checks.record(table.id, results)


def _failed(target: ScopeTarget, operation: Operation, fault: Fault) -> CheckResult:
    watermark = NOTHING if target.known is None else target.known.watermark
    return CheckResult(target.scope.user, operation, watermark, False, fault.code, nameless(fault.message, target))


def _rechecked(warehouse: Warehouse, run: Run, table: Table, targets: Sequence[ScopeTarget]) -> list[CheckResult]:
    if not targets:
        return []
    end = log_end(warehouse, table)
    checked = check_scopes(warehouse, run, [task_of(warehouse, table, target, end) for target in targets])
    return [result for task, one in checked for result in results_of_table(task.target, one)]


_PLACE, _SCOPE = "{place}", "{scope}"


def nameless(message: str, target: ScopeTarget) -> str:
    """The message without the scope's name and place, which `named` puts back; empty where it names the user elsewhere."""
    text = message.replace(target.uri, _PLACE).replace(str(target.scope), _SCOPE)
    user = target.scope.user
    names = [] if user is None else [user, *(encode(user, folds_case=folds) for folds in (False, True))]
    return "" if any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) for name in names) else text


def named(text: str, target: ScopeTarget) -> str:
    return text.replace(_PLACE, target.uri).replace(_SCOPE, str(target.scope))
