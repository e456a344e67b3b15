"""`lakewarden load`, whose `--format` is a file's format as well as a way to print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.cli.main import hoist, main


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0), capsys.readouterr().out


def test_load_prints_what_it_did_and_what_it_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uri = str(tmp_path / "w")
    with Lakehouse.open(uri) as lake:
        lake.create_namespace("n")
        lake.create_table("n.t", columns=[Column("id", "INT")])
    (tmp_path / "rows.txt").write_text("id\n1\n2\n")
    (tmp_path / "lines.txt").write_text('{"id": 3}\n')
    (tmp_path / "bad.csv").write_text("id\nx\n")
    code, out = _run(capsys, "load", "n.t", str(tmp_path / "rows.txt"), "--format", "csv", "--format", "json", "--warehouse", uri)
    assert code == 0
    (report,) = json.loads(out)
    assert (report["rows"], report["rejected"], report["rejects"], report["version"]) == (2, 0, [], 1)
    code, out = _run(capsys, "--warehouse", uri, "load", "n.t", str(tmp_path / "lines.txt"), "--format", "json")
    assert (code, json.loads(out)[0]["rows"]) == (0, 1)
    code, out = _run(capsys, "--warehouse", uri, "--format", "json", "load", "n.t", str(tmp_path / "bad.csv"))
    rejects, error = map(json.loads, out.splitlines())
    assert code == 1
    assert rejects[0]["line"] == 2
    assert error["error"]["code"] == "CONSTRAINT_VIOLATION"
    code, out = _run(capsys, "--warehouse", uri, "load", "n.t", str(tmp_path / "bad.csv"), "--on-reject", "skip")
    assert code == 0


def test_only_load_takes_the_format_of_files() -> None:
    assert hoist(["load", "n.t", "x", "--format=csv"]).ordered == ["load", "n.t", "x", "--format=csv"]
    assert hoist(["tables", "--format", "csv"]).ordered == ["--format", "csv", "tables"]
