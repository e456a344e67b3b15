"""Executes the statements that start operations (flush and compact as jobs, the rest directly) and those about jobs."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakewarden.catalog.model import Table
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.job import Job, outcome_of
from lakewarden.catalog.state.job_log import AlreadyActive
from lakewarden.catalog.state.processes import LiveQueries
from lakewarden.delta.past import parse_moment
from lakewarden.errors import Conflict, Corrupt, InvalidArgument, NotFound, ScopesFailed, StorageUnavailable
from lakewarden.maintenance.export.run import own_place
from lakewarden.maintenance.move.procedure import cancel_move
from lakewarden.maintenance.plans.value import Plan
from lakewarden.maintenance.request import Request, new_request, with_texts
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.maintenance.runner import Runner
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.tables import options_of
from lakewarden.sql.results import Columns, ResultRows, Row, StartedJobs, StatementDone, listing
from lakewarden.sql.rights import asks_of_request
from lakewarden.sql.statements.upkeep import (
    ApplyPlan,
    ExportUserData,
    KillJob,
    KillLiveQuery,
    MoveTable,
    Optimize,
    Restore,
    StorageJob,
    Vacuum,
)
from lakewarden.tables.warehouse import cold_tables

# Executes DRY RUN, which stores a plan and returns its id, and APPLY PLAN.
_COLUMNS: Columns = {
    "user": pa.string(),
    "outcome": pa.string(),
    "version": pa.int64(),
    "reason": pa.string(),
    "plan_id": pa.string(),
}


def preview(context: Context, request: Request) -> Plan:
    """Raises as `Operator.preview`."""
    return context.services.operator().preview(request)


def planned(context: Context, request: Request) -> ResultRows:
    """A row for each scope: what would be done, or why nothing would."""
    return listing(_COLUMNS, [_row(report) for report in preview(context, request).reports])


def _row(report: ScopeReport) -> Row:
    fault = None if report.fault is None else f"{report.fault.code}: {report.fault.message}"
    return {
        "user": report.scope.user,
        "outcome": report.outcome,
        "version": report.version,
        "reason": fault or report.reason,
        "plan_id": report.plan_id,
    }


def applied(context: Context, statement: ApplyPlan) -> list[ScopeReport]:
    """Raises as `Operator.apply`."""

    def permit(request: Request) -> None:
        for ask in asks_of_request(context, request):
            context.door.allow(ask.act, ask.table)

    return context.services.operator().apply(statement.id, permit)


_ACTIVE = "skipped: already queued or running"
_NOTHING = {"flush": "no pending writes", "compact": "no small files to fold"}


def storage_job(context: Context, statement: StorageJob) -> StartedJobs | StatementDone | ResultRows:
    """Requests a job for each table that has work, and runs the jobs if the session waits."""
    tables = _in_namespace(context, statement) if statement.table is None else [context.table(statement.table)]
    request = _request(statement, tables)  # refused before a job is, too
    if statement.dry_run:
        return planned(context, request)
    return _started(context, statement, tables)


def _in_namespace(context: Context, statement: StorageJob) -> list[Table]:
    namespace = statement.namespace or context.namespace
    if namespace is None:
        raise InvalidArgument(
            f"STORAGE {statement.operation.upper()} ALL: name a namespace, as in ALL IN NAMESPACE chat, or USE one first"
        )
    if namespace not in context.catalog.namespaces:
        raise NotFound(f"there is no namespace {namespace!r}")
    tables = [table for table in cold_tables(context.catalog) if table.name.namespace == namespace]
    if statement.operation == "compact" and not tables:
        raise NotFound(f"namespace {namespace!r} has no USER or SHARED table to compact")
    return tables


def _started(context: Context, statement: StorageJob, tables: Sequence[Table]) -> StartedJobs | StatementDone:
    """New jobs for the tables that have work and no active job."""
    operation = statement.operation
    due = [table for table in tables if not _idle(context, statement, table)]
    if not due:
        return StatementDone(f"skipped: {_NOTHING[operation]}")
    jobs, runner = {}, Runner(context.services.operator())
    for table in due:
        job = _requested(context, _request(statement, [table]))
        if job is None:
            continue
        jobs[table.name] = job
        if context.wait:  # before the next is queued: a process that dies here leaves a single job, whose lease expires
            runner.run_waiting([job.job_id])
    if not jobs:
        return StatementDone(_ACTIVE)
    ids = tuple(job.job_id for job in jobs.values())
    if context.wait:
        _check_done(context, ids, runner)
    what = f"{operation} of {', '.join(map(str, jobs))}"
    return StartedJobs(f"{what} {_state(context)}. Job ID: {', '.join(ids)}", ids, statement.table is None)


def _state(context: Context) -> str:
    return "done" if context.wait else "queued"


def _idle(context: Context, statement: StorageJob, table: Table) -> bool:
    if statement.operation == "flush":
        return not _waits(context, table)
    reports = context.services.operator().look(_request(statement, [table]))
    return all(report.outcome == "skipped" for report in reports)


def _request(statement: StorageJob, tables: Sequence[Table]) -> Request:
    names = tuple(str(table.name) for table in tables)
    made = new_request(statement.operation, names, look=statement.look, ratio=statement.ratio)
    return with_texts(made, options_of(statement.more))


def _waits(context: Context, table: Table) -> bool:
    """Whether the table has rows to flush, or a log that a flush has to report on."""
    warehouse = context.warehouse
    try:
        return bool(warehouse.log(table).view().pending)
    except Corrupt:
        return True


def _requested(context: Context, request: Request) -> Job | None:
    """The new job; None if the same request is already queued or running."""
    try:
        return context.services.operator().enqueue(request, context.principal.opener.request_id)
    except AlreadyActive:
        return None


def export_user_data(context: Context, _: ExportUserData) -> StartedJobs | StatementDone:
    """Exports all data of the session's user to a folder of the job's own below the warehouse's `exports/`."""
    job = _requested(context, new_request("export", (), user=context.principal.user))
    if job is None:
        return StatementDone(_ACTIVE)
    if context.wait:
        _run(context, job)
    place = own_place(context.warehouse, job.job_id)
    return StartedJobs(f"export to {place} {_state(context)}. Job ID: {job.job_id}", (job.job_id,))


