"""`lakewarden plan` shows what an operation would do; `lakewarden apply` does exactly that."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import typer

from lakewarden.cli.context import emit_reports, invocation, report_row
from lakewarden.cli.operations import OPTIONS, option, options_of, taking
from lakewarden.errors import Corrupt, InvalidArgument, NotFound
from lakewarden.operations.plans.value import MAX_LINE, PLAN_ID, Plan, read_plans
from lakewarden.operations.request import new_request
from lakewarden.specs import PLANNABLE


def register(app: typer.Typer) -> None:
    app.command()(taking(plan, *(option(name, of_any=True) for name in OPTIONS)))
    app.command()(apply)


def plan(
    context: typer.Context,
    tables: list[str] | None = typer.Argument(None, help="Tables as namespace.table; by default all."),
    operation: str | None = typer.Option(
        None, help=f"Plan this: {', '.join(PLANNABLE)}. Without it, all that maintenance would do now."
    ),
    out: Path | None = typer.Option(None, help="Write the plan to this file, for `lakewarden apply`."),
    **given: object,
) -> None:
    """Show what maintenance would do now and why, and change nothing; with --operation or --out, create a plan of it."""
    call = invocation(context)
    options = options_of(given)
    look = options.get("look", False)
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
