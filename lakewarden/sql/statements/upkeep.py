"""Restore, optimize and vacuum in Delta's syntax, and plans: DRY RUN stores one and returns its id, APPLY PLAN carries it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from lakewarden.base.scope import TableName
from lakewarden.catalog.access import TableOf
from lakewarden.catalog.model import Table
from lakewarden.catalog.operations import SPECS
from lakewarden.catalog.report import ScopeReport, check_done
from lakewarden.catalog.state.job import outcome_of
from lakewarden.delta.past import parse_moment
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.maintenance.plans.store import PlanLog
from lakewarden.maintenance.request import Request, new_request, with_texts
from lakewarden.maintenance.restore import RestoreOptions
from lakewarden.sql.context import Context
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.ref import Pairs
from lakewarden.sql.results import ResultRows, Row, StatementDone, listing
from lakewarden.sql.rights import Ask, Made, Right, cold, scopes_right
from lakewarden.sql.statement import AuditEntrySpec, Grammar, OnScopes, Statement, StatementSpec, UnsupportedStatement, registered
from lakewarden.sql.statements.clauses import as_declared, more_options, options_of
from lakewarden.sql.system_listings import WHOLE, texts
from lakewarden.tables.warehouse import live_tables


@dataclass(frozen=True)
class Optimize(OnScopes):
    zorder: tuple[str, ...] = ()
    look: bool = False
    """Opens each scope, also those in which nothing is to do by what the state knows."""
    where: str | None = None
    """A condition on partition columns, as written."""
    more: Pairs = ()
    """As in `StorageJob`; so below."""


@dataclass(frozen=True)
class Vacuum(OnScopes):
    retain_hours: float | None = None
    force: bool = False
    look: bool = False
    """As in `Optimize`."""
    more: Pairs = ()


@dataclass(frozen=True)
class Restore(OnScopes):
    """Exactly one of `version` and `timestamp`; the latter as written."""

    version: int | None = None
    timestamp: str | None = None
    more: Pairs = ()


@dataclass(frozen=True)
class ApplyPlan(Statement):
    id: str


def read_restore(read: StatementReader) -> Statement:
    """Reads what follows RESTORE."""
    if read.word("DATABASE"):
        read.rest()
        return UnsupportedStatement("RESTORE DATABASE")
    read.word("TABLE")
    table = read.ref()
    read.expect("TO")
    if read.one_of("VERSION", "TIMESTAMP") == "VERSION":
        read.expect("AS", "OF")
        return Restore(table, read.whole("a version"), more=more_options(read), **_manner(read))
    read.expect("AS", "OF")
    return Restore(table, timestamp=read.text("a moment"), more=more_options(read), **_manner(read))


def read_optimize(read: StatementReader) -> Statement:
    read.word("TABLE")
    table = read.ref()
    where = read.source(read.condition, "a condition") if read.word("WHERE") else None
    columns = tuple(read.listed(read.column)) if read.word("ZORDER", "BY") else ()
    look = read.word("LOOK")
    return Optimize(table, columns, look, where, more_options(read), **_manner(read))


def read_vacuum(read: StatementReader) -> Statement:
    read.word("TABLE")
    table = read.ref()
    hours: float | None = None
    force = False
    if read.word("RETAIN"):
        hours = read.number("a number of hours")
        read.expect("HOURS")
        force = read.word("FORCE")
    look = read.word("LOOK")
    return Vacuum(table, hours, force, look, more_options(read), **_manner(read))


class _Manner(TypedDict):
    dry_run: bool
    all_users: bool


def _manner(read: StatementReader) -> _Manner:
    """Reads DRY RUN and FOR ALL USERS, in either order."""
    dry_run = read.word("DRY", "RUN")
    all_users = read.word("FOR", "ALL", "USERS")
    return _Manner(dry_run=dry_run or read.word("DRY", "RUN"), all_users=all_users)


def read_apply(read: StatementReader) -> Statement:
    """Reads what follows APPLY."""
    read.expect("PLAN")
    return ApplyPlan(read.text("the id of a plan"))


# Executes DRY RUN, which stores a plan and returns its id, and APPLY PLAN.
def planned(context: Context, request: Request) -> ResultRows:
    """A row for each scope: what would be done, or why nothing would."""
    columns = texts("user", "outcome") | {"version": WHOLE} | texts("reason", "plan_id")
    return listing(
        columns,
        [
            vars(report)
            | {"user": report.scope.user}
            | ({} if report.fault is None else {"reason": f"{report.fault.code}: {report.fault.message}"})
            for report in context.services.operator().preview(request).reports
        ],
    )


def applied(context: Context, statement: ApplyPlan) -> list[ScopeReport]:
    """Raises as `Operator.apply`."""

    def permit(request: Request) -> None:
        for ask in asks_of_request(context, request):
            context.door.allow(ask.act, ask.table)

    return context.services.operator().apply(statement.id, permit)


def apply_plan(context: Context, statement: ApplyPlan) -> StatementDone:
    reports = applied(context, statement)
    return summary_of(f"plan {statement.id}", reports) if reports else StatementDone("skipped: nothing was planned")


def optimize(context: Context, statement: Optimize) -> StatementDone | ResultRows:
    table = context.table(statement.table)
    zorder = tuple(as_declared(table.schema.names, statement.zorder))
    user, where = _whose(context, table, statement), statement.where
    request = new_request("optimize", (str(table.name),), user=user, zorder=zorder, look=statement.look, where=where)
    request = with_texts(request, options_of(statement.more))
    return planned(context, request) if statement.dry_run else _run_now(context, request)


def vacuum(context: Context, statement: Vacuum) -> StatementDone | ResultRows:
    table = context.table(statement.table)
    hours, force = statement.retain_hours, statement.force
    user = _whose(context, table, statement)
    request = new_request("vacuum", (str(table.name),), user=user, retain_hours=hours, force=force, look=statement.look)
    request = with_texts(request, options_of(statement.more))
    return _files(context.services.operator().preview(request).reports) if statement.dry_run else _run_now(context, request)


def _files(reports: Sequence[ScopeReport]) -> ResultRows:
    """The files that a vacuum would remove.

    Raises as `_told`.
    """
    summary_of("vacuum", reports)
    found: list[Row] = [
        {"path": f"{report.uri}/{file}", "plan_id": report.plan_id} for report in reports for file in report.files
    ]
    return listing(texts("path", "plan_id"), found)


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
    return summary_of(f"{request.operation} {request.tables[0]}", context.services.operator().run(request))


def _whose(context: Context, table: Table, statement: Optimize | Vacuum | Restore) -> str | None:
    return None if statement.all_users else context.owner(table)


def summary_of(what: str, reports: Sequence[ScopeReport]) -> StatementDone:
    """Raises ScopesFailed: some scopes failed; it has the code of the first fault. The other scopes are done."""
    check_done(reports)
    if all(report.outcome == "skipped" for report in reports):
        return StatementDone(f"skipped: {reports[0].reason if reports else 'no scopes'}")
    return StatementDone(f"{what}: {outcome_of(reports)[1]}")


# The rights that applying a plan needs: those of the operation's own statement. Knowing a plan's id grants nothing.
def asks_of_plan(context: Context, statement: ApplyPlan, _: Made) -> Iterator[Ask]:
    """The rights to check before a plan is applied; empty if the plan does not exist, which applying it reports."""
    request = PlanLog(context.warehouse.state, context.warehouse.erasures).request(statement.id)
    if request is not None:
        yield from asks_of_request(context, request)


def asks_of_request(context: Context, request: Request) -> Iterator[Ask]:
    """Raises Unsupported: the operation has no statement."""
    spec = SPECS[request.operation]
    if spec.act is None:
        raise Unsupported(f"{request.operation} has no SQL statement; apply its plan with `lakewarden apply`")
    names = [TableName.parse(name) for name in request.tables] or [table.name for table in live_tables(context.catalog)]
    for name in names:
        table = context.guarded(name) or TableOf(name, "USER")
        own = table.type == "SHARED" or request.user == context.principal.user
        yield Ask("write" if own and spec.own else spec.act, table)


_APPLIES = Right(asks_of_plan, "that of the planned operation")

ROWS = registered(
    StatementSpec(
        "OPTIMIZE t [WHERE condition on partition columns] [ZORDER BY (…)] [LOOK] [WITH (option = value, …)] [FOR ALL USERS]"
        " [DRY RUN]",
        "packs or sorts files",
        scopes_right("optimize"),
        optimize,
        requires=cold("OPTIMIZE"),
    ),
    StatementSpec(
        "VACUUM t [RETAIN n HOURS [FORCE]] [LOOK] [WITH (option = value, …)] [FOR ALL USERS] [DRY RUN]",
        "removes files that no kept version needs",
        scopes_right("vacuum"),
        vacuum,
        requires=cold("VACUUM"),
    ),
    StatementSpec(
        "RESTORE [TABLE] t TO VERSION AS OF n or TIMESTAMP AS OF '…' [WITH (option = value, …)] [FOR ALL USERS] [DRY RUN]",
        "goes back to a version",
        scopes_right("restore"),
        restore,
        requires=cold("RESTORE"),
    ),
    StatementSpec(
        "APPLY PLAN 'id'",
        "does what a dry run planned",
        _APPLIES,
        apply_plan,
        audited=AuditEntrySpec("APPLY_PLAN", "plan"),
    ),
)

GRAMMARS: Mapping[str, Grammar] = {
    "OPTIMIZE": read_optimize,
    "VACUUM": read_vacuum,
    "RESTORE": read_restore,
    "APPLY": read_apply,
}
