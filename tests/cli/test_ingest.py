"""`lakewarden ingest`: what a user sees of an ingest, and of what could not be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.cli.main import main


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


@pytest.mark.slow
def test_an_ingest_prints_what_it_took_and_where_the_reasons_of_rejects_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri, uploads = str(tmp_path / "w"), tmp_path / "w" / "uploads" / "n"
    with Lakehouse.open(uri) as lake:
        lake.create_namespace("n")
        lake.pipelines.create("n.t", "csv")
    uploads.mkdir(parents=True)
    (uploads / "a.csv").write_text("id\n1\n")
    (uploads / "bad.csv").write_text("id\n1,2\n")
    code, out, err = _run(capsys, "--warehouse", uri, "--format", "json", "ingest", "n.t")
    (report,) = json.loads(out)
    assert (code, report["ingested"], report["rejected"], report["version"]) == (0, 1, 1, 0)
    assert err == "n.t_rejects says why some were rejected\n"
    code, out, err = _run(capsys, "--warehouse", uri, "ingest", "n.t", "a.csv")
    assert (code, out.split()[8:11], err) == (0, ["n.t", "1", "1"], "")
    code, out, err = _run(capsys, "--warehouse", uri, "ingest", "n.t", "no.csv")
    assert code == 1
    assert err.startswith("NOT_FOUND")
