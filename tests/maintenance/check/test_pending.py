"""Garbled rows in the log: a check names the scope, a quick one remembers it, and what is put back is found right."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.maintenance.check.scope import PENDING_ROWS
from tests.fixtures.lakes import NOTES, make_notes, notes

pytestmark = pytest.mark.disk


def _wrong(lake: Lakehouse, *, quick: bool = False) -> list[tuple[str, str, str]]:
    return [(one.subject, one.check, one.code) for one in lake.check(quick=quick) if not one.passed]


@pytest.mark.parametrize("flushed", [True, False])
def test_garbled_rows_in_the_log_are_found_and_remembered(tmp_path: Path, flushed: bool) -> None:
    with Lakehouse.open(str(tmp_path)) as lake:
        table = make_notes(lake)
        if flushed:
            for user in ("ann", "bob"):
                table.write(notes({1: "a"}), user=user)
            lake.flush()
        table.write(notes({2: "b"}), user="ann")
        table.write(notes({2: "needle"}), user="bob")
        (segment,) = (path for path in tmp_path.glob("_lakewarden/log/*/segments/*") if b"needle" in path.read_bytes())
        whole = segment.read_bytes()
        segment.write_bytes(whole.replace(b"needle", b"neeble"))
        found = (f"{NOTES}[bob]", PENDING_ROWS, "CORRUPT")
        assert _wrong(lake) == [found]
        assert _wrong(lake, quick=True) == ([found] if flushed else [])
        segment.write_bytes(whole)
        assert _wrong(lake) == _wrong(lake, quick=True) == []


def test_garbled_rows_of_a_stream_are_found(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path)) as lake:
        lake.create_namespace("n")
        lake.sql("CREATE STREAM TABLE n.s (id BIGINT, v TEXT) WITH (TTL_SECONDS = 100000)")
        lake.sql("INSERT INTO n.s (id, v) VALUES (1, 'needle')", user="bob")
        (segment,) = (path for path in tmp_path.glob("_lakewarden/log/*/segments/*") if b"needle" in path.read_bytes())
        segment.write_bytes(segment.read_bytes().replace(b"needle", b"neeble"))
        assert _wrong(lake) == [("n.s[bob]", PENDING_ROWS, "CORRUPT")]
