"""`lakewarden survey`: what it prints and writes, its exit status, and that it needs no warehouse and leaves nothing behind."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import lakewarden
from lakewarden.cli.main import main as run
from lakewarden.cli.output import progress
from lakewarden.errors import InvalidArgument, NotFound
from tests.delta.hand_written import HandWritten

pytestmark = pytest.mark.disk


def main(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        run(["survey", *arguments])
    return int(str(ended.value.code or 0))


def sound(path: Path) -> HandWritten:
    table = HandWritten(path)
    table.begin(table.file("1.parquet", [1]), table.file("2.parquet", [2]))
    return table


def hollow(path: Path) -> HandWritten:
    table = sound(path)
    (path / "1.parquet").unlink()
    return table


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of two tables, one of which lacks a file; the process works in another one."""
    sound(tmp_path / "lake" / "a" / "sound")
    hollow(tmp_path / "lake" / "b" / "hollow")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "lake"


def found_in(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)
    return found


FIELDS = {
    "path", "table_id", "version", "verdict", "damage", "features", "writers", "place_class", "files", "bytes", "small_files",
    "dead_bytes", "unnamed_files", "alien_files", "commits_since_checkpoint", "log_bytes", "oldest_version", "operations",
}  # fmt: skip


def test_the_worst_is_first_and_the_exit_status_says_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    assert main(str(place), "--format", "json", "--out", "found.json") == 1
    printed = capsys.readouterr()
    found = found_in(printed.out)
    assert found == found_in(Path("found.json").read_text())
    assert [(each["path"], each["verdict"]) for each in found] == [
        (str(place / "b" / "hollow"), "damaged"),
        (str(place / "a" / "sound"), "sound"),
    ]
    assert [each["kind"] for each in found[0]["damage"]] == ["hollow"]
    assert found[0]["damage"][0]["versions"] == []
    assert printed.err == "2 tables: 1 damaged, 1 sound\n"
    for each in found:
        assert each.keys() >= FIELDS
        assert all(
            one.keys() == {"route", "reason", "requests", "bytes", "dollars", "error"} for one in each["operations"].values()
        )
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before
    assert [path.name for path in Path().iterdir()] == ["found.json"]


def test_sound_tables_end_with_0(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(str(place / "a")) == 0
    printed = capsys.readouterr()
    assert "sound" in printed.out
    assert printed.err == "1 table: 1 sound\n"


def test_a_terminal_has_a_bar_that_counts_each_table_once(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    for number in range(4):
        sound(place / "a" / f"t{number}")
    for keep in ((), ("--warehouse", "kept", "--create", "--keep")):
        assert main(str(place), "--format", "json", *keep) == 1
        printed = capsys.readouterr()
        assert len(found_in(printed.out)) == 6
        assert re.findall(r"(\d+)/(\d+)", printed.err)[-1] == ("6", "6")


def test_what_is_printed_beside_a_bar_stays_on_standard_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a terminal's command writes into a file."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress("work"):
        sys.stdout.write("found\n")
    assert capsys.readouterr().out == "found\n"


def test_a_place_without_tables_is_an_empty_list(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(str(place / "a" / "sound" / "_delta_log"), "--format", "json") == 0
    printed = capsys.readouterr()
    assert found_in(printed.out) == []
    assert "no Delta table" in printed.err


def test_a_place_that_is_not_there_is_an_error(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(str(place / "nowhere")) == 1
    assert capsys.readouterr().err.startswith("NOT_FOUND: ")
    with pytest.raises(NotFound):
        lakewarden.survey(str(place / "nowhere"))
    with pytest.raises(InvalidArgument):
        lakewarden.survey("s3://key:secret@bucket/prefix")


def test_places_that_overlap_have_each_table_once(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(str(place), f"{place}/a/../b", f"file://{place}/b/hollow", "--format", "json") == 1
    assert len(found_in(capsys.readouterr().out)) == 2
    assert [each.path for each in lakewarden.survey([str(place / "b"), str(place / "a")])] == [
        str(place / "b" / "hollow"),
        str(place / "a" / "sound"),
    ]


def test_prices_come_from_a_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("prices.toml").write_text("[prices]\nread_requests = 1\n")
    Path("prices.json").write_text('{"read_requests": 1}')
    for name in ("prices.toml", "prices.json"):
        assert main(str(place / "a"), "--prices", name, "--format", "json") == 0
        (found,) = found_in(capsys.readouterr().out)
        assert found["operations"]["compact"]["dollars"] == 0
    for text in ("read_request = 1", "read_requests = -1", "read_requests = inf", "{", "prices = 3"):
        Path("prices.toml").write_text(text)
        assert main(str(place / "a"), "--prices", "prices.toml") == 1
        assert capsys.readouterr().err.startswith("INVALID_ARGUMENT: ")


def test_a_warehouse_surveys_with_its_own_prices_and_connections(place: Path, tmp_path: Path) -> None:
    with lakewarden.Lakehouse.open(str(tmp_path / "warehouse")) as lake:
        found = lake.survey(str(place / "b"), str(place))
        assert [each.verdict for each in found] == ["damaged", "sound"]
        assert lake.maintenance.status.survey(str(place)) == found == lakewarden.survey(str(place))


def test_names_that_control_a_terminal_are_printed_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("line\nbreak", "\x1b[31mred", "<script>", "[bold]", "a=%0A"):
        hollow(tmp_path / name)
    assert main(str(tmp_path)) == 1
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 6
    assert not [letter for letter in printed.out + printed.err if letter < " " and letter != "\n"]
    assert all(name in printed.out for name in ("<script>", "[bold]", "a=%0A", "line\\nbreak"))


@pytest.mark.parametrize(
    "uri",
    [
        "s3://key:SECRET@bucket/prefix",
        "s3://bucket/prefix?X-Amz-Signature=SECRET",
        "s3a://bucket/prefix#SECRET",
        "abfss://c@account/prefix?sig=SECRET",
        "https://user:SECRET@host/prefix",
        "gs://user:SECRET@bucket/prefix",
    ],
)
def test_a_uri_with_a_credential_is_refused_and_not_printed(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(uri, "--format", "json") == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("INVALID_ARGUMENT: ")
    assert "SECRET" not in printed.out + printed.err
