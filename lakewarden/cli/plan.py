"""`lakewarden plan` shows what an operation would do; `lakewarden apply` does exactly that."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import typer

from lakewarden.cli.context import emit_reports, invocation, report_row, split_names
from lakewarden.cli.maintain import LOOK
from lakewarden.errors import Corrupt, InvalidArgument, NotFound
from lakewarden.operations.plans.value import MAX_LINE, PLAN_ID, Plan, read_plans
from lakewarden.operations.request import PlanOptions, new_request
from lakewarden.specs import PLANNABLE


def register(app: typer.Typer) -> None:
    for command in (plan, apply):
        app.command()(command)


def plan(  # noqa: PLR0913, PLR0917  # whatever an operation takes
    context: typer.Context,
    tables: list[str] | None = typer.Argument(None, help="Tables as namespace.table; by default all."),
    operation: str | None = typer.Option(
        None, help=f"Plan this: {', '.join(PLANNABLE)}. Without it, all that maintenance would do now."
    ),
    out: Path | None = typer.Option(None, help="Write the plan to this file, for `lakewarden apply`."),
    user: str | None = typer.Option(None, help="Only this user's scope."),
    version: int | None = typer.Option(None, help="restore: the Delta version to go back to."),
    timestamp: str | None = typer.Option(None, help="restore: a time, ISO 8601; without an offset it is UTC."),
    discard_pending: bool = typer.Option(False, help="restore: drop the scope's pending rows instead of flushing them first."),
    retain: float | None = typer.Option(None, help="vacuum: hours to keep removed files; below 168 needs --force."),
    force: bool = typer.Option(False, help="vacuum: allow a retention below 168 hours."),
    ignore_checks: bool = typer.Option(False, "--ignore-checks", help="vacuum: scopes that failed a check, too."),
    zorder: list[str] = typer.Option([], help="optimize: columns to cluster by; repeat, or separate by commas."),
    look: bool = LOOK,
    deep: bool = typer.Option(False, help="erase: read every object under every storage to search for remains."),
    to: str | None = typer.Option(None, help="move: the storage. export: a directory or URI."),
    restored: bool = typer.Option(False, help="repair: the warehouse or its data was just restored from a backup."),
) -> None:
    """Show what maintenance would do now and why, and change nothing; with --operation or --out, create a plan of it."""
    from lakewarden.operations.restore.scope import parse_moment  # imports Delta, which other commands do not need

    call = invocation(context)
    options = PlanOptions(
        user=user,
        version=version,
        timestamp=None if timestamp is None else parse_moment(timestamp),
        discard_pending=discard_pending,
        retain_hours=retain,
        force=force,
        ignore_checks=ignore_checks,
        zorder=tuple(split_names(zorder)),
        look=look,
        deep=deep,
        to=to,
        restored=restored,
    )
    if operation is None and new_request("flush", (), **options) != new_request("flush", (), look=look):
        raise typer.BadParameter("name the --operation that takes these options")
    shown = ("table", "user", "operation", "reason", "version", "files", "bytes")
    names = tables or []
    with call.lake("plan") as lake:
        if operation is None and out is None:
            call.emit([report_row(report) for report in lake.proposed(*names, look=look)], empty="nothing is due", columns=shown)
            return
        plans = lake.plan_due(*names, look=look) if operation is None else [lake.planned(operation, *names, **options)]
    if out is not None:
        _write(out, plans)
    rows = [report_row(line.planned(one.operation, one.plan_id)) for one in plans for line in one.scopes]
    call.emit(rows, empty="nothing is due", columns=(*shown, "plan_id"))


def apply(context: typer.Context, plan: str = typer.Argument(help="A plan's id, or a file that `plan --out` wrote.")) -> None:
    """Apply a plan exactly and once; scopes that have changed since fail, the others are done."""
    call = invocation(context)
    given = [plan] if PLAN_ID.fullmatch(plan) else _read(Path(plan))
    with call.lake("apply") as lake:
        reports = [report for one in given for report in lake.apply(one)]
    emit_reports(call, reports, empty="skipped: nothing was planned")


def _write(out: Path, plans: Iterable[Plan]) -> None:
    try:
        with out.open("wb") as file:
            file.writelines(line + b"\n" for one in plans for line in one.lines())
    except OSError as error:
        raise InvalidArgument(f"cannot write the plan to {out}: {error.strerror}") from error


def _read(path: Path) -> list[Plan]:
    """Raises:
    NotFound, InvalidArgument, Corrupt: the file does not exist, or is not a plan.
    """
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            found = list(read_plans(iter(lambda: file.readline(MAX_LINE), "")))
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {path}, and it is not the id of a plan, such as PL-0123456789ab-01234567") from error
    except OSError as error:
        raise InvalidArgument(f"cannot read the plan {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Corrupt(f"{path} is not a plan: {error}") from error
    if not found:
        raise Corrupt(f"{path} does not contain a plan")
    return found
