"""A table that is created where one with other columns was dropped works from the start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import Column, Lakehouse

pytestmark = pytest.mark.disk

KINDS = {
    "keyed": [Column("id", "TEXT"), Column("n", "BIGINT")],
    "keyless": [Column("text", "BIGINT"), Column("n", "BIGINT")],
    "more columns": [Column("id", "BIGINT"), Column("text", "TEXT"), Column("n", "BIGINT")],
}


@pytest.fixture(params=KINDS)
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path)) as lake:
        lake.create_namespace("chat")
        old = [Column("id", "BIGINT"), Column("text", "TEXT")]
        lake.create_table("chat.t", type="SHARED", columns=old, primary_key=["id"]).write([{"id": 1, "text": "a"}])
        lake.flush()
        lake.drop_table("chat.t")
        key = [] if request.param == "keyless" else ["id"]
        lake.create_table("chat.t", type="SHARED", columns=KINDS[request.param], primary_key=key)
        yield lake


def test_checks_and_maintenance_find_nothing_wrong_before_the_first_flush(lake: Lakehouse) -> None:
    assert [finding for finding in lake.check() if not finding.passed] == []
    assert {one.outcome for one in lake.compact("chat.t", look=True)} <= {"skipped"}
    assert {one.outcome for one in lake.optimize("chat.t", look=True)} <= {"skipped"}
    assert {one.outcome for one in lake.optimize("chat.t", look=True, zorder=["n"])} <= {"skipped"}
    assert {one.outcome for one in lake.vacuum("chat.t", look=True, dry_run=False)} <= {"skipped", "done"}
    assert lake.overview().tables[0].broken_scopes == 0


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM chat.t WHERE n = 1",
        "UPDATE chat.t SET n = 2 WHERE n = 1",
        "DELETE FROM chat.t WHERE n = 1",
        "DELETE FROM chat.t WHERE n IN (SELECT n FROM chat.t)",
    ],
)
def test_statements_find_an_empty_table(lake: Lakehouse, statement: str) -> None:
    lake.sql(statement)
    assert lake.table("chat.t").read().num_rows == 0
    assert [finding for finding in lake.check() if not finding.passed] == []


def test_rows_come_and_go_as_in_any_table(lake: Lakehouse) -> None:
    table = lake.table("chat.t")
    first = table.table.schema.columns[0]
    key = "'1'" if str(first.type) == "TEXT" else "1"
    lake.sql(f"INSERT INTO chat.t ({first.name}, n) VALUES ({key}, 5)")
    lake.sql("UPDATE chat.t SET n = 6 WHERE n = 5")
    lake.flush()
    assert table.read().column("n").to_pylist() == [6]
    assert [finding for finding in lake.check() if not finding.passed] == []
