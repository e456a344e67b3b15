"""Repair: makes what damage has hidden readable again, scope by scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.report import ScopePlan, ScopeReport
from lakewarden.errors import Moved
from lakewarden.maintenance.plans.value import Plan, plan_of
from lakewarden.maintenance.procedure import ByScope
from lakewarden.maintenance.repair import RepairOptions
from lakewarden.maintenance.repair.report import RepairReport, outcome_of
from lakewarden.maintenance.repair.run import Key, key_of, repair
from lakewarden.maintenance.request import Request
from lakewarden.maintenance.workplace import Workplace
from lakewarden.tables.warehouse import Warehouse, find_table

# Plans of repairs: a line for each scope, log and floor that is damaged; applied where what would be done is still the same.


def as_reports(warehouse: Warehouse, catalog: Catalog, found: Sequence[RepairReport]) -> list[ScopeReport]:
    """What of a repair a plan keeps: what is wrong, and what would come of it."""
    return [_report(warehouse, catalog, one) for one in found]


def _report(warehouse: Warehouse, catalog: Catalog, one: RepairReport) -> ScopeReport:
    table = _table(catalog, one.scope.table)
    if one.subject == "scope":
        place = warehouse.location_of(catalog, table, one.scope.user)
    else:
        place = Location(warehouse.state.uri).below(warehouse.log(table).home)
    lost = {} if one.rows_lost is None else {"rows_lost": one.rows_lost}
    if one.writers_uncertain:  # how many: a name may hold a user's id, and plans are kept
        lost |= {"writers_uncertain": len(one.writers_uncertain)}
    counts = {"rows_recovered": one.rows_recovered, "rows_quarantined": one.rows_quarantined, "rows": one.rows}
    return ScopeReport(
        one.scope,
        "repair",
        one.outcome,
        place,
        one.reason,
        one.version,
        parameters={"subject": one.subject, "watermark": str(one.watermark)},
        metrics=counts | lost,
        fault=one.fault,
        files=one.put_aside,
    )


def _table(catalog: Catalog, name: TableName) -> Table:
    """Also one without a schema: its pipeline has a ledger, and its log may be older than its rows."""
    return catalog.blanks.get(name) or find_table(catalog, name)


def _stands(catalog: Catalog, line: ScopePlan) -> bool:
    """Whether its table is the one that was planned for."""
    table = catalog.tables.get(line.scope.table) or catalog.blanks.get(line.scope.table)
    return table is not None and not table.dropping and table.log_id == line.log_id


def _lines(warehouse: Warehouse, catalog: Catalog, found: Sequence[RepairReport]) -> dict[Key, ScopePlan]:
    """What a plan would keep of the damage."""
    reports = zip(found, as_reports(warehouse, catalog, found), strict=True)
    return {
        key_of(one): plan_of(report, _table(catalog, one.scope.table).log_id)
        for one, report in reports
        if one.outcome == "planned"
    }


def _refused(line: ScopePlan, now: Mapping[Key, ScopePlan], at: datetime) -> ScopeReport:
    there = now.get(_key(line))
    if there is None:
        return replace(line.done("repair", at, "nothing of what was planned is wrong any more"), outcome="skipped")
    why = f"{line.scope} was planned to be repaired otherwise ({line.summary}); now {there.summary}: plan again"
    return line.failed("repair", Moved(why), at)


def _key(line: ScopePlan) -> Key:
    return line.parameters["subject"], Scope(line.scope.table, line.user)


class Repair(ByScope):
    def look(self, at: Workplace, catalog: Catalog, request: Request) -> list[ScopeReport]:
        return as_reports(at.warehouse, catalog, damage(at, catalog, request))

    def run(self, at: Workplace, catalog: Catalog, request: Request, job_id: str | None = None) -> list[ScopeReport]:
        return as_reports(at.warehouse, catalog, repaired(at, catalog, request, job_id))

    def apply(self, at: Workplace, catalog: Catalog, plan: Plan, job_id: str) -> list[ScopeReport]:
        """Repairs what was planned and is still as it was planned; a report for each line. What is sound by now is `skipped`.

        Raises:
            NotFound, StorageUnavailable: as `repair`.
        """
        warehouse, run = at.warehouse, at.engine.run
        gone = [line for line in plan.scopes if not _stands(catalog, line)]
        lines = {_key(line): line for line in plan.scopes if line not in gone}
        request = replace(plan.request, tables=tuple(sorted({line.table for line in lines.values()})))
        looked = repair(warehouse, catalog, run, request, job_id, frozenset()) if lines else []
        now = _lines(warehouse, catalog, looked)
        # Looked at again and compared whole: damage that changed since the plan may cost other rows than it showed.
        same = {key for key, line in lines.items() if now.get(key) == line}
        catalog = warehouse.catalog.read()  # a look at many scopes takes its time
        found = repair(warehouse, catalog, run, request, job_id, frozenset(same)) if same else []
        ended = warehouse.clock()
        reports = zip(found, as_reports(warehouse, catalog, found), strict=True)
        done = {key_of(one): report for one, report in reports if key_of(one) in same}
        held = [line.failed("repair", Moved(f"{line.table} was dropped since; plan again"), ended) for line in gone]
        return [done.get(key) or _refused(line, now, ended) for key, line in lines.items()] + held


def damage(at: Workplace, catalog: Catalog, request: Request) -> list[RepairReport]:
    """What a repair would do; changes nothing."""
    return repair(at.warehouse, catalog, at.engine.run, request, at.new_job_id("repair"), frozenset())


def repaired(at: Workplace, catalog: Catalog, request: Request, job_id: str | None = None) -> list[RepairReport]:
    """Raises as `maintenance.repair.run.repair`."""
    started = at.warehouse.clock()
    own = job_id or at.new_job_id("repair")
    found = repair(at.warehouse, catalog, at.engine.run, request, own)
    if job_id is None and any(one.outcome in ("done", "failed") for one in found):
        parameters = request.scopes | {"restored": str(request.options_of(RepairOptions).restored)}
        at.jobs.keep("repair", own, started, parameters, *outcome_of(found))
    at.remember("repair", as_reports(at.warehouse, catalog, found))
    return found


PROCEDURE = Repair()
