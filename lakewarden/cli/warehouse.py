"""The commands about a warehouse as a whole: `settings`, by which all its processes go, its `jobs`, and `upgrade`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from lakewarden.cli.context import Invocation, invocation
from lakewarden.cli.output import Row, row_of
from lakewarden.errors import ScopesFailed
from lakewarden.maintenance.admin.settings import WarehouseSetting

if TYPE_CHECKING:
    from lakewarden.catalog.state.job import Job


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="List and change the settings by which all processes of the warehouse go.")
    group.callback(invoke_without_command=True)(list_settings)
    group.command("set")(set_setting)
    app.add_typer(group, name="settings")
    app.command()(upgrade)
    jobs = typer.Typer(help="List, run and cancel jobs.", no_args_is_help=True)
    jobs.command("list")(list_jobs)
    jobs.command("run")(run_jobs)
    jobs.command("kill")(kill_job)
    app.add_typer(jobs, name="jobs")


def list_settings(context: typer.Context) -> None:
    """List the settings by which all processes of the warehouse go; `settings set` changes one."""
    if context.invoked_subcommand is None:
        call = invocation(context)
        with call.lake("settings") as lake:
            _emit(call, lake.settings())


def set_setting(
    context: typer.Context,
    key: str = typer.Argument(help="The setting, as compaction.ratio."),
    value: str = typer.Argument(help="Its value; `default` sets it back."),
) -> None:
    """Change a setting for all processes of the warehouse."""
    call = invocation(context)
    with call.lake("settings") as lake:
        changed = lake.alter_warehouse({key: value})
    _emit(call, [one for one in changed if one.key == key.strip().lower()])


def _emit(call: Invocation, found: Sequence[WarehouseSetting]) -> None:
    call.emit([asdict(one) for one in found], empty="", columns=("key", "value", "default", "bounds"))


def upgrade(context: typer.Context) -> None:
    """Give every storage its identity and every table its floor; older releases then refuse the warehouse. Stop their
    processes first."""
    call = invocation(context)
    with call.lake("upgrade") as lake:
        found = lake.upgrade()
    call.emit([row_of(one) for one in found], empty="nothing to upgrade")


def list_jobs(context: typer.Context, limit: int = typer.Option(50, min=1, help="The most jobs to show.")) -> None:
    """List the last jobs, newest first."""
    call = invocation(context)
    with call.lake("jobs") as lake:
        jobs = lake.jobs(limit)
    call.emit([_row(job) for job in jobs], empty="no jobs", columns=("job_id", "job_type", "status", "created_at", "message"))


def run_jobs(context: typer.Context) -> None:
    """Run the jobs that are queued, oldest first, and those whose runner died."""
    call = invocation(context)
    with call.lake("jobs") as lake:
        jobs = lake.run_jobs()
    call.emit([_row(job) for job in jobs], empty="no job is queued", columns=("job_id", "job_type", "status", "message"))
    failed = [(job.job_id, "CONFLICT", job.message) for job in jobs if job.status == "failed"]
    ScopesFailed.check(failed, len(jobs), "jobs failed")


def kill_job(context: typer.Context, job_id: str = typer.Argument(help="The job's id, such as FL-….")) -> None:
    """Cancel a job; a running one stops before its next scope."""
    call = invocation(context)
    with call.lake("jobs") as lake:
        job = lake.kill_job(job_id)
    call.emit([_row(job)], empty="", columns=("job_id", "job_type", "status", "message"))


def _row(job: Job) -> Row:
    return {name: value for name, value in row_of(job).items() if name != "step"}
