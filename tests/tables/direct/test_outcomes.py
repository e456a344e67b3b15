"""What a direct write says is so: whose answer was lost, whose disk went away or cannot sync, whose state is a backup."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden import Column, Lakehouse
from lakewarden.catalog.evolution import AddColumn
from lakewarden.catalog.state.floor import floor_at
from lakewarden.catalog.state.floor_entries import ON_STORAGES
from lakewarden.errors import Conflict, Corrupt, NotDurable, SchemaChanged, StorageUnavailable, Unsupported
from lakewarden.log.table_log import TableLog
from lakewarden.storage import disk as durability
from lakewarden.storage.owner import MARKER
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct.barrier import raise_barrier
from lakewarden.tables.direct.commit import DirectWrite, Effect
from lakewarden.tables.direct.effects import Keep, Replace
from lakewarden.tables.direct.revise import Revise
from lakewarden.tables.direct.run import DirectRun
from tests.delta.test_foreign import commit_by_hand, delete_row_by_vector
from tests.fixtures.clock import Clock
from tests.fixtures.mounts import Disk, disk
from tests.maintenance.steps import Died, dies, then
from tests.tables.direct.boards import ALL_EVENTS, EVENTS, appending, ids, make_events, once, rows, setting

pytestmark = pytest.mark.disk

QUIET = 121
"""Seconds after which a write counts as dead."""


@pytest.fixture
def lake(tmp_path: Path, clock: Clock) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "lake"), clock=clock) as opened:
        opened.create_namespace("chat")
        yield opened


def make(lake: Lakehouse, **options: str) -> TableClient:
    table = make_events(lake, options)
    table.direct.append([rows({1: "a"})])
    return table


@pytest.fixture
def events(lake: Lakehouse) -> TableClient:
    return make(lake)


def there(table: TableClient) -> dict[int, str]:
    found = {row["id"]: row["text"] for row in table.read().to_pylist()}
    assert len(found) == table.read().num_rows, "each row once"
    return found


def appended(number: int = 2) -> DirectWrite:
    return appending(rows({number: "b"}))


def unnamed(lake: Lakehouse) -> list[str]:
    """Files that were written and are in no version."""
    return [finding.message for finding in lake.check() if "no commit names" in finding.message]


# The answer to a commit was lost


def _lost() -> None:
    raise Conflict("the answer was lost, and the commit is there")


@pytest.mark.parametrize("other", [False, True], ids=["alone", "another behind it"])
@pytest.mark.parametrize(
    ("effect", "left"),
    [(Keep(), {1: "a", 2: "b"}), (Revise(setting("new", 1)), {1: "new", 2: "b"}), (Replace(), {2: "b"})],
    ids=["append", "update", "overwrite"],
)
def test_a_commit_whose_answer_was_lost_is_made_once(
    lake: Lakehouse, events: TableClient, effect: Effect, left: dict[int, str], other: bool
) -> None:
    before = events.history(limit=1)[0].version

    def lost() -> None:
        if other:
            events.direct.append([rows({3: "c"})])
        _lost()

    write = DirectWrite("WRITE", effect, [rows({2: "b"})], {"mode": "Append"})
    did = DirectRun(lake.warehouse, events.table, write, then("direct:committed", once(lost))).run()
    assert (did.committed, did.repeated, there(events)) == (True, False, left | ({3: "c"} if other else {}))
    assert events.history(limit=1)[0].version == before + 1 + other
    assert unnamed(lake) == []


def test_a_first_commit_whose_answer_was_lost_is_made_once(lake: Lakehouse) -> None:
    columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
    board = lake.create_table("chat.board", type="SHARED", columns=columns, primary_key=["id"])
    write = DirectWrite("WRITE", Replace(), [rows({1: "a"})], {"mode": "Overwrite"})
    did = DirectRun(lake.warehouse, board.table, write, then("direct:committed", once(_lost))).run()
    assert (did.committed, did.version, there(board)) == (True, 0, {1: "a"})
    assert unnamed(lake) == []


@pytest.mark.parametrize("step", ["direct:committing", "before-link", "direct:committed"])
def test_subscribers_wait_for_a_commit_that_may_appear_later(
    lake: Lakehouse, events: TableClient, clock: Clock, step: str
) -> None:
    def fails() -> None:
        raise StorageUnavailable("no answer")

    with lake.subscribe(ALL_EVENTS) as one:
        one.poll()
        with pytest.raises(StorageUnavailable):
            DirectRun(lake.warehouse, events.table, appended(2), then(step, fails)).run()
        events.direct.append([rows({3: "c"})])
        assert one.poll() == [], "rows of the first may come below"
        clock.forward(QUIET)
        lake.flush()
        assert ids(one.poll()) == ([2, 3] if step == "direct:committed" else [3])


# What cannot be, or cannot be proven


def test_columns_that_change_under_a_write_are_not_undone(lake: Lakehouse, events: TableClient) -> None:
    def alter() -> None:
        lake.alter_table(EVENTS, AddColumn(Column("n", "INT", nullable=False, default="7")))

    with pytest.raises(SchemaChanged, match="were changed since the rows were made"):
        DirectRun(lake.warehouse, events.table, appended(), then("direct:written", once(alter))).run()
    assert lake.table(EVENTS).read().to_pylist() == [{"id": 1, "text": "a", "n": 7}]
    assert unnamed(lake) == []


def test_a_feed_that_cannot_be_is_refused_before_anything_is_named(lake: Lakehouse, events: TableClient) -> None:
    row_ids = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking", "domainMetadata"]}
    commit_by_hand(events.reader.target(None), row_ids, lambda _: None)
    lake.sql(f"ALTER TABLE {EVENTS} SET TBLPROPERTIES (CHANGE_DATA_FEED = on)")
    table = lake.table(EVENTS)
    with pytest.raises(Unsupported, match="features of another writer"):
        table.direct.append([rows({2: "b"})])
    assert (there(table), unnamed(lake)) == ({1: "a"}, [])


def test_rows_that_others_deleted_by_vectors_do_not_come_back_under_new_columns(lake: Lakehouse, events: TableClient) -> None:
    events.direct.overwrite([rows({1: "a", 2: "b", 3: "c"})])
    delete_row_by_vector(events.reader.target(None), row=1, version=2)
    lake.alter_table(EVENTS, AddColumn(Column("n", "INT", nullable=False, default="7")))
    table = lake.table(EVENTS)
    with pytest.raises(Unsupported, match="deletion vectors"):
        table.direct.append([rows({4: "d"}).append_column("n", pa.array([8], pa.int32()))])
    assert (there(table), unnamed(lake)) == ({1: "a", 3: "c"}, [])


def test_a_write_is_acknowledged_when_it_is_durable(
    lake: Lakehouse, events: TableClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as failing:
        step = then("direct:committed", lambda: failing.setattr(durability, "_sync_file_system", _no_luck))
        with pytest.raises(NotDurable):
            DirectRun(lake.warehouse, events.table, appended(), step).run()
    assert there(events) == {1: "a", 2: "b"}


def test_a_barrier_lets_subscribers_pass_when_it_is_durable(
    lake: Lakehouse, events: TableClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = _left_by_a_write_that_died(lake, events, clock)
    with monkeypatch.context() as failing:
        step = then("barrier:committed", lambda: failing.setattr(durability, "_sync_file_system", _no_luck))
        with pytest.raises(NotDurable):
            raise_barrier(lake.warehouse, events.reader.target(None), log, step)
    assert log.direct_upto() is not None
    clock.forward(QUIET)
    lake.flush()
    assert log.direct_upto() is None


def _no_luck(path: Path) -> None:
    raise NotDurable(f"cannot sync {path}: no luck")


def _left_by_a_write_that_died(lake: Lakehouse, events: TableClient, clock: Clock) -> TableLog:
    with pytest.raises(Died):
        DirectRun(lake.warehouse, events.table, appended(), dies("direct:committing")).run()
    clock.forward(QUIET)
    log = lake.warehouse.log(events.table)
    assert log.direct_upto() is not None
    return log


def test_a_write_that_no_floor_could_note_is_not_acknowledged(lake: Lakehouse, events: TableClient) -> None:
    floors = Path(lake.warehouse.uri, "data", ON_STORAGES)

    def away() -> None:
        floors.rename(floors.with_name("away"))
        floors.write_text("in the way")

    with pytest.raises(StorageUnavailable, match="could not be recorded"):
        DirectRun(lake.warehouse, events.table, appended(), then("direct:synced", away)).run()
    floors.unlink()
    floors.with_name("away").rename(floors)
    assert there(events) == {1: "a", 2: "b"}


@pytest.mark.slow
def test_a_state_from_a_backup_takes_no_direct_write(lake: Lakehouse, events: TableClient, tmp_path: Path) -> None:
    state, backup = tmp_path / "lake" / "_lakewarden", tmp_path / "backup"
    shutil.copytree(state, backup)
    for number in range(2, 5):
        events.direct.append([rows({number: "later"})])
    shutil.rmtree(state)
    shutil.copytree(backup, state)
    floor_at.cache_clear()
    with Lakehouse.open(lake.warehouse.uri) as restored:
        table = restored.table(EVENTS)
        with pytest.raises(Corrupt, match=r"the warehouse's state is older than its data.*repair --restored"):
            table.direct.append([rows({9: "lost?"})])
        assert 9 not in {row["id"] for row in table.read(freshness="eventual").to_pylist()}


# Its disk goes away


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Disk]:
    with disk(tmp_path / "mounts") as found:
        yield found


@pytest.fixture
def cold(lake: Lakehouse, mounted: Disk) -> TableClient:
    lake.create_storage("cold", type="filesystem", base=str(mounted.where))
    return make(lake, STORAGE_ID="cold")


def test_a_write_whose_disk_went_away_is_not_acknowledged(lake: Lakehouse, cold: TableClient, mounted: Disk) -> None:
    with pytest.raises(StorageUnavailable, match="could not be recorded"):
        DirectRun(lake.warehouse, cold.table, appended(), then("direct:synced", mounted.unmount)).run()
    assert not list(mounted.where.iterdir())
    mounted.mount()
    assert there(cold) == {1: "a", 2: "b"}


def test_a_write_into_the_mount_point_of_a_disk_that_is_back_is_not_acknowledged(
    lake: Lakehouse, cold: TableClient, mounted: Disk
) -> None:
    def reach(step: str) -> None:
        if step == "direct:committing":
            shutil.copytree(mounted.content, mounted.content.parent / "copy")
            mounted.unmount()
            shutil.copytree(mounted.content.parent / "copy", mounted.where, dirs_exist_ok=True)
            (mounted.where / MARKER).unlink()
        if step == "direct:committed":
            mounted.mount()

    with pytest.raises(StorageUnavailable, match="could not be recorded"):
        DirectRun(lake.warehouse, cold.table, appended(), reach).run()
    assert there(cold) == {1: "a"}
    cold.direct.append([rows({2: "again"})])
    assert there(cold) == {1: "a", 2: "again"}


def test_a_barrier_on_a_disk_that_went_away_lets_nobody_pass(
    lake: Lakehouse, cold: TableClient, mounted: Disk, clock: Clock
) -> None:
    log = _left_by_a_write_that_died(lake, cold, clock)
    with pytest.raises(StorageUnavailable):
        raise_barrier(lake.warehouse, cold.reader.target(None), log, then("barrier:committed", mounted.unmount))
    assert log.direct_upto() is not None
    mounted.mount()
    clock.forward(QUIET)
    lake.flush()
    assert log.direct_upto() is None
