"""`lakewarden plan` shows what an operation would do; `lakewarden apply` does exactly that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from lakewarden.base.quantities import grouped
from lakewarden.catalog.operations import PLANNABLE
from lakewarden.catalog.report import ScopeReport, check_done
from lakewarden.cli.context import Invocation, emit_reports, invocation, planned, report_row
from lakewarden.cli.operations import OPTIONS, options_of, options_of_any, taking
from lakewarden.cli.output import Row
from lakewarden.errors import Corrupt, InvalidArgument, NotFound
from lakewarden.maintenance.options import option_names, says_something
from lakewarden.maintenance.plans.value import MAX_LINE, PLAN_ID, Plan, read_plans


def register(app: typer.Typer) -> None:
    app.command()(taking(plan, *options_of_any()))
    app.command()(apply)


def plan(
    context: typer.Context,
    tables: list[str] | None = typer.Argument(None, help="Tables as namespace.table; by default all."),
    operation: str | None = typer.Option(
        None, help=f"Plan this: {', '.join(PLANNABLE)}. Without it, all that maintenance would do now."
    ),
    out: Path | None = typer.Option(None, help="Write the plan to this file, for `lakewarden apply`."),
    everything: bool = typer.Option(False, "--all", help="List every scope, with the reason."),
    limit: int | None = typer.Option(None, min=0, help="List this many scopes."),
    **given: object,
) -> None:
    """Show what maintenance would do now, a line a table and operation; with --operation or --out, create a plan of it."""
    call = invocation(context)
    options = options_of(given)
    look = bool(options.get("look", False))
    named = {name for name, value in options.items() if says_something(value) and name != "look"}
    if operation is None and named:
        takers = " or ".join(name for name in PLANNABLE if named <= option_names(name)) or "none takes all"
        raise typer.BadParameter(
            f"name the --operation that takes {' and '.join(OPTIONS[name].flag for name in sorted(named))}: {takers}"
        )
    show = _Shown(everything, limit)
    names = tables or []
    with call.lake("plan") as lake:
        if operation is None and out is None:
            proposed = lake.proposed(*names, look=look)
            show.emit(call, proposed)
            check_done(proposed)
            return
        plans = lake.maintenance.plans
        made = plans.previews(*names, look=look) if operation is None else [plans.preview(operation, *names, **options)]
    if out is not None:
        _write(out, [plan for plan in made if plan.scopes or operation is not None])
    failed = [report for plan in made for report in plan.failed]
    show.emit(call, [report for plan in made for report in planned(plan)] + failed, "plan_id")
    check_done(failed)


@dataclass(frozen=True)
class _Shown:
    """How much of what is planned is printed."""

    everything: bool
    limit: int | None

    def emit(self, call: Invocation, reports: Sequence[ScopeReport], *more: str) -> None:
        if self.everything or self.limit is not None:
            rows = [report_row(report) for report in reports[: None if self.everything else self.limit]]
            shown = ("table", "user", "operation", "reason", "version", "files", "bytes")
        else:
            # of each table, operation and plan; those that failed apart
            works = grouped(reports, lambda one: (str(one.scope.table), one.operation, one.plan_id, one.outcome))
            rows = [_sum(several) for several in works.values()]
            sums = ("files_before", "files_after", "bytes") if any(report.state for report in reports) else ("metrics",)
            shown = ("table", "operation", "scopes", "reason", *sums)
        if rows or not reports or call.as_json:
            call.emit(rows, empty="nothing is due", columns=(*shown, *more))
        if (left := len(reports) - len(rows)) and self.limit is not None and not call.as_json:
            call.emit([], empty=f"and {left} more: --all lists every scope")


def _sum(reports: Sequence[ScopeReport]) -> Row:
    """One line for all of them; of a single scope, its own with the sums beside."""
    own, reasons = report_row(reports[0]), Counter(report.reason for report in reports)
    states = [report.state for report in reports if report.state]
    metrics: Counter[str] = sum((Counter(report.metrics) for report in reports), Counter())
    before = sum(state.files for state in states) if states else None
    after = None if before is None else max(before + metrics["files_added"] - metrics["files_removed"], 0)
    size = sum(state.bytes for state in states) if states else None
    summed = {"scopes": len(reports), "files_before": before, "files_after": after, "bytes": size, "metrics": dict(metrics)}
    (reason, _), *others = reasons.most_common()
    also = f", and {len(others)} other reason{'s' * (len(others) > 1)}" if others else ""
    shared = own if len(reports) == 1 else {name: own[name] for name in ("table", "operation", "outcome", "error", "plan_id")}
    return {**shared, "reason": reason + also, **summed}


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
