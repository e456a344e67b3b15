"""Whatever writes to the log of a table with `log.changelog-mode` all stores the row before each row, for its readers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pyarrow as pa
import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import LogSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.evolution import AddColumn, DropColumn, RenameColumn
from lakewarden.catalog.model import Column, Table
from lakewarden.errors import Conflict, ConstraintViolation, InvalidArgument, NotFound, StorageUnavailable
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.once import WriterBatch
from lakewarden.log.position import position_of
from lakewarden.log.record import UPSERT, Batch, LogBatch, log_batch
from lakewarden.tables import images as images_log
from lakewarden.tables.client import TableClient
from lakewarden.tables.images import Images
from lakewarden.tables.rows.intake import RowParts
from tests.fixtures.clock import Clock
from tests.fixtures.lakes import lake_fixture
from tests.fixtures.late import late_segments
from tests.tables.images.held import held_after, listed, live, make, rows

Write = Callable[[TableClient, list[dict[str, object]]], object]


lake = lake_fixture()


def _batch(table: TableClient, given: list[dict[str, object]]) -> LogBatch:
    return log_batch(table.table.schema, pa.Table.from_pylist(given), "", UPSERT)


def _parts(given: list[dict[str, object]]) -> RowParts:
    return RowParts(lambda: (pa.Table.from_pylist([row]) for row in given))


def _staged(table: TableClient, given: list[dict[str, object]]) -> None:
    staging = table.log.begin_batch()
    pieces = [piece for row in given for piece in table.log.stage(staging, _batch(table, [row]))]
    assert table.reader.appending.publish(staging, pieces) is not None
    assert table.reader.appending.publish(staging, pieces) is None, "a repeated commit"


def _once(table: TableClient, given: list[dict[str, object]]) -> None:
    number = table.log.published("w")
    once = WriterBatch("w", 0 if number is None else number + 1)
    assert table.reader.appending.append_once(_batch(table, given), once) is not None
    assert table.reader.appending.append_once(_batch(table, given), once) is None, "it is there"


_WRITES: dict[str, Write] = {
    "write": lambda table, given: table.write(given),
    "parts": lambda table, given: table.write_parts(_parts(given)),
    "staged": _staged,
    "once": _once,
}


@pytest.mark.parametrize("how", _WRITES)
@pytest.mark.parametrize("flushed", [False, True])
def test_each_way_in_stores_what_rows_were_before(lake: Lakehouse, how: str, flushed: bool) -> None:
    table = make(lake)
    _WRITES[how](table, rows({1: "a", 2: "b"}))
    if flushed:
        lake.flush("n.t")
    upto = table.changes().upto
    _WRITES[how](table, [*rows({2: "c", 3: "d"}), *rows({3: "e"})])
    assert listed(table.changes(after=upto)) == [
        ("update_preimage", 2, "b"),
        ("update_postimage", 2, "c"),
        ("insert", 3, "d"),
        ("update_preimage", 3, "d"),
        ("update_postimage", 3, "e"),
    ]
    assert live(table) == {row["id"]: row for row in rows({1: "a", 2: "c", 3: "e"})}


def test_rows_whose_answer_was_lost_are_whole_when_they_land(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(lake)
    table.write(rows({1: "a"}))
    with late_segments(monkeypatch) as land, pytest.raises(StorageUnavailable):
        table.write_parts(_parts(rows({2: "b", 3: "c"})))
    land()
    assert live(table) == {row["id"]: row for row in rows({1: "a", 2: "b", 3: "c"})}


@pytest.mark.slow
def test_many_rows_are_taken_in_parts_by_key(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images_log, "_PART_BYTES", 4000)
    table = make(lake)
    first, second = ({key: f"{key} {text}" for key in range(count)} for text, count in (("a", 20), ("b", 30)))
    table.write(pa.Table.from_pylist(rows(first)))
    lake.flush("n.t")
    upto = table.changes().upto
    again = dict.fromkeys(range(5, 15), "again")
    table.write_parts(_parts([*rows(second), *rows(again)]))
    found = table.changes(after=upto)
    assert len({position_of(int(str(seq))) for seq in found.rows.column("_seq").to_pylist()}) == 1
    assert held_after(found, {row["id"]: row for row in rows(first)}) == live(table)
    assert [each for each in listed(found) if each[1] == 7] == [
        ("update_preimage", 7, "7 a"),
        ("update_postimage", 7, "7 b"),
        ("update_preimage", 7, "7 b"),
        ("update_postimage", 7, "again"),
    ]


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        ("INSERT INTO t VALUES (1, 'x')", [("update_preimage", 1, "a"), ("update_postimage", 1, "x")]),
        ("INSERT INTO t VALUES (4, 'x')", [("insert", 4, "x")]),
        ("INSERT INTO t SELECT id, 'x' FROM t", [("update_preimage", 1, "a"), ("update_postimage", 1, "x")]),
        ("UPDATE t SET text = 'x' WHERE id = 1", [("update_preimage", 1, "a"), ("update_postimage", 1, "x")]),
        ("DELETE FROM t WHERE id = 1", [("delete", 1, "a")]),
        ("DELETE FROM t WHERE id = 4", []),
        (
            "MERGE INTO t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
            [("delete", 1, "a")],
        ),
        (
            "MERGE INTO t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET text = 'x'",
            [("update_preimage", 1, "a"), ("update_postimage", 1, "x")],
        ),
        (
            "INSERT INTO t VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET text = 'y'",
            [("update_preimage", 1, "a"), ("update_postimage", 1, "y")],
        ),
        ("INSERT OVERWRITE t SELECT 9, 'z'", []),
    ],
)
def test_each_statement_stores_them(lake: Lakehouse, statement: str, wanted: list[tuple[str, int, str]]) -> None:
    table = make(lake)
    table.write(rows({1: "a"}))
    upto = table.changes().upto
    lake.session(user="root", role="system").sql(f"USE n; {statement}")
    assert listed(table.changes(after=upto)) == wanted
    lake.flush("n.t")
    assert listed(table.changes(after=upto)) == wanted, "the same from the history"


def test_a_delete_by_key_stores_the_row_and_one_of_no_row_is_no_change(lake: Lakehouse) -> None:
    table = make(lake)
    table.write(rows({1: "a"}))
    upto = table.changes().upto
    assert table.delete([{"id": 1}, {"id": 2}]).rows == 2
    assert table.delete([{"id": 1}]).rows == 1
    assert listed(table.changes(after=upto)) == [("delete", 1, "a")]


def test_an_insert_that_is_refused_leaves_nothing(lake: Lakehouse) -> None:
    table = make(lake, ON_DUPLICATE="error")
    table.write(rows({1: "a"}), mode="insert")
    with pytest.raises(ConstraintViolation):
        table.write(rows({1: "b"}), mode="insert")
    with pytest.raises(ConstraintViolation):
        table.write_parts(_parts(rows({2: "b", 1: "b"})), mode="insert")
    table.write_parts(_parts(rows({2: "b", 3: "c"})), mode="insert")
    assert listed(table.changes(after=-1)) == [("insert", 1, "a"), ("insert", 2, "b"), ("insert", 3, "c")]


def test_one_row_after_an_overwrite_has_the_row_that_overwrote(lake: Lakehouse) -> None:
    table = make(lake)
    table.write(rows({1: "a"}))
    lake.session(user="root", role="system").sql("INSERT OVERWRITE n.t SELECT 1, 'silent'")
    upto = table.changes().upto
    table.write(rows({1: "b"}))
    assert listed(table.changes(after=upto)) == [("update_preimage", 1, "silent"), ("update_postimage", 1, "b")]


def test_columns_of_before_images_follow_the_table(lake: Lakehouse) -> None:
    stale = make(lake)
    stale.write(rows({1: "a", 2: "a"}))
    lake.flush("n.t")
    lake.alter_table("n.t", AddColumn(Column("more", "BIGINT")))
    lake.alter_table("n.t", RenameColumn("text", "words"))
    table = lake.table("n.t")
    table.write([{"id": 1, "words": "b", "more": 5}])
    stale.write(rows({1: "c"}))
    stale.delete([{"id": 2}])
    for text in ("d", "e"):
        stale.write_parts(_parts(rows({1: f"{text}1", 3: text})))
    table.write([{"id": 1, "words": "f", "more": 6}])
    found = table.changes(after=-1)
    assert held_after(found) == live(table)
    preimages = [(row["words"], row["more"]) for row in found.rows.to_pylist() if row["_change_type"] == "update_preimage"]
    assert preimages == [("a", None), ("b", 5), ("c", None), ("d1", None), ("d", None), ("e1", None)]
    lake.alter_table("n.t", DropColumn("more"))
    assert held_after(lake.table("n.t").changes(after=-1)) == live(lake.table("n.t"))


def test_changes_that_are_no_longer_kept_are_refused(warehouse_uri: str) -> None:
    clock = Clock()
    with Lakehouse.open(warehouse_uri, clock=clock, settings=Settings(log=LogSettings(retention_seconds=60))) as lake:
        table = make(lake)
        table.write(rows({1: "a"}))
        lake.flush("n.t")
        clock.forward(120)
        table.write(rows({1: "b"}))
        lake.flush("n.t")
        upto = table.changes().upto
        table.write(rows({1: "c"}))
        with pytest.raises(InvalidArgument, match="no longer kept"):
            table.changes(after=-1)
        assert listed(table.changes(after=upto)) == [("update_preimage", 1, "b"), ("update_postimage", 1, "c")]


def test_without_change_tracking_nothing_is_stored(lake: Lakehouse) -> None:
    table = make(lake, **{"change-tracking": "false"})
    assert not table.table.schema.keeps_before
    table.write(rows({1: "a"}))
    assert live(table) == {1: {"id": 1, "text": "a"}}


class Between:
    """Other writers, who come while the images of a write are taken; counts how often that is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *writes: Callable[[], object]) -> None:
        self.taken = 0
        self._writes = list(writes)
        self._taken = Images.taken

        def taken(images: Images, batch: Batch, table: Table, view: LogView | None = None) -> LogBatch:
            return self._and_then(images, batch, table, view)

        monkeypatch.setattr(Images, "taken", taken)

    def _and_then(self, images: Images, batch: Batch, table: Table, view: LogView | None) -> LogBatch:
        self.taken += 1
        made = self._taken(images, batch, table, view)
        if self._writes:
            write, taken = self._writes.pop(0), self.taken
            write()
            self.taken = taken
        return made


