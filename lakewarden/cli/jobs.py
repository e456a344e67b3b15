"""`lakewarden jobs`: the queued, running and finished jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from lakewarden.cli.context import invocation
from lakewarden.cli.output import Row, cell
from lakewarden.errors import ScopesFailed

if TYPE_CHECKING:
    from lakewarden.catalog.state.job import Job


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="List, run and cancel jobs.", no_args_is_help=True)
    group.command("list")(list_jobs)
    group.command("run")(run_jobs)
    group.command("kill")(kill_job)
    app.add_typer(group, name="jobs")


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
    failed = [job for job in jobs if job.status == "failed"]
    if failed:
        raise ScopesFailed(
            "CONFLICT", f"{len(failed)} of {len(jobs)} jobs failed; the first, {failed[0].job_id}: {failed[0].message}"
        )


def kill_job(context: typer.Context, job_id: str = typer.Argument(help="The job's id, such as FL-….")) -> None:
    """Cancel a job; a running one stops before its next scope."""
    call = invocation(context)
    with call.lake("jobs") as lake:
        job = lake.kill_job(job_id)
    call.emit([_row(job)], empty="", columns=("job_id", "job_type", "status", "message"))


def _row(job: Job) -> Row:
    row = cell(job)
    assert isinstance(row, dict), "a dataclass becomes an object"
    return {name: value for name, value in row.items() if name != "step"}
