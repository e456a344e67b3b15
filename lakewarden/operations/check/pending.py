"""Checks the rows of a scope that are in the log against what other writers ask of its table's rows."""

from __future__ import annotations

from dataclasses import replace

from lakewarden.delta.row_rules import check_known
from lakewarden.errors import ConstraintViolation, LakewardenError, Unsupported
from lakewarden.operations.check.scope import CheckedScope, Finding
from lakewarden.operations.reading.scope import EVERYTHING, read_undrained
from lakewarden.target import ScopeTarget
from lakewarden.warehouse import Warehouse, find_table


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
