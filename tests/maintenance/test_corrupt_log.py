"""A log of which something is lost says so wherever rows would come from it, and holds back no other table."""

from __future__ import annotations

import json

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.scope import Scope, TableName
from lakewarden.errors import Corrupt
from lakewarden.log.objects import names, pack, segment
from lakewarden.log.objects.pack import INDEXED, LINKED
from tests.fixtures.bucket import path_of
from tests.fixtures.lakes import NOTES, make_notes, notes

OTHER = "chat.other"


@pytest.fixture
def lake(warehouse_uri: str) -> Lakehouse:
    """One table has lost a segment; another is sound."""
    lake = Lakehouse.open(warehouse_uri)
    table = make_notes(lake)
    other = lake.create_table(OTHER, type="SHARED", columns=[Column("id", "BIGINT")], primary_key=["id"])
    other.write([{"id": 1}])
    for n in range(3):
        table.write(notes({n: "x"}), user="ann")
    lake.warehouse.state.delete([names.segment_key(table.table.log_id, 1)])
    return lake


def make_of_format(uri: str, number: int) -> None:
    Lakehouse.open(uri)
    identity = path_of(uri) / "_lakewarden" / "warehouse.json"
    identity.write_text(json.dumps(json.loads(identity.read_text()) | {"format": number}))


def test_reads_and_writes_say_so(lake: Lakehouse) -> None:
    table = lake.table(NOTES)
    with pytest.raises(Corrupt, match="position 1 of log"):
        table.read(user="ann")
    with pytest.raises(Corrupt, match="position 1 of log"):
        table.write(notes({4: "x"}), user="bob")


def test_a_flush_says_so_and_flushes_the_others(lake: Lakehouse) -> None:
    failed, done = sorted(lake.flush(), key=lambda report: report.outcome == "done")
    assert (failed.scope, failed.outcome, failed.fault and failed.fault.code) == (
        Scope(TableName.parse(NOTES), None),
        "failed",
        "CORRUPT",
    )
    assert (done.scope, done.outcome) == (Scope(TableName.parse(OTHER), None), "done")
    assert [report.outcome for report in lake.flush(NOTES)] == ["failed"]
    assert lake.flush(OTHER) == []
    assert lake.table(OTHER).read().num_rows == 1


def test_a_flush_of_one_of_its_scopes_says_so(lake: Lakehouse) -> None:
    assert [report.outcome for report in lake.flush(NOTES, user="ann")] == ["failed"], "one of whom nothing was flushed yet"
    lake.warehouse.registry.add(lake.table(NOTES).table.id, {"ann"})
    assert [report.outcome for report in lake.flush(NOTES, user="ann")] == ["failed"]


@pytest.mark.parametrize(("tables", "outcomes"), [([], ["failed", "planned"]), ([NOTES], ["failed"]), ([OTHER], ["planned"])])
def test_a_plan_of_a_flush_says_so_where_the_flush_would(lake: Lakehouse, tables: list[str], outcomes: list[str]) -> None:
    assert [report.outcome for report in lake.run("flush", *tables, dry_run=True)] == outcomes


def test_a_plan_of_the_flush_of_a_new_user_says_so(lake: Lakehouse) -> None:
    assert [report.outcome for report in lake.run("flush", NOTES, user="ann", dry_run=True)] == ["failed"]


@pytest.mark.parametrize("number", [1, LINKED, INDEXED])
def test_segments_are_of_the_warehouses_format(warehouse_uri: str, number: int) -> None:
    make_of_format(warehouse_uri, number)
    lake = Lakehouse.open(warehouse_uri)
    table = make_notes(lake)
    table.write(notes({1: "x"}), user="ann")
    data = lake.warehouse.state.get(names.segment_key(table.table.log_id, 0))
    assert data.startswith(b"LWLOG\0%d\n" % min(number, LINKED))
    assert lake.warehouse.format == number


@pytest.mark.parametrize("number", [1, LINKED, INDEXED])
def test_only_the_newest_format_writes_an_index(warehouse_uri: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release of an older format that has the warehouse open could read neither the segment nor the carry."""
    monkeypatch.setattr(segment, "MANY", 2)
    monkeypatch.setattr(pack, "MANY", 2)
    make_of_format(warehouse_uri, number)
    with Lakehouse.open(warehouse_uri) as lake:
        table = make_notes(lake)
        rows = [{"id": key, "text": "x", "owner": f"u{key}"} for key in range(6)]
        table.write(rows, user_column="owner")
        assert _kinds(lake) == {number == INDEXED}
        scopes = [Scope(table.table.name, f"u{key}") for key in range(4)]
        assert {report.outcome for report in lake.flush_scopes(scopes)} == {"done"}
        assert _kinds(lake) == {number == INDEXED}, "of the carry, and of the history"
        assert [one.user for one in lake.pending()] == ["u4", "u5"]
        assert lake.upgrade()[0].format == INDEXED
    with Lakehouse.open(warehouse_uri) as lake:
        table = lake.table(NOTES)
        table.write(rows, user_column="owner")
        assert True in _kinds(lake)
        assert {report.fault for report in lake.flush()} == {None}
        assert [table.read(user=f"u{key}").column("id").to_pylist() for key in range(6)] == [[key] for key in range(6)]


def _kinds(lake: Lakehouse) -> set[bool]:
    """Whether the log's objects with rows have an index."""
    state = lake.warehouse.state
    keys = [each.key for each in state.list("log") if "/cuts/" not in each.key]
    return {state.get_range(key, 12, 1) == b"\x01" for key in keys}


def test_a_later_format_is_refused(warehouse_uri: str) -> None:
    make_of_format(warehouse_uri, 4)
    with pytest.raises(Corrupt, match="has format 4; this version of Lakewarden reads formats 1 to 3"):
        Lakehouse.open(warehouse_uri)