def _run(context: Context, job: Job) -> None:
    """Raises as `_check_done`."""
    runner = Runner(context.services.operator())
    runner.run_waiting([job.job_id])
    _check_done(context, [job.job_id], runner)


def _check_done(context: Context, ids: Sequence[str], runner: Runner) -> None:
    """Raises:
    Conflict: a job failed; the message says why, and so does `jobs list`.
    StorageUnavailable: so too, because a storage is away.
    """
    failed = [job for job in context.services.operator().jobs.newest(None) if job.job_id in ids and job.status == "failed"]
    if not failed:
        return
    job = failed[0]
    more = f"; {len(failed) - 1} more jobs failed" if failed[1:] else ""
    away = (fault := runner.faults.get(job.job_id)) is not None and fault.code == StorageUnavailable.code
    raise (StorageUnavailable if away else Conflict)(f"job {job.job_id} failed: {job.message}{more}")


def move_table(context: Context, statement: MoveTable) -> StartedJobs | StatementDone | ResultRows:
    """Requests a job that moves the table; a CANCEL takes effect at once."""
    table = context.table(statement.table)
    if statement.dry_run:
        return planned(context, new_request("move", (str(table.name),), to=statement.storage))
    if statement.storage is None:
        if table.move is None:
            return StatementDone(f"skipped: {table.name} is not being moved")
        return _told(f"move {table.name}", cancel_move(context.services.operator(), table.name))
    if table.move is None and table.options.storage_id == statement.storage:
        return StatementDone(f"skipped: {table.name} is already on storage {statement.storage!r}")
    job = _requested(context, new_request("move", (str(table.name),), to=statement.storage))
    if job is None:
        return StatementDone(_ACTIVE)
    if context.wait:
        _run(context, job)
    what = f"move of {table.name} to storage {statement.storage!r}"
    return StartedJobs(f"{what} {_state(context)}. Job ID: {job.job_id}", (job.job_id,))


