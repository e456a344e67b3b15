"""`repair_job`: repairs damaged logs and scopes, and reports what was recovered and what is lost."""

from collections.abc import Sequence

import dagster as dg
from pydantic import Field

from lakewarden.catalog.report import ScopeReport
from lakewarden.dagster.assets.metadata import table_value
from lakewarden.dagster.jobs.event_log.book import book
from lakewarden.dagster.jobs.forms import option_values, plan_field, plan_link, run_or_apply, takes_options
from lakewarden.dagster.jobs.runs import job_of, job_tags, raise_failures, warehouse_op
from lakewarden.dagster.lakehouse import WarehouseRun

_SHOWN = 100


@takes_options("repair")
class RepairConfig(dg.Config):
    """What to repair. By default, it only shows what is wrong, and what would be done.

    The dry run's link `apply` fills this form with its plan, and launching that does exactly what was shown.
    """

    table: str = Field("", description="The table, as namespace.table; empty means all of the warehouse.")
    user: str | None = Field(None, description="Only this user's scopes.")
    dry_run: bool = Field(True, description="Only show what is wrong, and what would be done. Set it to false to repair.")
    plan: str = plan_field()


@warehouse_op("Repair what is damaged, and book one event for each scope.")
def repair(run: WarehouseRun, config: RepairConfig) -> None:
    """A storage that is away fails no repair of scopes elsewhere, which are what the form names: the log warns of it."""
    tables = (config.table,) if config.table else ()
    reports = run_or_apply(run.lake, "repair", tables, option_values(config, "repair"), config)
    run.context.add_output_metadata({**plan_link(run.context, reports), "repaired": _shown(reports)})
    scopes = [report for report in reports if _subject(report) == "scope"]
    of_others = [report for report in reports if config.table and scopes and _subject(report) == "storage"]
    for report in of_others:
        run.context.log.warning("%s", report.fault and report.fault.message)
    book(run, scopes, preview=config.dry_run)
    raise_failures([report for report in reports if report not in (*scopes, *of_others)])


def _subject(report: ScopeReport) -> str:
    return report.parameters.get("subject", "scope")


def _shown(reports: Sequence[ScopeReport]) -> dg.MetadataValue:
    """What was wrong, and what came of it; storages that are away come last."""
    found = sorted((one for one in reports if one.outcome != "skipped"), key=lambda one: _subject(one) == "storage")
    return table_value(
        {
            "table": str(report.scope.table),
            "user": report.scope.user or "",
            "what": _subject(report),
            "outcome": report.outcome,
            "rows recovered": report.metrics.get("rows_recovered", 0),
            "rows lost": str(report.metrics.get("rows_lost", "unknown")),
            "why": report.reason,
        }
        for report in found[:_SHOWN]
    )


repair_job = job_of(
    repair, job_tags("repair", 20), "Repairs damaged logs and scopes from the rows that are left; dry run by default."
)
