"""A table with `log.changelog-mode` all through all that a table meets: its feed goes on, and each image is the row before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest

from lakewarden import Lakehouse
from lakewarden.base.faults import Reach
from lakewarden.base.scope import TableName
from lakewarden.base.setting_sections import LoadSettings, LockSettings, LogSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.evolution import AddColumn, DropColumn, RenameColumn
from lakewarden.catalog.model import Column
from lakewarden.errors import Ended, InvalidArgument
from lakewarden.maintenance.move.run import Mover
from lakewarden.tables import images as images_log
from lakewarden.tables.fanout import in_process
from tests.fixtures.clock import Clock
from tests.fixtures.lakes import make_notes, notes
from tests.fixtures.sleepers import sleeping_flush
from tests.tables.images.held import held_after, listed, live, make, rows

pytestmark = pytest.mark.disk  # they look into the directories themselves


@pytest.fixture
def lake(warehouse_uri: str, clock: Clock) -> Iterator[Lakehouse]:
    tiny = Settings(
        load=LoadSettings(piece_bytes=1 << 10), locks=LockSettings(lease_seconds=5), log=LogSettings(retention_seconds=3600)
    )
    with Lakehouse.open(warehouse_uri, settings=tiny, clock=clock) as opened:
        yield opened


def _found(root: Path, text: str) -> list[str]:
    """Every file below a directory that has the text, in its bytes or in the values that Parquet compressed."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and text in _content(path))


def _content(path: Path) -> str:
    values = str(pq.read_table(path).to_pylist()) if path.suffix == ".parquet" else ""
    return path.read_bytes().decode(errors="replace") + values


def _passes(lake: Lakehouse) -> None:
    assert [finding for finding in lake.check() if not finding.passed] == []


# Erasure


def test_rows_that_are_deleted_leave_no_image_when_their_time_is_over(lake: Lakehouse, clock: Clock) -> None:
    table, root, person = make(lake), Path(lake.warehouse.uri), f"person-{uuid4()}"
    table.write(rows({1: f"{person} is new", 2: "of others"}))
    lake.flush("n.t")
    table.write(rows({1: f"{person} has moved"}))
    lake.sql("UPDATE n.t SET text = 'of nobody' WHERE id = 1")
    table.write(rows({3: person}))
    table.delete([{"id": 3}])
    assert any("/log/" in path for path in _found(root, person)), "images wait in the log"
    lake.flush("n.t")
    assert any("/history/" in path for path in _found(root, person)), "images are kept for readers of changes"
    clock.forward(8 * 24 * 3600)
    table.write(rows({2: "later"}))
    lake.flush("n.t")
    lake.compact("n.t")
    lake.vacuum("n.t", retain_hours=0, force=True, dry_run=False)
    bounds = [path for path in _found(root, person) if "/_delta_log/" in path]  # of values, as long as Delta keeps its commits
    assert _found(root, person) == bounds
    upto = table.changes().upto
    table.write(rows({1: "again"}))
    assert listed(table.changes(after=upto)) == [("update_preimage", 1, "of nobody"), ("update_postimage", 1, "again")]


def test_an_erasure_of_a_user_knows_that_images_belong_to_none(lake: Lakehouse) -> None:
    table, own = make(lake), make_notes(lake)
    own.write(notes({1: "x"}), user="ann")
    table.write(rows({1: "by ann"}))
    table.write(rows({1: "by bob"}))
    before = table.changes(after=-1)
    with pytest.raises(InvalidArgument, match="belong to no user"):
        lake.erase("ann", ["n.t"])
    certificate = lake.erase("ann", deep=True)
    assert [entry.table for entry in certificate.tables] == ["chat.notes"]
    lake.flush("n.t")
    searched = lake.verify_erased("ann", deep=True)
    assert searched.findings == ()
    assert searched.coincidences > 0, "a value in rows of nobody is counted"
    assert table.changes(after=-1).rows.equals(before.rows)


# Export and check


def test_an_export_of_a_user_has_nothing_of_them(lake: Lakehouse, tmp_path: Path) -> None:
    table, own = make(lake), make_notes(lake)
    own.write(notes({1: "x"}), user="ann")
    table.write(rows({1: "shared before"}))
    table.write(rows({1: "shared after"}))
    upto = table.changes(after=-1).upto
    lake.export("ann", str(tmp_path / "out"))
    assert _found(tmp_path / "out", "shared") == []
    assert table.changes(after=upto).rows.num_rows == 0


def test_check_passes_whatever_part_of_the_log_they_are_in(lake: Lakehouse) -> None:
    table = make(lake, bucket="2")
    for number in range(3):
        table.write(rows({1: f"{number}", number: f"{number}"}))
        _passes(lake)
        if number:
            lake.flush("n.t")
            _passes(lake)
    assert held_after(table.changes(after=-1)) == live(table)


# Loads


@pytest.mark.parametrize("part_bytes", [1 << 10, 64 << 20])
def test_a_load_stores_them(lake: Lakehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int) -> None:
    monkeypatch.setattr(images_log, "_PART_BYTES", part_bytes)
    table = make(lake)
    table.write(rows(dict.fromkeys(range(50), "before")))
    lake.flush("n.t")
    table.write(rows(dict.fromkeys(range(25), "and after")))
    held, upto = live(table), table.changes().upto
    first, second = (tmp_path / name for name in ("1.json", "2.json"))
    first.write_text("".join(f"{json.dumps(row)}\n" for row in rows(dict.fromkeys(range(20, 120), "loaded"))))
    second.write_text("".join(f"{json.dumps(row)}\n" for row in rows(dict.fromkeys(range(100, 130), "twice"))))
    lake.load("n.t", [str(first), str(second)])
    found = table.changes(after=upto)
    assert held_after(found, held) == live(table)
    kinds = [kind for kind, _, _ in listed(found)]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"update_preimage": 50, "update_postimage": 50, "insert": 80}
    lake.flush("n.t")
    assert table.changes(after=upto).rows.equals(found.rows)


