"""The help: commands in panels, and an example of each that the command takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import pytest

from lakewarden.cli.help import PANELS
from lakewarden.cli.main import _command, hoist, main
from lakewarden.client import Lakehouse
from tests.fixtures.lakes import NOTES, make_notes

GROUPS = ("file", "jobs", "settings", "storage")


def examples() -> Iterator[tuple[str, str]]:
    for commands in PANELS.values():
        yield from commands.items()


def shown(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """The help as lines of words, whatever the width of the terminal."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert not ended.value.code
    return " ".join(capsys.readouterr().out.split())


def parse(words: Sequence[str]) -> str:
    """The name of the command that takes these words; nothing runs."""
    command, name = _command(), ""
    context = command.make_context("lakewarden", hoist(words).ordered)  # type: ignore[attr-defined]
    while (rest := [*context._protected_args, *context.args]) and hasattr(context.command, "resolve_command"):
        found, command, left = context.command.resolve_command(context, rest)
        name = f"{name} {found}".strip()
        context = command.make_context(found, left, parent=context)
    return name


def test_commands_are_in_panels(capsys: pytest.CaptureFixture[str]) -> None:
    page = shown(capsys)
    places = [page.index(f" {panel} ─") for panel in ("Look", "Care", "Restore and erase", "Load", "Serve", "Admin")]
    assert places == sorted(places)
    assert " Commands ─" not in page
    for commands in PANELS.values():
        assert all(f"│ {command.partition(' ')[0]} " in page for command in commands)


@pytest.mark.parametrize(("command", "rest"), examples(), ids=[command for command, _ in examples()])
def test_each_command_shows_an_example_that_it_takes(capsys: pytest.CaptureFixture[str], command: str, rest: str) -> None:
    assert f"Example: lakewarden {command} {rest}" in shown(capsys, *command.split())
    assert parse([*command.split(), *shlex.split(rest)]) == command


def test_each_command_has_an_example() -> None:
    root = _command()
    found = {name for name in root.commands if name not in GROUPS}  # type: ignore[attr-defined]
    found |= {f"{group} {name}" for group in GROUPS for name in root.commands[group].commands}  # type: ignore[attr-defined]
    assert found | {"settings"} == {command for command, _ in examples()}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--to x", "--operation that takes --to: export or move"),
        ("--version 3", "--operation that takes --version: restore"),
        ("--operation restore", "restore notes.t: name either a version .*--version 3.* or a time"),
        ("--operation move", "move: name the storage to move to .*--to archive"),
        ("--operation erase", "erase: name the user .*--user u_42"),
    ],
)
def test_a_plan_says_what_it_lacks(capsys: pytest.CaptureFixture[str], warehouse_uri: str, words: str, said: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        make_notes(lake)
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["--warehouse", warehouse_uri, "plan", NOTES, *words.split()])
    assert re.search(said.replace("notes.t", NOTES), " ".join(capsys.readouterr().err.replace("│", " ").split()))
