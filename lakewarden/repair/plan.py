"""Plans of repairs: a line for each scope, log and floor that is damaged; applied where what would be done is still the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakewarden.connection import Location
from lakewarden.errors import Moved
from lakewarden.operations.fanout import Run
from lakewarden.operations.plans.value import Plan, PlannedScope
from lakewarden.repair.report import Repaired
from lakewarden.repair.run import Key, Request, key_of, repair
from lakewarden.report import ScopeReport
from lakewarden.scope import Scope
from lakewarden.warehouse import Warehouse, find_table


def as_report(warehouse: Warehouse, one: Repaired) -> ScopeReport:
    """What of a repair a plan keeps: what is wrong, and what would come of it."""
    lost = {} if one.rows_lost is None else {"rows_lost": one.rows_lost}
    counts = {"rows_recovered": one.rows_recovered, "rows_quarantined": one.rows_quarantined, "rows": one.rows}
    return ScopeReport(
        one.scope,
        "repair",
        one.outcome,
        Location(_uri(warehouse, one)),
        one.reason,
        one.version,
        parameters={"subject": one.subject, "watermark": str(one.watermark)},
        metrics=counts | lost,
        fault=one.fault,
        files=one.put_aside,
    )


def _uri(warehouse: Warehouse, one: Repaired) -> str:
    catalog = warehouse.catalog.read()
    table = find_table(catalog, one.scope.table)
    if one.subject != "scope":
        return Location(warehouse.state.uri).below(warehouse.log(table).home).uri
    return warehouse.bare_target(catalog, table, one.scope.user).uri


def apply_repair(warehouse: Warehouse, run: Run, plan: Plan, job_id: str) -> list[ScopeReport]:
    """Repairs what was planned and is still as it was planned; a report for each line. What is sound by now is `skipped`.

    Raises:
        NotFound, StorageUnavailable: as `repair`.
    """
    request = Request(tuple(sorted({line.table for line in plan.scopes})), plan.request.user, restored=plan.request.restored)
    seen = repair(warehouse, run, replace(request, dry_run=True), job_id)
    now = {key_of(one): _line(warehouse, one) for one in seen if one.outcome == "planned"}
    lines = {_key(line): line for line in plan.scopes}
    same = {key for key, line in lines.items() if now.get(key) == line}
    found = repair(warehouse, run, request, job_id, frozenset(same)) if same else []
    done = {key_of(one): as_report(warehouse, one) for one in found if key_of(one) in same}
    return [done.get(key) or _refused(warehouse, line, now) for key, line in lines.items()]


def _refused(warehouse: Warehouse, line: PlannedScope, now: Mapping[Key, PlannedScope]) -> ScopeReport:
    there, at = now.get(_key(line)), warehouse.clock()
    if there is None:
        return replace(line.done("repair", at, "nothing of what was planned is wrong any more"), outcome="skipped")
    why = f"{line.scope} was planned to be repaired otherwise ({line.summary}); now {there.summary}: plan again"
    return line.failed("repair", Moved(why), at)


def _line(warehouse: Warehouse, one: Repaired) -> PlannedScope:
    table = find_table(warehouse.catalog.read(), one.scope.table)
    return PlannedScope.of(as_report(warehouse, one), table.log_id)


def _key(line: PlannedScope) -> Key:
    return line.parameters["subject"], Scope(line.scope.table, line.user)


def as_reports(warehouse: Warehouse, found: Sequence[Repaired]) -> list[ScopeReport]:
    return [as_report(warehouse, one) for one in found]
