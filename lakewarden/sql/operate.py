"""Statements that start operations: flush and compact as jobs, Delta's own at once, and what is done to jobs."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakewarden.catalog.model import Table
from lakewarden.errors import Conflict, InvalidArgument, NotFound, ScopesFailed
from lakewarden.operations.jobs import Job, outcome_of
from lakewarden.operations.restore import parse_moment
from lakewarden.report import ScopeReport
from lakewarden.sql import statements as of
from lakewarden.sql.context import Context
from lakewarden.sql.results import Done, Result, Started, listing
from lakewarden.warehouse import live_tables

_NOTHING = {"flush": "no pending writes", "compact": "no small files to fold"}


def storage_job(context: Context, statement: of.StorageJob) -> Result:
    """Asks for a job for each table that has something to do, and runs them where the session waits."""
    if statement.table is not None:
        table = context.table(statement.table)
        reason = _nothing_to_do(context, statement.operation, table)
        return Done(reason) if reason else _started(context, statement.operation, [table], several=False)
    tables = _in_namespace(context, statement)
    due = [table for table in tables if not _nothing_to_do(context, statement.operation, table)]
    return _started(context, statement.operation, due, several=True) if due else Done(f"skipped: {_NOTHING[statement.operation]}")


def _in_namespace(context: Context, statement: of.StorageJob) -> list[Table]:
    namespace = statement.namespace or context.namespace
    if namespace is None:
        raise InvalidArgument(
            f"STORAGE {statement.operation.upper()} ALL: say which, as in ALL IN NAMESPACE chat, or USE one first"
        )
    if namespace not in context.catalog().namespaces:
        raise NotFound(f"there is no namespace {namespace!r}")
    tables = [table for table in live_tables(context.catalog()) if table.name.namespace == namespace]
    if statement.operation == "compact" and not tables:
        raise NotFound(f"namespace {namespace!r} has no USER or SHARED table to compact")
    return tables


def _nothing_to_do(context: Context, operation: str, table: Table) -> str:
    """Why a job would do nothing; empty where it would do something."""
    name = str(table.name)
    if operation == "flush":
        idle = not any(pending.table == table.name for pending in context.lake.pending())
    else:
        idle = all(report.outcome == "skipped" for report in context.lake.compact(name, dry_run=True))
    if idle:
        return f"skipped: {_NOTHING[operation]}"
    active = [job for job in context.lake.jobs(None) if job.job_type == operation and job.status in ("queued", "running")]
    return "skipped: already queued or running" if any(_is_for(job, name) for job in active) else ""


def _is_for(job: Job, table: str) -> bool:
    return job.parameters == {"tables": table}


def _started(context: Context, operation: str, tables: Sequence[Table], *, several: bool) -> Started:
    jobs = [context.lake.enqueue("flush" if operation == "flush" else "compact", str(table.name)) for table in tables]
    ids = tuple(job.job_id for job in jobs)
    if context.wait:
        _run(context, ids)
    what = f"{operation} of {', '.join(str(table.name) for table in tables)}"
    return Started(f"{what} {'done' if context.wait else 'queued'}. Job ID: {', '.join(ids)}", ids, several)


def _run(context: Context, ids: Sequence[str]) -> None:
    """Raises:
    Conflict: one of them failed; its message says why, and `jobs list` has it too.
    """
    context.lake.run_jobs(ids)
    for job in context.lake.jobs(None):
        if job.job_id in ids and job.status == "failed":
            raise Conflict(f"job {job.job_id} failed: {job.message}")


def kill_job(context: Context, statement: of.KillJob) -> Done:
    job = context.lake.kill_job(statement.id)
    return Done(f"job {job.job_id} {job.status}")


def optimize(context: Context, statement: of.Optimize) -> Done:
    table = context.table(statement.table)
    user = _whose(context, table, all_users=statement.all_users)
    zorder = [_as_declared(table, name) for name in statement.zorder]
    return _told("optimize", table, context.lake.optimize(str(table.name), user=user, zorder=zorder))


def _as_declared(table: Table, name: str) -> str:
    return next((each for each in table.schema.names if each.lower() == name.lower()), name)


def vacuum(context: Context, statement: of.Vacuum) -> Result:
    table = context.table(statement.table)
    reports = context.lake.vacuum(
        str(table.name),
        user=_whose(context, table, all_users=statement.all_users),
        retain_hours=statement.retain_hours,
        force=statement.force,
        dry_run=statement.dry_run,
    )
    told = _told("vacuum", table, reports)
    if not statement.dry_run:
        return told
    return listing({"path": pa.string()}, [{"path": f"{report.uri}/{file}"} for report in reports for file in report.files])


def restore(context: Context, statement: of.Restore) -> Done:
    table = context.table(statement.table)
    if statement.all_users and statement.version is not None:
        raise InvalidArgument("RESTORE … FOR ALL USERS goes by TIMESTAMP AS OF: versions are each scope's own")
    reports = context.lake.restore(
        str(table.name),
        user=_whose(context, table, all_users=statement.all_users),
        version=statement.version,
        timestamp=None if statement.timestamp is None else parse_moment(statement.timestamp),
        dry_run=False,
    )
    return _told("restore", table, reports)


def _whose(context: Context, table: Table, *, all_users: bool) -> str | None:
    return None if all_users else context.owner(table)


def _told(operation: str, table: Table, reports: Sequence[ScopeReport]) -> Done:
    """Raises:
    ScopesFailed: with the code of the first fault; the others are done.
    """
    faults = [(report.scope, report.fault) for report in reports if report.fault]
    if faults:
        scope, first = faults[0]
        raise ScopesFailed(first.code, f"{len(faults)} of {len(reports)} scopes failed; the first, {scope}: {first.message}")
    if all(report.outcome == "skipped" for report in reports):
        return Done(f"skipped: {reports[0].reason if reports else 'no scopes'}")
    return Done(f"{operation} {table.name}: {outcome_of(reports)[1]}")
