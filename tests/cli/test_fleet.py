"""`report` and `metrics`: what they write, and that they change nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.cli.main import main as run
from lakewarden.cli.output import write_whole
from tests.fixtures.lakes import NOTES, make_notes, notes

pytestmark = pytest.mark.disk


def main(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        run(arguments)
    return int(str(ended.value.code or 0))


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    uri = str(tmp_path / "warehouse")
    with Lakehouse.open(uri) as lake:
        table = make_notes(lake)
        for user in ("ann", "bob"):
            table.write(notes({1: "a"}), user=user)
        lake.flush()
        table.write(notes({2: "b"}), user="ann")
    return uri


def test_a_report_is_one_file_and_writes_nothing_else(
    warehouse: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWARDEN_DAGSTER_URL", "https://dagster.example/")
    before = {path: path.stat().st_mtime_ns for path in Path(warehouse).rglob("*")}
    main(["report", "--warehouse", warehouse, "--out", str(tmp_path / "page.html")])
    assert capsys.readouterr().out == f"2 scopes: all well\n{tmp_path / 'page.html'}\n"
    page = (tmp_path / "page.html").read_text()
    assert page.count("https://dagster.example/guess/flush_job/playground") == 1
    assert {path: path.stat().st_mtime_ns for path in Path(warehouse).rglob("*")} == before
    main(["report", "--warehouse", warehouse, "--out", "-"])
    assert "<!doctype html>" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_file_that_cannot_be_written_is_one_line(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--warehouse", warehouse, "--out", "/nowhere/page.html"]) == 1
    assert capsys.readouterr().err.startswith("INVALID_ARGUMENT: cannot write /nowhere/page.html: No such file or directory")


@pytest.mark.parametrize("out", ["/", "", "directory", "fifo"])
def test_what_is_no_file_is_refused_and_stays(
    warehouse: str, out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    Path("directory").mkdir()
    assert main(["report", "--warehouse", warehouse, "--out", out]) == 1
    assert ": it is no file" in capsys.readouterr().err
    assert (Path("fifo").is_fifo(), Path("directory").is_dir()) == (True, True)


def test_a_link_stays_and_nothing_is_left_of_what_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "page").symlink_to(tmp_path / "kept")
    write_whole(tmp_path / "page", "text")
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / "page", "\ud800")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "page"]
    assert ((tmp_path / "page").is_symlink(), (tmp_path / "kept").read_text()) == (True, "text")


def test_metrics_are_printed_or_replace_a_file(warehouse: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["metrics", "--warehouse", warehouse])
    printed = capsys.readouterr().out
    assert f'lakewarden_backlog_rows{{table="{NOTES}"}} 1.0' in printed.splitlines()
    main(["metrics", "--warehouse", warehouse, "--out", str(tmp_path / "lakewarden.prom")])
    assert f'lakewarden_files{{table="{NOTES}"}} 2.0' in (tmp_path / "lakewarden.prom").read_text()


def test_all_of_the_status_has_the_figures_of_the_page(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["status", "--all", "--format", "json", "--warehouse", warehouse])
    table, scope = json.loads(capsys.readouterr().out)
    whole = table["warehouse"]
    assert scope["user"] == "ann"
    assert (table["table"], table["files"], table["late_scopes"], table["file_counts"]) == (NOTES, 2, 0, [2, 0, 0, 0, 0, 0])
    assert (table["week"]["flush"]["done"], table["planned"]["compact"]["files"], table["debt"]["bytes"]) == (2, 0, 0)
    assert (whole["verdict"], whole["figures"]["scopes"], whole["prices"]["gb_month"]) == ("2 scopes: all well", 2, 0.023)