# Moves


@pytest.mark.slow
@pytest.mark.parametrize("step", ["begun", "copied", "closed", "frozen", "switched", "left"])
def test_writes_at_each_step_of_a_move_store_them(lake: Lakehouse, warehouse_uri: str, step: str) -> None:
    lake.create_storage("cold", type="filesystem", base=f"{warehouse_uri}-cold", shared_template="t/{namespace}/{tableName}")
    table = make(lake)
    table.write(rows({1: "a", 2: "a", 3: "a"}))
    lake.flush("n.t")
    table.write(rows({1: "b"}))
    held, upto = live(table), table.changes().upto
    reached: list[str] = []

    def reach(name: str) -> None:
        if name == f"move:{step}" and not reached:
            reached.append(name)
            table.write(rows({1: f"{name} one", 4: "new"}))
            table.write(rows({2: name, 3: name}))
            table.delete([{"id": 3}])

    _move(lake, reach)
    assert reached
    found = table.changes(after=upto)
    assert held_after(found, held) == live(table)
    lake.flush("n.t")
    table.write(rows({2: "at the new place"}))
    after = table.changes(after=found.upto)
    assert held_after(after, held_after(found, held)) == live(table)
    assert table.changes(after=upto, limit=1000).rows.num_rows == found.rows.num_rows + after.rows.num_rows
    _passes(lake)


def _move(lake: Lakehouse, reach: Reach) -> None:
    name = TableName.parse("n.t")
    with lake.warehouse.locks.create().hold(name.namespace, name.name) as lease:
        mover = Mover(lake.warehouse, lambda work, items: in_process(work, items, lambda done: None), lease, name, "MV-1", reach)
        assert [report.fault for report in mover.move("cold")] == [None]


# Restores


@pytest.mark.parametrize("discard", [False, True])
@pytest.mark.parametrize("key", [1, 2, 3])
def test_after_a_restore_they_are_what_was_restored(lake: Lakehouse, discard: bool, key: int) -> None:
    table = make(lake)
    table.write(rows({1: "a"}))
    lake.flush("n.t")
    table.write(rows({1: "b", 2: "b"}))
    lake.flush("n.t")
    table.write(rows({1: "c", 2: "c", 3: "c"}))
    upto = table.changes().upto
    lake.restore("n.t", version=1, discard_pending=discard, dry_run=False)
    with pytest.raises(Ended):
        table.changes(after=upto)
    start = table.changes()
    held = held_after(start)
    assert held == live(table) == {1: {"id": 1, "text": "a"}}
    table.write(rows({key: "d"}))
    assert held_after(table.changes(after=start.upto), held) == live(table)
    lake.flush("n.t")
    assert held_after(table.changes(after=start.upto), held) == live(table)


# Columns


@pytest.mark.slow
@pytest.mark.parametrize("flushed", [False, True])
def test_columns_that_change_between_the_write_and_the_read(lake: Lakehouse, flushed: bool) -> None:
    table = make(lake)
    start = table.changes().upto
    table.write(rows({1: "a", 2: "a"}))
    table.write(rows({1: "b"}))
    for alter in (
        AddColumn(Column("state", "TEXT", nullable=False, default="'new'")),
        RenameColumn("text", "words"),
        DropColumn("words"),
        AddColumn(Column("words", "BIGINT")),
        RenameColumn("state", "text"),
    ):
        if flushed:
            lake.flush("n.t")
        lake.alter_table("n.t", alter)
        table = lake.table("n.t")
        found = table.changes(after=start)
        assert held_after(found) == live(table), f"{alter}"
        name = next(each for each in table.table.schema.names if each != "id")
        key, other = ({"id": each} for each in (1, 2))
        value = 7 if name == "words" and "text" in table.table.schema.names else f"{alter}"
        table.write([{**key, name: value}])
        table.delete([other])
        table.write([{**other, name: value}])
        found = table.changes(after=start)
        assert held_after(found) == live(table), f"{alter}"


# Flushes that come late


_PLACES = ["planned", "drain:opened", "drain:read", "after-read", "after-data-file", "after-commit", "after-sync", "after-floors"]


@pytest.mark.parametrize("place", _PLACES)
def test_a_flush_that_slept_leaves_them_as_they_are(lake: Lakehouse, place: str) -> None:
    table = make(lake)
    table.write(rows({1: "a", 2: "a"}))
    lake.flush("n.t")
    table.write(rows({1: "b"}))
    held, upto = live(table), table.changes().upto
    late = sleeping_flush(lake, place)
    table.write(rows({1: "c"}))
    lake.flush("n.t")
    table.write(rows({1: "d", 2: "d"}))
    early = table.changes(after=upto)
    assert held_after(early, held) == live(table)
    late.wake()
    table.write(rows({1: "e"}))
    lake.flush("n.t")
    table.delete([{"id": 2}])
    found = table.changes(after=upto)
    assert found.rows.slice(0, early.rows.num_rows).equals(early.rows)
    assert held_after(found, held) == live(table) == {1: {"id": 1, "text": "e"}}
    _passes(lake)
