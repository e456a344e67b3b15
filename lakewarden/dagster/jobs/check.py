"""`check_job`: the checks of every table, in one run; `survey_job`: all surveyed places; `check_all_job`: `lakewarden check`."""

from collections.abc import Sequence

import dagster as dg
from pydantic import Field

from lakewarden.dagster.assets.health import OTHERS
from lakewarden.dagster.assets.health_changes import checks_of_health, report_checks
from lakewarden.dagster.assets.metadata import table_value
from lakewarden.dagster.internals import UnresolvedAssetJobDefinition
from lakewarden.dagster.jobs.runs import job_of, job_tags, warehouse_op
from lakewarden.dagster.lakehouse import WarehouseRun
from lakewarden.dagster.mount import Mount
from lakewarden.maintenance.planning.health import health


def build_check_job(mount: Mount, checks: Sequence[dg.AssetChecksDefinition]) -> UnresolvedAssetJobDefinition:
    """The job over exactly these checks: a deployment may have others."""
    said = "Checks some scopes of every table: one row per key, columns as declared, log and table agree."
    return _look(mount, "check", dg.AssetSelection.checks(*checks), said)


def build_survey_job(mount: Mount, surveyed: Sequence[dg.AssetsDefinition]) -> UnresolvedAssetJobDefinition:
    said = "Looks at Delta tables that others wrote: what is there, what is damaged. Nothing is written there."
    return _look(mount, "survey", dg.AssetSelection.assets(*surveyed), said)


def _look(mount: Mount, operation: str, selection: dg.AssetSelection, said: str) -> UnresolvedAssetJobDefinition:
    name, tags = mount.named(f"{operation}_job"), {**job_tags(operation, -10), **mount.tags}
    return dg.define_asset_job(name, selection, description=said, tags=tags, executor_def=dg.in_process_executor)


# `check_all_job`: `lakewarden check` over the whole warehouse, every scope, shown as the checks of the health asset.
_SHOWN = 100


class CheckAllConfig(dg.Config):
    """How thoroughly to check. Whatever is chosen, every storage, log and scope is looked at; what fails is remembered."""

    quick: bool = Field(True, description="Read the logs and the newest commits only. False: the rows of every scope, too.")


@warehouse_op("Check everything, and show what was found as checks.")
def check_all(run: WarehouseRun, config: CheckAllConfig) -> None:
    findings = run.lake.check(quick=config.quick)
    failed = [one for one in findings if not one.passed]
    found = health(run.lake.warehouse, files_of=OTHERS)
    report_checks(run.context.instance, checks_of_health(run.mount, found))
    shown = ({"what": one.subject, "check": one.check, "code": one.code, "why": one.message} for one in failed[:_SHOWN])
    run.context.add_output_metadata(
        {"checked": len(findings), "failed": len(failed), **({"failures": table_value(shown)} if failed else {})}
    )


check_all_job = job_of(
    check_all, job_tags("check", -10), "Checks every storage, log and scope of the warehouse, quickly or with all rows."
)
