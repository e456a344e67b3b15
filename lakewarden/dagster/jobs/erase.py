"""`erase_job`: erases a queued user, with a certificate, and removes the user from Dagster.

Dagster keeps the config of every run permanently. So no config takes the user's id: `lakewarden erase --queue` stores it in
the warehouse, and this job takes the keyed hash. Nothing here may log, book or raise a text with the id in it.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from lakewarden.base.quantities import in_units
from lakewarden.base.scope import TableName
from lakewarden.catalog.state.erasures import Certificate
from lakewarden.dagster.assets.health_changes import report_changes
from lakewarden.dagster.assets.metadata import Metadata, table_value
from lakewarden.dagster.jobs.event_log.behind import book_behind
from lakewarden.dagster.jobs.forms import apply_link, check_plan, plan_field
from lakewarden.dagster.jobs.runs import job_of, job_tags, warehouse_op
from lakewarden.dagster.lakehouse import WarehouseRun
from lakewarden.dagster.mount import Mount

if TYPE_CHECKING:
    from lakewarden.dagster.jobs.event_log.forgetting import Forgotten


class EraseConfig(dg.Config):
    """Which queued erasure to run. Queue it by `lakewarden erase --user U --queue`, with `--table` and `--deep` as needed.

    By default, it only reports how much data of the user exists.
    """

    request: str = Field(description="The keyed hash that `erase --queue` printed. Never a user's id: Dagster keeps this value.")
    dry_run: bool = Field(True, description="Only search for the user and count. Set it to false to erase.")
    plan: str = plan_field()


@warehouse_op(
    "Erase the user, remove them from Dagster, and book the certificate.",
    ins={"behind": dg.In(dg.Nothing)},  # a job of others may have steps before it
)
def erase(run: WarehouseRun, config: EraseConfig) -> None:
    context, lake, mount = run.context, run.lake, run.mount
    request = lake.requested_erasure(config.request)
    check_plan(config)
    if config.dry_run:
        searched = lake.verify_erased(request.user, request.tables, deep=request.deep)
        plan_id = lake.plan_requested_erasure(config.request).plan_id
        context.add_output_metadata(
            {
                **apply_link(context, plan_id, "request"),
                "user": config.request,
                "plan_id": plan_id,
                "findings": len(searched.findings),
                "objects_searched": searched.objects,
                "bytes_searched": searched.bytes,
                "size_searched": in_units(searched.bytes),
                "coincidences": searched.coincidences,
            }
        )
        return
    certificate = lake.erase_requested(config.request, plan_id=config.plan or None)
    tables = [TableName.parse(table.table) for table in certificate.tables]
    from lakewarden.dagster.jobs.event_log.forgetting import forget_user  # the tables of Dagster's storage, needed here only

    forgotten = forget_user(context.instance, mount, request.user, tables, context.run_id, certificate.user)
    _book(context, mount, certificate, forgotten)
    report_changes(run)
    if forgotten.wiped:
        context.log.warning("Dagster's storage is not one that single events can be removed from: other users are booked again")
        book_behind(run, lake.tables())
    if forgotten.left:
        raise dg.Failure(
            description=f"erased and certified ({certificate.id}), but {len(forgotten.left)} runs of Dagster name the user and"
            " are not over: when they are, queue the erasure again and run it, for Dagster to forget them too",
            metadata={"runs": ", ".join(forgotten.left), "certificate": certificate.id},
            allow_retries=False,
        )


def _book(context: dg.OpExecutionContext, mount: Mount, certificate: Certificate, forgotten: "Forgotten") -> None:
    """Adds the certificate to the run, and to an event of each table. A partition would name the user again."""
    whole = _metadata(certificate, forgotten)
    for table in certificate.tables:
        metadata = {**whole, **{f"metrics/{name}": getattr(table, name) for name in ("hot_rows", "files", "bytes", "tags")}}
        key = mount.asset_key(TableName.parse(table.table))
        # an observation: the other users' rows have not changed
        context.log_event(dg.AssetObservation(key, description=f"erase: {certificate.result}", metadata=metadata))
    context.add_output_metadata(whole)


def _metadata(certificate: Certificate, forgotten: "Forgotten") -> Metadata:
    said = {name: value for name, value in asdict(certificate).items() if not isinstance(value, tuple)}
    return {
        "operation": "erase",
        **{f"certificate/{name}": value if type(value) is int else str(value) for name, value in said.items()},
        "certificate/tables": table_value(asdict(table) for table in certificate.tables),
        "dagster/runs_deleted": forgotten.deleted,
        "dagster/others_wiped": forgotten.wiped,
        "dagster/runs_left": len(forgotten.left),
    }


erase_job = job_of(erase, job_tags("erase", 20), "Erases a user who was queued for it, with a certificate; dry run by default.")
