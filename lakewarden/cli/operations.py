"""The commands of operations, made from the table of operations: `flush`, `compact`, `vacuum` and others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields
from inspect import Parameter, Signature, signature
from typing import cast

import typer

from lakewarden.catalog.operations import SPECS, Command, Operation, OperationSpec, PlanOptions, Request
from lakewarden.cli.context import emit_reports, invocation, split_names
from lakewarden.delta.past import parse_moment

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
