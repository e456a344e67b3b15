"""What a job did, as numbers by table: kept with the job, added up by day (`catalog.state.fleet_days`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import Conflict

WorkByTable = Mapping[str, Mapping[str, int]]
"""Amounts by name, by table id. In them stands no user."""

NO_WORK: WorkByTable = MappingProxyType({})

OF_REPORTS = ("files_added", "files_removed", "bytes_added", "bytes_removed", "files_deleted", "bytes_deleted")
"""Metrics of reports that are added up; what a flush calls `bytes_written` counts as added."""


def work_of(reports: Iterable[ScopeReport], ids: Mapping[str, str], spent: WorkByTable = NO_WORK) -> dict[str, dict[str, int]]:
    """Adds up what was done and what failed.

    Args:
        ids: of tables, by name; what has none is not counted.
        spent: requests and bytes by table id. Those that served several tables together, as of the catalog and of jobs, count for
            the table with most scopes.
    """
    found: dict[str, dict[str, int]] = {}
    for report in reports:
        table_id = ids.get(str(report.scope.table))
        if table_id is not None and report.outcome in ("done", "failed"):
            add(found.setdefault(table_id, {}), _amounts(report))
    most = max(found, key=lambda each: found[each].get("done", 0) + found[each].get("failed", 0), default="")
    for table_id, amounts in spent.items():
        if (known := table_id if table_id in found else most) in found:
            add(found[known], amounts)
    return found


def add(to: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        to[name] = to.get(name, 0) + amount


def _amounts(report: ScopeReport) -> dict[str, int]:
    counts = {report.outcome: 1}
    if report.fault is not None:
        return counts | ({"conflicts": 1} if report.fault.code == Conflict.code else {})
    written = {"bytes_added": report.metrics["bytes_written"]} if "bytes_written" in report.metrics else {}
    return counts | {name: count for name in OF_REPORTS if (count := report.metrics.get(name))} | written
