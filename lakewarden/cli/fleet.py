"""The commands over the fleet as a whole: `report`, a page, `metrics`, for Prometheus, and `maintain`, a tick without Dagster."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lakewarden.cli.context import Invocation, invocation
from lakewarden.cli.output import row_of, write_whole
from lakewarden.client import Lakehouse
from lakewarden.errors import ScopesFailed

if TYPE_CHECKING:
    from lakewarden.maintenance.planning.fleet import Fleet


def register(app: typer.Typer) -> None:
    for command in (report, metrics, maintain):
        app.command()(command)


def report(
    context: typer.Context,
    out: Path = typer.Option("fleet.html", help="The file; - writes the page to standard output."),
) -> None:
    """Write a page that shows how all tables are, what the last week did, and what maintenance would cost now.

    The page is one file without scripts, which loads nothing. Writes nothing to the warehouse.
    """
    from lakewarden.client.fleet_page import UI, fleet_page  # brings the engine of templates

    call = invocation(context)
    found = _fleet(call)
    page = fleet_page(found, os.environ.get("LAKEWARDEN_DAGSTER_URL") or UI)
    if str(out) == "-":
        sys.stdout.write(page)
        return
    write_whole(out, page)
    if call.as_json:
        call.emit([{"file": str(out), "bytes": len(page.encode()), "verdict": found.verdict}], empty="")
    else:
        sys.stdout.write(f"{found.verdict}\n{out}\n")


def metrics(
    context: typer.Context,
    out: Path | None = typer.Option(None, help="A file, replaced as a whole, for a textfile collector; else standard output."),
) -> None:
    """Print each table's figures in Prometheus' text format. No label names a user."""
    from lakewarden.client.fleet_metrics import metrics_text

    text = metrics_text(_fleet(invocation(context)))
    if out is None or str(out) == "-":
        sys.stdout.write(text)
    else:
        write_whole(out, text)


def maintain(
    context: typer.Context,
    once: bool = typer.Option(False, "--once", help="One tick, and end: what cron, Airflow and others call."),
    dry_run: bool = typer.Option(False, help="Show what is due, and do nothing."),
) -> None:
    """Do what Dagster's sensors and schedules would start now, without Dagster; call it every minute.

    Flushes by FLUSH_POLICY, queued jobs, new uploads, topics, and the hourly, nightly and weekly maintenance, each once.
    """
    if not once:
        raise typer.BadParameter("give --once: it does what is due now and ends; a loop of its own is Dagster's (lakewarden ui)")
    from lakewarden.client.maintain_once import MaintainOnce

    call = invocation(context)
    with call.lake("maintain") as lake:
        found = MaintainOnce(lake, dry_run).run()
    shown = [one for one in found if call.as_json or one.outcome != "nothing"]
    call.emit([row_of(one) for one in shown], empty="nothing is due")
    bad = [(one.action, one.code, one.reason) for one in found if one.outcome == "failed"]
    ScopesFailed.check(bad, len(found), "actions failed")


def _fleet(call: Invocation) -> Fleet:
    """Not in `system.cluster`, however long it takes: nothing is written."""
    with Lakehouse.open(call.warehouse, create=call.create) as lake:
        return lake.fleet()
