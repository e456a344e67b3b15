"""The entry point: global options in any position, one clear line for every error, an exit status for programs.

0: done. 1: declined or failed. 2: wrong usage.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import typer

from lakewarden.base import VERSION
from lakewarden.cli import (
    demo,
    erase,
    fleet,
    observe,
    operations,
    plan,
    serve,
    sql,
    storage,
    survey,
    topics,
    transfer,
    ui,
    warehouse,
)
from lakewarden.cli.context import DEFAULT_WAREHOUSE, Invocation, OutputFormat
from lakewarden.cli.help import arrange
from lakewarden.cli.output import printable
from lakewarden.errors import Internal, LakewardenError

_VALUE_OPTIONS = ("--warehouse", "--format")
_FLAG_OPTIONS = ("--debug", "--create")

app = typer.Typer(
    name="lakewarden",
    help="Keeps many small Delta Lake tables healthy: one per tenant and table.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (sql, observe, fleet, survey, plan, operations, erase, transfer, topics, ui, serve, demo, storage, warehouse):
    module.register(app)
arrange(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"lakewarden {VERSION}\n")
        raise typer.Exit


@app.callback()
def _globals(
    context: typer.Context,
    warehouse: str = typer.Option(
        DEFAULT_WAREHOUSE, envvar="LAKEWARDEN_WAREHOUSE", help="URI of the warehouse: a directory, or s3://, gs://, abfss://."
    ),
    format: OutputFormat = typer.Option(OutputFormat.table, help="How to print: a table, or one JSON list."),
    create: bool = typer.Option(False, "--create", help="Make the warehouse if it does not exist, whatever the command."),
    debug: bool = typer.Option(False, help="Show where an error came from."),  # noqa: ARG001  # `main` looks for it, before typer
    version: bool = typer.Option(False, "--version", is_eager=True, callback=_print_version, help="Print the version."),  # noqa: ARG001  # as above
) -> None:
    context.obj = Invocation(warehouse, format is OutputFormat.json, create)


@dataclass(frozen=True)
class _Arguments:
    """Returns the arguments with the global options first, as typer expects them."""

    ordered: list[str]
    debug: bool
    as_json: bool


def hoist(arguments: Sequence[str]) -> _Arguments:
    """Moves global options to the front, so they may come before or after the command's name."""
    front: list[str] = []
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word in _VALUE_OPTIONS:
            given = [word, *([value] if (value := next(words, None)) is not None else [])]
            (rest if _of_files(rest, given) else front).extend(given)
        elif word in _FLAG_OPTIONS or word.startswith(tuple(f"{option}=" for option in _VALUE_OPTIONS)):
            (rest if _of_files(rest, word.split("=", 1)) else front).append(word)
        else:
            rest.append(word)
    as_json = "--format=json" in front or ("--format", "json") in pairwise(front)
    return _Arguments(front + rest, "--debug" in front, as_json)


def _of_files(before: Sequence[str], option: Sequence[str]) -> bool:
    """Whether it is the option `--format` of `load`, whose values are the formats of files. `json` remains how to print."""
    return before[:1] == ["load"] and option[0] == "--format" and option[1:] != ["json"] and option[1:] != ["table"]


@cache
def _command() -> Callable[[Sequence[str]], object]:
    """The commands, read once: a process may run many."""
    return typer.main.get_command(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command and exits with its status."""
    given = hoist(sys.argv[1:] if arguments is None else arguments)
    try:
        _command()(given.ordered)
    except LakewardenError as error:
        if given.debug:
            raise
        sys.exit(_say(error, given.as_json))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # the outermost caller: an internal fault is one line too, unless --debug shows all of it
        if given.debug:
            raise
        ours = Internal(f"{type(error).__name__}: {error}; run it again with --debug to see the traceback, and please report it")
        sys.exit(_say(ours, given.as_json))


def _say(error: LakewardenError, as_json: bool) -> int:
    line = printable(" ".join(error.message.split()))
    sys.stderr.write(f"{error.code}: {line}\n")
    if as_json:
        sys.stdout.write(json.dumps({"error": {"code": error.code, "message": line}}, ensure_ascii=False) + "\n")
    return 1
