"""`sql --follow` as a program that reads a pipe sees it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lakewarden import Lakehouse
from lakewarden.cli.main import main
from tests.fixtures.lakes import make_notes, notes
from tests.fixtures.patience import PATIENCE

_QUERY = "SUBSCRIBE TO SELECT id, text FROM chat.notes WHERE id < 10"


@contextmanager
def _following(uri: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    program = str(Path(sys.executable).with_name("lakewarden"))
    command = [program, "--warehouse", uri, "sql", "--follow", "--user", "u", "--interval", "0.05", *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGTERM, None], ids=["terminated", "nobody reads"])
def test_each_event_is_a_line_until_somebody_ends_it(warehouse_uri: str, end: signal.Signals | None) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        table = make_notes(lake)
        table.write(notes({1: "a"}), user="u")
        with _following(warehouse_uri, _QUERY) as process:
            first = _line(process)
            assert (first["kind"], first["row"]) == ("initial", {"id": 1, "text": "a"})
            table.write(notes({1: "b", 11: "unseen"}), user="u")
            table.write(notes({2: "others"}), user="v")
            lake.flush()
            table.delete([{"id": 1}], user="u")
            events = [_line(process) for _ in range(2)]
            assert [(each["kind"], each["row"]) for each in events] == [("update", {"id": 1, "text": "b"}), ("delete", {"id": 1})]
            if end is None:
                assert process.stdout is not None
                process.stdout.close()
            else:
                process.send_signal(end)
            assert process.wait(PATIENCE) == 0
            assert process.stderr is not None
            assert process.stderr.read() == ""
        assert lake.live_queries() == []


@pytest.mark.slow
def test_what_ends_it_is_one_line(warehouse_uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        make_notes(lake).write(notes({1: "a"}), user="u")
        with _following(warehouse_uri, f"{_QUERY} OPTIONS (last_rows = 1)", "--format", "json") as process:
            seq = _line(process)["seq"]
            lake.sql(f"KILL LIVE QUERY '{lake.live_queries()[0].live_id}'")
            assert _line(process)["error"]["code"] == "CONFLICT"
            assert process.wait(PATIENCE) == 1
        with pytest.raises(SystemExit, match="1"):
            main(["--warehouse", warehouse_uri, "sql", "--follow", f"{_QUERY} OPTIONS (from = {seq + (1 << 40)})"])
        assert capsys.readouterr().err.startswith(f"INVALID_ARGUMENT: from_seq {seq + (1 << 40)} is not one")
        with pytest.raises(SystemExit, match="1"):
            main(["--warehouse", warehouse_uri, "sql", "--follow", "SELECT 1; SELECT 2"])
