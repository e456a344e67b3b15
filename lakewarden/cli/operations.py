"""The commands of operations: those made from the table of operations (`flush`, `compact`, …), and `move`, `tag` and `repair`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, cast

import typer

from lakewarden.catalog.operations import SPECS, Command, Operation, OperationSpec, PlanOptions, Request
from lakewarden.cli.context import emit_planned, emit_reports, invocation, split_names
from lakewarden.cli.output import Row, cell
from lakewarden.delta.past import parse_moment
from lakewarden.errors import ScopesFailed

if TYPE_CHECKING:
    from lakewarden.maintenance.repair.report import RepairReport


OPTIONS: Mapping[str, Field[object]] = {one.name: one for one in fields(Request) if "help" in one.metadata}
"""The options of all operations."""

_TYPES: Mapping[str, object] = {
    "str | None": str | None,
    "int | None": int | None,
    "float | None": float | None,
    "datetime | None": str | None,
    "tuple[str, ...]": list[str],
    "bool": bool,
}
"""How an option of that type is given on the command line."""

_FEW = 4


def register(app: typer.Typer) -> None:
    for operation, spec in SPECS.items():
        if spec.command is not None:
            app.command(operation, help=f"{spec.does}.")(_command(operation, spec, spec.command))
    for command in (move, tag, repair):
        app.command()(command)


def _command(operation: Operation, spec: OperationSpec, command: Command) -> Callable[..., None]:
    def run(context: typer.Context, **given: object) -> None:
        call = invocation(context)
        tables = cast("list[str]", [given.pop("table")] if spec.tables == "one" else given.pop("tables", []))
        dry_run = bool(given.pop("dry_run", False))
        with call.lake(operation) as lake:
            reports = lake.run(operation, *tables, dry_run=dry_run, **options_of(given))
        emit_reports(call, reports, empty=command.nothing)

    return taking(run, *_tables(spec), *(option(name) for name in OPTIONS if name in spec.options), *_dry_run(command))


def taking(command: Callable[..., None], *options: Parameter) -> Callable[..., None]:
    """The command, which takes these options instead of any."""
    own = [each for each in signature(command, eval_str=True).parameters.values() if each.kind != Parameter.VAR_KEYWORD]
    command.__signature__ = Signature([*(each.replace(kind=Parameter.KEYWORD_ONLY) for each in own), *options])  # type: ignore[attr-defined]  # what typer reads
    return command


def option(name: str, *, of_any: bool = False) -> Parameter:
    """An option of a command. `of_any`: of the command for all operations; its text says which take it, where they are few."""
    found = OPTIONS[name]
    takers = [operation for operation, spec in SPECS.items() if name in spec.options]
    whose = f"{', '.join(takers)}: " if of_any and len(takers) < _FEW else ""
    default = [] if found.type == "tuple[str, ...]" else found.default
    return _parameter(name, _TYPES[str(found.type)], typer.Option(default, flag_of(name), help=whose + found.metadata["help"]))


def flag_of(name: str) -> str:
    return OPTIONS[name].metadata["flag"] or f"--{name.replace('_', '-')}"


def _tables(spec: OperationSpec) -> Iterator[Parameter]:
    if spec.tables == "one":
        yield _parameter("table", str, typer.Argument(help="The table, as namespace.table."))
    elif spec.tables == "any":
        yield _parameter("tables", list[str], typer.Argument(help="Tables as namespace.table."))


def _dry_run(command: Command) -> Iterator[Parameter]:
    if command.dry_run:
        yield _parameter("dry_run", bool, typer.Option(False, "--dry-run", help=command.dry_run))


def _parameter(name: str, type_: object, default: object) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=type_, default=default)


def options_of(given: Mapping[str, object]) -> PlanOptions:
    """The options as a request has them: times parsed, names one by one."""
    found = dict(given)
    if (timestamp := found.get("timestamp")) is not None:
        found["timestamp"] = parse_moment(str(timestamp))
    if "zorder" in found:
        found["zorder"] = tuple(split_names(cast("list[str]", found["zorder"])))
    return cast("PlanOptions", found)


def move(
    context: typer.Context,
    table: str = typer.Argument(help="The table, as namespace.table."),
    to: str | None = typer.Option(None, help="The storage to move to."),
    cancel: bool = typer.Option(False, "--cancel", help="Cancel a move that has not switched yet."),
    dry_run: bool = typer.Option(False, help="Show what would be moved, and change nothing."),
) -> None:
    """Move a table to another storage, while reads and writes continue; repeat it to continue an interrupted move."""
    call = invocation(context)
    if cancel == (to is not None):
        raise typer.BadParameter("give either --to STORAGE, or --cancel")
    if dry_run:
        if cancel:
            raise typer.BadParameter("--dry-run shows a move --to STORAGE, and not what --cancel does")
        with call.lake("move") as lake:
            emit_planned(call, lake.plan("move", table, to=to), empty="skipped: there is nothing to move")
        return
    with call.lake("move") as lake:
        reports = lake.cancel_move(table) if to is None else lake.move(table, to)
    emit_reports(call, reports, empty="skipped: there is nothing to move")


def tag(
    context: typer.Context,
    table: str = typer.Argument(help="The table, as namespace.table."),
    name: str = typer.Option(help="The tag's name."),
    user: str | None = typer.Option(None, help="Only this user's scope."),
    version: int | None = typer.Option(None, help="The version to name; by default the newest."),
    drop: bool = typer.Option(False, "--drop", help="Remove the tag instead; the next vacuum may remove the version."),
) -> None:
    """Name a version of a scope, so that no vacuum removes it."""
    call = invocation(context)
    if drop and version is not None:
        raise typer.BadParameter("--drop removes a tag by its name: omit --version")
    with call.lake("tag") as lake:
        if drop:
            lake.drop_tag(table, name, user=user)
            call.emit([], empty=f"tag {name} removed")
            return
        made = lake.tag(table, name, user=user, version=version)
    call.emit([{"table": table, "user": user, "name": made.name, "version": made.version}], empty="")


def repair(
    context: typer.Context,
    table: str | None = typer.Argument(None, help="The table, as namespace.table; by default all tables."),
    user: str | None = typer.Option(None, help="Only this user's scopes."),
    restored: bool = typer.Option(False, "--restored", help="The warehouse or its data was just restored from a backup."),
    dry_run: bool = typer.Option(False, help="Show what is wrong and what would be done, and change nothing."),
) -> None:
    """Repair damaged write logs and tables, and report what was recovered and what is lost."""
    call = invocation(context)
    with call.lake("repair") as lake:
        found = lake.repair(table, user=user, dry_run=dry_run, restored=restored)
    shown = ("table", "user", "subject", "outcome", "rows_recovered", "rows_quarantined", "rows_lost", "reason")
    call.emit(
        [_row(one) for one in found],
        empty="nothing to repair: there are no scopes",
        columns=(*shown, "plan_id") if dry_run else shown,
    )
    faults = [(one.scope, one.fault) for one in found if one.fault]
    if faults:
        scope, first = faults[0]
        raise ScopesFailed(
            first.code, f"{len(faults)} of {len(found)} could not be repaired; the first, {scope}: {first.message}"
        )


def _row(one: RepairReport) -> Row:
    return {
        "table": str(one.scope.table),
        "user": one.scope.user,
        "subject": one.subject,
        "outcome": one.outcome,
        "reason": one.reason,
        "put_aside": cell(one.put_aside),
        "rows_recovered": one.rows_recovered,
        "rows_quarantined": one.rows_quarantined,
        "rows_lost": one.rows_lost,
        "writers_uncertain": cell(one.writers_uncertain),
        "version": one.version,
        **({"plan_id": one.plan_id} if one.plan_id else {}),
        "error": None if one.fault is None else {"code": one.fault.code, "message": one.fault.message},
    }
