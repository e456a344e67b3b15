"""Statements that start jobs (STORAGE, kalamdb.md 1.5), and those that end them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lakewarden.base.scope import TableName
from lakewarden.catalog.access import TableOf
from lakewarden.catalog.changes.engines import namespace_of
from lakewarden.catalog.model import Table
from lakewarden.catalog.state.job import Job
from lakewarden.catalog.state.job_log import AlreadyActive
from lakewarden.catalog.state.processes import LiveQueries
from lakewarden.errors import Conflict, Corrupt, InvalidArgument, NotFound, StorageUnavailable
from lakewarden.maintenance.export.procedure import own_place
from lakewarden.maintenance.move.procedure import cancel_move
from lakewarden.maintenance.request import Request, new_request, with_texts
from lakewarden.maintenance.runner import Runner
from lakewarden.sql.context import Context
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.ref import Pairs, Ref
from lakewarden.sql.results import ResultRows, StartedJobs, StatementDone
from lakewarden.sql.rights import Ask, Made, Right, act_of, ask_on, cold, in_warehouse, operation_right
from lakewarden.sql.statement import (
    AuditEntrySpec,
    Forbidden,
    Grammar,
    OnTable,
    Statement,
    StatementSpec,
    UnsupportedStatement,
    registered,
)
from lakewarden.sql.statements.clauses import in_namespace, more_options, options_of
from lakewarden.sql.statements.storages import CheckStorage
from lakewarden.sql.statements.upkeep import planned, summary_of
from lakewarden.tables.warehouse import cold_tables


@dataclass(frozen=True)
class StorageJob(Statement):
    """STORAGE FLUSH and STORAGE COMPACT of one table, or of all in a namespace (the session's where none is named)."""

    operation: Literal["flush", "compact"]
    table: Ref | None = None
    namespace: str | None = None
    look: bool = False
    """Of a compaction: opens each scope."""
    dry_run: bool = False
    ratio: float | None = None
    """Of a compaction: leaves a file with more than so many times the rows of the newer ones together."""
    more: Pairs = ()
    """Of WITH: options of the operation, by their names there."""


@dataclass(frozen=True)
class MoveTable(OnTable):
    """STORAGE MOVE TABLE; `storage` is None for CANCEL."""

    storage: str | None
    dry_run: bool = False


@dataclass(frozen=True)
class KillJob(Statement):
    id: str


@dataclass(frozen=True)
class KillLiveQuery(Statement):
    id: str


@dataclass(frozen=True)
class ExportUserData(Statement):
    """Of the session's own user."""


def read_storage(read: StatementReader) -> Statement:
    """Reads what follows STORAGE."""
    match read.one_of("CHECK", "FLUSH", "COMPACT", "MOVE"):
        case "CHECK":
            storage_id = read.name_or_text("a storage")
            return CheckStorage(storage_id, read.word("EXTENDED"))
        case "FLUSH":
            return _read_job(read, "flush")
        case "COMPACT":
            return _read_job(read, "compact")
        case _:
            return _read_move(read)


def _read_job(read: StatementReader, operation: Literal["flush", "compact"]) -> Statement:
    one = read.one_of("TABLE", "ALL") == "TABLE"
    table, namespace = (_qualified(read, operation), None) if one else (None, in_namespace(read))
    ratio = read.number("a ratio") if operation == "compact" and read.word("RATIO") else None
    look = operation == "compact" and read.word("LOOK")
    more = more_options(read)
    return StorageJob(operation, table, namespace, look, read.word("DRY", "RUN"), ratio, more)


def _read_move(read: StatementReader) -> Statement:
    read.expect("TABLE")
    table = _qualified(read, "move")
    to = read.one_of("TO", "CANCEL") == "TO"
    return MoveTable(table, read.name_or_text("a storage") if to else None, to and read.word("DRY", "RUN"))


def _qualified(read: StatementReader, operation: str) -> Ref:
    table = read.ref()
    if table.namespace is None:
        raise InvalidArgument(f"STORAGE {operation.upper()} TABLE {table}: write it with its namespace, as in chat.{table}")
    return table


def read_kill(read: StatementReader) -> Statement:
    kind = KillJob if read.one_of("JOB", "LIVE QUERY") == "JOB" else KillLiveQuery
    return kind(_job_id(read))


def _job_id(read: StatementReader) -> str:
    """Reads an id, quoted or bare: letters, digits and dashes up to the end."""
    if read.at_text:
        return read.text("an id")
    found = read.rest()
    if not found:
        raise read.failure("expected an id")
    return found


def read_export(read: StatementReader) -> Statement:
    if read.word("USER", "DATA"):
        return ExportUserData()
    what = read.one_of("TABLE", "DATABASE")
    read.rest()
    return UnsupportedStatement("EXPORT TABLE") if what == "TABLE" else Forbidden("EXPORT DATABASE")


_DONE = {True: "done", False: "queued"}
"""By whether the session waits."""
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
    namespace_of(context.catalog, namespace)
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
    return StartedJobs(f"{what} {_DONE[context.wait]}. Job ID: {', '.join(ids)}", ids, statement.table is None)


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
    request = new_request("export", (), user=context.principal.user)
    return _one_started(context, request, lambda job: f"export to {own_place(context.warehouse, job.job_id)}")


def _one_started(context: Context, request: Request, what: Callable[[Job], str]) -> StartedJobs | StatementDone:
    """Requests a job, and runs it if the session waits. Raises as `_check_done`."""
    job = _requested(context, request)
    if job is None:
        return StatementDone(_ACTIVE)
    if context.wait:
        runner = Runner(context.services.operator())
        runner.run_waiting([job.job_id])
        _check_done(context, [job.job_id], runner)
    return StartedJobs(f"{what(job)} {_DONE[context.wait]}. Job ID: {job.job_id}", (job.job_id,))


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
    request = new_request("move", (str(table.name),), to=statement.storage)
    if statement.dry_run:
        return planned(context, request)
    if statement.storage is None:
        if table.move is None:
            return StatementDone(f"skipped: {table.name} is not being moved")
        return summary_of(f"move {table.name}", cancel_move(context.services.operator(), table.name))
    if table.move is None and table.options.storage_id == statement.storage:
        return StatementDone(f"skipped: {table.name} is already on storage {statement.storage!r}")
    return _one_started(context, request, lambda _: f"move of {table.name} to storage {statement.storage!r}")


def kill_job(context: Context, statement: KillJob) -> StatementDone:
    job = context.services.operator().jobs.kill(statement.id)
    return StatementDone(f"job {job.job_id} {job.status}")


def kill_live_query(context: Context, statement: KillLiveQuery) -> StatementDone:
    query = LiveQueries(context.warehouse.state).kill(statement.id)
    return StatementDone(f"live query {query.live_id} will end at its next poll")


def _asks(context: Context, statement: StorageJob, made: Made) -> Iterator[Ask]:
    act = act_of(statement.operation)
    if statement.table is not None:
        yield ask_on(context, statement.table, act, made)
    else:
        yield Ask(act, TableOf(TableName(statement.namespace or context.namespace or "", ""), "USER"))


_JOBS = Right(_asks, "`flush` or `compact`")

ROWS = registered(
    StatementSpec(
        "STORAGE FLUSH or COMPACT TABLE n.t or ALL [IN NAMESPACE n] [RATIO n] [LOOK] [WITH (option = value, …)] [DRY RUN]",
        "flushes or compacts tables, as jobs",
        _JOBS,
        storage_job,
        requires=cold("flushes and compactions"),
    ),
    StatementSpec(
        "STORAGE MOVE TABLE n.t TO s [DRY RUN] or CANCEL",
        "moves a table to another storage, as a job",
        operation_right("move"),
        move_table,
        requires=cold("moves between storages"),
        audited=AuditEntrySpec("MOVE_TABLE", "table", "table"),
    ),
    StatementSpec("KILL JOB 'id'", "ends a job", in_warehouse("kill jobs"), kill_job, audited=AuditEntrySpec("KILL_JOB", "job")),
    StatementSpec(
        "KILL LIVE QUERY 'id'",
        "ends a subscription",
        in_warehouse("kill jobs"),
        kill_live_query,
        audited=AuditEntrySpec("KILL_LIVE_QUERY", "live"),
    ),
    StatementSpec(
        "EXPORT USER DATA",
        "exports all that the session's user has, as a job",
        in_warehouse("export their own data"),
        export_user_data,
    ),
)

GRAMMARS: Mapping[str, Grammar] = {"STORAGE": read_storage, "KILL": read_kill, "EXPORT": read_export}