def kill_job(context: Context, statement: KillJob) -> StatementDone:
    job = context.services.operator().jobs.kill(statement.id)
    return StatementDone(f"job {job.job_id} {job.status}")


def kill_live_query(context: Context, statement: KillLiveQuery) -> StatementDone:
    query = LiveQueries(context.warehouse.state).kill(statement.id)
    return StatementDone(f"live query {query.live_id} will end at its next poll")


def apply_plan(context: Context, statement: ApplyPlan) -> StatementDone:
    reports = applied(context, statement)
    return _told(f"plan {statement.id}", reports) if reports else StatementDone("skipped: nothing was planned")


def optimize(context: Context, statement: Optimize) -> StatementDone | ResultRows:
    table = context.table(statement.table)
    zorder = tuple(_as_declared(table, name) for name in statement.zorder)
    user, where = _whose(context, table, statement), statement.where
    request = new_request("optimize", (str(table.name),), user=user, zorder=zorder, look=statement.look, where=where)
    request = with_texts(request, options_of(statement.more))
    return planned(context, request) if statement.dry_run else _run_now(context, request)


def _as_declared(table: Table, name: str) -> str:
    return next((each for each in table.schema.names if each.lower() == name.lower()), name)


def vacuum(context: Context, statement: Vacuum) -> StatementDone | ResultRows:
    table = context.table(statement.table)
    hours, force = statement.retain_hours, statement.force
    user = _whose(context, table, statement)
    request = new_request("vacuum", (str(table.name),), user=user, retain_hours=hours, force=force, look=statement.look)
    request = with_texts(request, options_of(statement.more))
    return _files(preview(context, request).reports) if statement.dry_run else _run_now(context, request)


def _files(reports: Sequence[ScopeReport]) -> ResultRows:
    """The files that a vacuum would remove.

    Raises as `_told`.
    """
    _told("vacuum", reports)
    found: list[Row] = [
        {"path": f"{report.uri}/{file}", "plan_id": report.plan_id} for report in reports for file in report.files
    ]
    return listing({"path": pa.string(), "plan_id": pa.string()}, found)


def restore(context: Context, statement: Restore) -> StatementDone | ResultRows:
    table = context.table(statement.table)
    if statement.all_users and statement.version is not None:
        raise InvalidArgument("RESTORE … FOR ALL USERS takes TIMESTAMP AS OF: each scope has its own versions")
    timestamp = None if statement.timestamp is None else parse_moment(statement.timestamp)
    options = RestoreOptions(statement.version, timestamp, user=_whose(context, table, statement))
    request = with_texts(Request("restore", (str(table.name),), options), options_of(statement.more))
    return planned(context, request) if statement.dry_run else _run_now(context, request)


def _run_now(context: Context, request: Request) -> StatementDone:
    """Raises as `_told`."""
    return _told(f"{request.operation} {request.tables[0]}", context.services.operator().run(request))


def _whose(context: Context, table: Table, statement: Optimize | Vacuum | Restore) -> str | None:
    return None if statement.all_users else context.owner(table)


def _told(what: str, reports: Sequence[ScopeReport]) -> StatementDone:
    """Raises:
    ScopesFailed: some scopes failed; it has the code of the first fault. The other scopes are done.
    """
    faults = [(report.scope, report.fault) for report in reports if report.fault]
    if faults:
        scope, first = faults[0]
        raise ScopesFailed(first.code, f"{len(faults)} of {len(reports)} scopes failed; the first, {scope}: {first.message}")
    if all(report.outcome == "skipped" for report in reports):
        return StatementDone(f"skipped: {reports[0].reason if reports else 'no scopes'}")
    return StatementDone(f"{what}: {outcome_of(reports)[1]}")
