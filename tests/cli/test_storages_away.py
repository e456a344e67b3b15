"""One storage away, all else works: under each operation and each command, whichever storage it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from lakewarden.catalog.model import Column
from lakewarden.cli.main import main
from lakewarden.client import Lakehouse

TABLES = {"near": "n.near", "far": "n.far"}
"""By the storage that each is on."""


@pytest.fixture(params=["near", "far"])
def away(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str, str]]:
    """The warehouse, the table whose storage is away, and the other; each of two users has a flushed row, and one in the log."""
    uri = str(tmp_path / "lake")
    with Lakehouse.open(uri) as lake:
        lake.create_namespace("n")
        for storage, name in TABLES.items():
            lake.create_storage(storage, type="filesystem", base=str(tmp_path / storage))
            table = lake.create_table(
                name,
                type="USER",
                columns=[Column("id", "BIGINT")],
                primary_key=["id"],
                options={"STORAGE_ID": storage, "FLUSH_POLICY": "rows:1"},
            )
            for version in range(2):
                for user in ("ada", "bob"):
                    table.write([{"id": version}], user=user)
                if not version:
                    lake.flush(name)
    gone = str(request.param)
    (tmp_path / gone).rename(tmp_path / "unmounted")
    (tmp_path / gone).mkdir()
    yield uri, TABLES[gone], next(name for name in TABLES.values() if name != TABLES[gone])
    assert list((tmp_path / gone).iterdir()) == [], "nothing is written into the mount point"


def run(uri: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[dict[str, object]], str]:
    capsys.readouterr()
    with suppress(SystemExit):
        main(["--warehouse", uri, "--format", "json", *arguments])
    printed = capsys.readouterr()
    found = [json.loads(line) for line in printed.out.splitlines()]
    return [row for each in found for row in (each if isinstance(each, list) else [each])], printed.err


@pytest.mark.parametrize("command", ["flush", "compact --look", "optimize --look", "vacuum --look", "vacuum --look --dry-run"])
def test_an_operation_does_what_it_can(away: tuple[str, str, str], capsys: pytest.CaptureFixture[str], command: str) -> None:
    uri, gone, there = away
    lines, said = run(uri, capsys, *command.split(), *TABLES.values())
    failed = {(line["table"], line["user"]) for line in lines if line.get("outcome") == "failed"}
    assert failed == {(gone, "ada"), (gone, "bob")}
    assert {(line["table"], line["user"]) for line in lines if "outcome" in line} - failed == {(there, "ada"), (there, "bob")}
    assert "STORAGE_UNAVAILABLE" in said
    if command == "flush":
        assert [line["outcome"] for line in lines if line.get("table") == there] == ["done", "done"]


@pytest.mark.parametrize("arguments", ["", "{there}", "{there} --user ada"])
def test_a_repair_names_the_storage_once_and_does_the_rest(
    away: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: str
) -> None:
    uri, _, there = away
    commit = tmp_path / there.removeprefix("n.") / there.replace(".", "/") / "ada/_delta_log/00000000000000000000.json"
    commit.write_text("no JSON")
    run(uri, capsys, "check")
    lines, _ = run(uri, capsys, "repair", *arguments.format(there=there).split())
    (failed,) = (line for line in lines if line.get("outcome") == "failed")
    assert (failed["subject"], failed["error"]["code"]) == ("storage", "STORAGE_UNAVAILABLE")  # type: ignore[index]
    assert {line["user"]: line["outcome"] for line in lines if line is not failed and line.get("user") == "ada"} == {
        "ada": "done"
    }
    with Lakehouse.open(uri) as lake:
        assert sorted(map(str, lake.table(there).read(user="ada")["id"].to_pylist())) == ["0", "1"]


@pytest.mark.parametrize(
    "command",
    [
        "restore {there} --user ada --version 0",
        "history {there} --user ada",
        "plan --operation flush",
        "status",
        "status --all",
        "tables",
        "move {there} --to local",
        "sql SELECT/**/*/**/FROM/**/{there} --user ada --role user",
    ],
)
def test_a_command_about_what_is_there_succeeds(
    away: tuple[str, str, str], capsys: pytest.CaptureFixture[str], command: str
) -> None:
    uri, _, there = away
    words: Sequence[str] = command.format(there=there).split()
    lines, said = run(uri, capsys, *(word.replace("/**/", " ") for word in words))
    assert not said, said
    assert lines


def test_a_check_of_all_names_the_storage_and_finds_the_rest_sound(
    away: tuple[str, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    uri, _, there = away
    lines, _ = run(uri, capsys, "check")
    failed = [line for line in lines if not line.get("passed", True)]
    assert failed
    assert all(there not in str(line["subject"]) for line in failed), failed