@pytest.mark.parametrize("how", _WRITES)
@pytest.mark.parametrize(("key", "looks"), [(9, 1), (1, 2)])
def test_a_write_that_another_one_overtook_takes_its_images_again_if_their_keys_met(
    lake: Lakehouse, warehouse_uri: str, monkeypatch: pytest.MonkeyPatch, how: str, key: int, looks: int
) -> None:
    table = make(lake)
    table.write(rows({1: "a"}))
    upto = table.changes().upto
    with Lakehouse.open(warehouse_uri) as other:
        between = Between(monkeypatch, lambda: other.table("n.t").write(rows({key: "theirs"})))
        _WRITES[how](table, rows({1: "b", 2: "c"}))
    assert between.taken == looks
    assert held_after(table.changes(after=upto), {1: {"id": 1, "text": "a"}}) == live(table)
    assert live(table)[1]["text"] == "b"


def test_a_write_that_went_past_the_log_in_between_is_seen(
    lake: Lakehouse, warehouse_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(lake)
    table.write(rows({1: "a"}))
    upto = table.changes().upto
    with Lakehouse.open(warehouse_uri) as other:
        session = other.session(user="root", role="system")
        between = Between(monkeypatch, lambda: session.sql("INSERT OVERWRITE n.t SELECT 1, 'silent'"))
        table.write_parts(_parts(rows({1: "b", 2: "c"})))
    assert between.taken == 2
    assert listed(table.changes(after=upto))[0] == ("update_preimage", 1, "silent")


def test_a_table_that_was_made_again_is_refused(lake: Lakehouse) -> None:
    old = make(lake)
    lake.drop_table("n.t")
    new = make(lake)
    for how in _WRITES.values():
        with pytest.raises(NotFound):
            how(old, rows({1: "a", 2: "b"}))
    assert live(new) == {}


@pytest.mark.slow
def test_writers_of_the_same_keys_chain_their_images(lake: Lakehouse, warehouse_uri: str) -> None:
    """Two open warehouses, which know nothing of each other, three threads each, and flushes meanwhile."""
    table = make(lake, bucket="2")

    def work(number: int) -> None:
        with Lakehouse.open(warehouse_uri) as mine:
            client, random = (lake if number % 2 else mine).table("n.t"), Random(number)
            for turn in range(15):
                given = rows({random.randrange(6): f"{number}.{turn}.{each}" for each in range(3)})
                match random.randrange(5):
                    case 0:
                        client.write_parts(_parts(given))
                    case 1:
                        client.delete([{"id": row["id"]} for row in given])
                    case 2 if number == 0:
                        mine.flush("n.t")
                    case _:
                        client.write(given)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    found = table.changes(after=-1)
    assert found.rows.num_rows > 100
    assert held_after(found) == live(table)
    lake.flush("n.t")
    assert table.changes(after=-1).rows.equals(found.rows)


def test_a_write_behind_what_it_read_loses_to_another(lake: Lakehouse) -> None:
    table = make(lake)
    position = position_of(table.log.view().end)
    table.write(rows({1: "a"}))
    log = table.reader.appending
    for given in ([rows({1: "b"})], [rows({1: "b"}), rows({2: "c"})]):
        with pytest.raises(Conflict):
            log.append_whole([_batch(table, each) for each in given], position)
    assert live(table) == {1: {"id": 1, "text": "a"}}
    assert not [each.key for each in lake.warehouse.state.list(table.log.home) if "/staged/" in each.key]
