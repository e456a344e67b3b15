"""The commands of operations: those made from the table of operations (`flush`, `compact`, …), and `move`, `tag` and `repair`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, cast, get_type_hints

import typer

from lakewarden.catalog.operations import PLANNABLE, SPECS, Command, Operation, OperationSpec
from lakewarden.cli.context import emit_reports, invocation, planned, split_names
from lakewarden.cli.output import Row, cell
from lakewarden.delta.past import parse_moment
from lakewarden.errors import ScopesFailed
from lakewarden.maintenance.options import OptionValues, option_names, options_type

if TYPE_CHECKING:
    from lakewarden.maintenance.repair.report import RepairReport


@dataclass(frozen=True)
class _Shown:
    """An option on the command line."""

    kind: object
    default: object
    flag: str
    help: str

    @property
    def several(self) -> bool:
        return isinstance(self.default, tuple)


def _options_of(operation: Operation) -> dict[str, _Shown]:
    kind = options_type(operation)
    hints = get_type_hints(kind)
    return {
        one.name: _Shown(
            _TYPES.get(hints[one.name], hints[one.name]),
            one.default,
            one.metadata["flag"] or f"--{one.name.replace('_', '-')}",
            one.metadata["help"],
        )
        for one in fields(kind)
        if one.metadata
    }


_TYPES: Mapping[object, object] = {datetime | None: str | None, tuple[str, ...]: list[str]}
"""How an option of such a type is given, where that is another."""

OPTIONS: Mapping[str, _Shown] = {name: shown for operation in PLANNABLE for name, shown in _options_of(operation).items()}
"""The options of all operations, by name."""

_FEW = 4


def register(app: typer.Typer) -> None:
    for operation, spec in SPECS.items():
        if spec.command is not None:
            app.command(operation, help=f"{spec.does}.")(_command(operation, spec, spec.command))
    app.command()(taking_options(move, "move"))
    app.command()(tag)
    app.command()(taking_options(repair, "repair"))


def _command(operation: Operation, spec: OperationSpec, command: Command) -> Callable[..., None]:
    def run(context: typer.Context, **given: object) -> None:
        call = invocation(context)
        tables = cast("list[str]", [given.pop("table")] if spec.tables == "one" else given.pop("tables", []))
        dry_run = bool(given.pop("dry_run", False))
        with call.lake(operation) as lake:
            reports = lake.run(operation, *tables, dry_run=dry_run, **options_of(given))
        emit_reports(call, reports, empty=command.nothing)

    return taking(
        run, *_tables(spec), *(_option(name, shown) for name, shown in _options_of(operation).items()), *_dry_run(command)
    )


def taking(command: Callable[..., None], *options: Parameter) -> Callable[..., None]:
    """The command, which takes these options instead of any."""
    own = [each for each in signature(command, eval_str=True).parameters.values() if each.kind != Parameter.VAR_KEYWORD]
    command.__signature__ = Signature([*(each.replace(kind=Parameter.KEYWORD_ONLY) for each in own), *options])  # type: ignore[attr-defined]  # what typer reads
    return command


def taking_options(command: Callable[..., None], operation: Operation) -> Callable[..., None]:
    """The command, which takes the operation's options, too, but for those that it asks for by parameters of its own."""
    own = signature(command).parameters
    return taking(command, *(_option(name, shown) for name, shown in _options_of(operation).items() if name not in own))


def options_of_any() -> Iterator[Parameter]:
    """The options of a command for all operations. The text of each says which take it, where they are few."""
    for name, shown in OPTIONS.items():
        takers = [operation for operation in PLANNABLE if name in option_names(operation)]
        yield _option(name, shown, f"{', '.join(takers)}: " if len(takers) < _FEW else "")


def _option(name: str, shown: _Shown, whose: str = "") -> Parameter:
    default = [] if shown.several else shown.default
    return _parameter(name, shown.kind, typer.Option(default, shown.flag, help=whose + shown.help))


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


def options_of(given: Mapping[str, object]) -> OptionValues:
    """The options as a request takes them: times parsed, names one by one."""
    found = dict(given)
    if (timestamp := found.get("timestamp")) is not None:
        found["timestamp"] = parse_moment(str(timestamp))
    for name in (name for name in found if OPTIONS[name].several):
        found[name] = tuple(split_names(cast("list[str]", found[name])))
    return found


def move(
    context: typer.Context,
    table: str = typer.Argument(help="The table, as namespace.table."),
    to: str | None = typer.Option(None, help="The storage to move to."),
    cancel: bool = typer.Option(False, "--cancel", help="Cancel a move that has not switched yet."),
    dry_run: bool = typer.Option(False, help="Show what would be moved, and change nothing."),
    **given: object,
) -> None:
    """Move a table to another storage, while reads and writes continue; repeat it to continue an interrupted move."""
    call = invocation(context)
    if cancel == (to is not None):
        raise typer.BadParameter("give either --to STORAGE, or --cancel")
    if dry_run and cancel:
        raise typer.BadParameter("--dry-run shows a move --to STORAGE, and not what --cancel does")
    with call.lake("move") as lake:
        if dry_run:
            reports = planned(lake.plan("move", table, to=to, **options_of(given)))
        else:
            reports = lake.cancel_move(table) if to is None else lake.move(table, to, **options_of(given))
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
    dry_run: bool = typer.Option(False, help="Show what is wrong and what would be done, and change nothing."),
    **given: object,
) -> None:
    """Repair damaged write logs and tables, and report what was recovered and what is lost."""
    call = invocation(context)
    with call.lake("repair") as lake:
        found = lake.repair(table, dry_run=dry_run, **options_of(given))
    shown = ("table", "user", "subject", "outcome", "rows_recovered", "rows_quarantined", "rows_lost", "reason")
    call.emit(
        [_row(one) for one in found],
        empty="nothing to repair: there are no scopes",
        columns=(*shown, "plan_id") if dry_run else shown,
    )
    faults = [(one.scope, one.fault.code, one.fault.message) for one in found if one.fault]
    ScopesFailed.check(faults, len(found), "could not be repaired")


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
