"""What vacuum, drop, move, repair, restore and erase do with directories of partitions, whatever their values are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakewarden import Column, Lakehouse
from lakewarden.errors import NotFound
from lakewarden.maintenance.planning.drains import table_size
from lakewarden.sql.results import ResultRows
from lakewarden.tables.client import TableClient
from tests.fixtures.bucket import AnyPath, path_of
from tests.fixtures.lakes import NOTES, make_notes, notes

pytestmark = pytest.mark.slow

EVENTS = "app.events"
COLUMNS = [Column("id", "BIGINT"), Column("kind", "TEXT"), Column("n", "INT")]
KINDS = [
    None,
    "_delta_log",
    "..",
    ".",
    "_files",
    "a/b",
    "100%",
    "%41",
    "a b",
    "ü",
    "x=y",
    "__HIVE_DEFAULT_PARTITION__",
    "k" * 300,
]
"""Values that could be taken for something else in a path."""

_WEEK = timedelta(hours=169)
Kinds = dict[int, str | None]


class Clock:
    """The machine's, moved by the test. What a store says of its objects is not moved."""

    ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lake(warehouse_uri: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lakehouse]:
    monkeypatch.setattr("lakewarden.base.clock.system_clock", clock)
    with Lakehouse.open(warehouse_uri, clock=clock) as opened:
        opened.create_namespace("app")
        opened.create_table(EVENTS, columns=COLUMNS, primary_key=["id"], partition_by=["kind"])
        yield opened


def _write(lake: Lakehouse, n: int, ids: Iterator[int] | range = range(len(KINDS))) -> None:
    lake.table(EVENTS).write([{"id": id_, "kind": KINDS[id_], "n": n} for id_ in ids])
    (report,) = lake.flush(EVENTS)
    assert report.outcome == "done"


def _cold(table: TableClient, version: int | None = None) -> Kinds:
    rows = table.read(freshness="eventual") if version is None else table.read(version=version)
    return {row["id"]: row["kind"] for row in rows.to_pylist()}


def _place(lake: Lakehouse) -> AnyPath:
    return path_of(lake.warehouse.uri) / "data" / "app" / "events"


def _files(place: AnyPath) -> list[AnyPath]:
    return [path for path in place.rglob("*.parquet") if not str(path.relative_to(place)).startswith("_delta_log/")]


def _live(lake: Lakehouse) -> int:
    return len(DeltaTable(str(_place(lake))).file_uris())


@pytest.mark.both_stores
def test_a_vacuum_leaves_what_is_live_and_nothing_else(lake: Lakehouse, clock: Clock) -> None:
    for n in range(2):
        _write(lake, n)
    lake.sql(f"DELETE FROM {EVENTS} WHERE kind = 'a/b'")
    _write(lake, 2, range(1))
    orphan = next(path for path in _files(_place(lake)) if "kind=" in str(path)).parent / "batch-9-left.parquet"
    orphan.write_bytes(b"by a writer that died")
    before = _cold(lake.table(EVENTS))
    assert before == {id_: kind for id_, kind in enumerate(KINDS) if kind != "a/b"}
    clock.ahead = _WEEK
    (report,) = lake.vacuum(EVENTS, dry_run=False)
    assert (report.outcome, report.metrics["files_deleted"]) == ("done", len(KINDS) + 2 + 1)
    assert _cold(lake.table(EVENTS)) == before
    assert len(_files(_place(lake))) == _live(lake) == len(before)
    assert not orphan.exists()
    assert len(list(_place(lake).glob("kind=*"))) <= len(before)  # a partition without files has no directory
    with pytest.raises(NotFound, match="still work"):
        lake.table(EVENTS).read(version=1)


@pytest.mark.both_stores
def test_nothing_is_left_of_a_dropped_table(lake: Lakehouse, clock: Clock) -> None:
    _write(lake, 1)
    lake.drop_table(EVENTS)
    assert _files(_place(lake)) == list(_place(lake).glob("kind=*")) == []
    late = _place(lake) / "kind=ann" / "day=1" / "batch-3-late.parquet"
    late.parent.mkdir(parents=True)
    late.write_bytes(b"by a writer that slept")
    clock.ahead = _WEEK
    lake.vacuum(dry_run=False)
    assert not _place(lake).exists()


@pytest.mark.both_stores
def test_a_moved_table_has_its_partitions_and_its_versions(lake: Lakehouse, warehouse_uri: str) -> None:
    _write(lake, 1)
    _write(lake, 2, range(3))
    kind = "s3" if "://" in warehouse_uri else "filesystem"
    lake.create_storage("other", type=kind, base=f"{warehouse_uri}-other")
    lake.move(EVENTS, "other")
    table = lake.table(EVENTS)
    assert _files(_place(lake)) == []
    assert _cold(table) == _cold(table, 1) == dict(enumerate(KINDS))
    assert set(table.read(version=1)["n"].to_pylist()) == {1}
    _write(lake, 3, range(1))
    assert table_size(lake.warehouse, table.table).rows == len(KINDS)
    assert all(finding.passed for finding in lake.check()), lake.check()


@pytest.mark.disk
def test_a_version_of_the_past_is_pruned_by_partition(lake: Lakehouse) -> None:
    _write(lake, 1)
    kept = [path for path in _files(_place(lake)) if path.parent.name == "kind=.."]
    _write(lake, 2)
    for path in _files(_place(lake)):
        if path not in kept:
            path.unlink()
    (found,) = lake.sql(f"SELECT id, n FROM {EVENTS} VERSION AS OF 1 WHERE kind = '..'")
    assert isinstance(found, ResultRows)
    assert found.to_pylist() == [{"id": KINDS.index(".."), "n": 1}]
    with pytest.raises(NotFound, match="of the files of version 1 are missing"):
        lake.table(EVENTS).read(version=1)


@pytest.mark.both_stores
def test_delta_rs_and_duckdb_read_what_writes_rewrites_and_restores_leave(lake: Lakehouse) -> None:
    _write(lake, 1)
    _write(lake, 2, range(2))
    _check_readers(lake, {0: 2, 1: 2})
    (report,) = lake.optimize(EVENTS, zorder=["n"])
    assert report.outcome == "done"
    _check_readers(lake, {0: 2, 1: 2})
    lake.restore(EVENTS, version=1, dry_run=False)
    _check_readers(lake, {})
    where = ", ".join(f"'{KINDS[id_]}'" for id_ in (5, 6, 10))
    packed = lake.optimize(EVENTS, where=f"kind IN ({where})", zorder=["n"])
    assert packed[0].metrics["files_removed"] == 3, "whose values hold what paths escape"
    _check_readers(lake, {})


def _check_readers(lake: Lakehouse, changed: dict[int, int]) -> None:
    """`n` is 1 but where it was changed."""
    wanted = sorted((id_, kind, changed.get(id_, 1)) for id_, kind in enumerate(KINDS))
    delta = DeltaTable(str(_place(lake)))
    theirs = delta.to_pyarrow_table(columns=["id", "kind", "n"]).to_pylist()
    assert sorted((row["id"], row["kind"], row["n"]) for row in theirs) == wanted
    events = delta.to_pyarrow_dataset()
    assert duckdb.execute("SELECT id, kind, n FROM events ORDER BY id").fetchall() == wanted
    for id_, kind, n in wanted[5:]:
        assert duckdb.execute("SELECT id, n FROM events WHERE kind = ?", [kind]).fetchall() == [(id_, n)], kind
    assert events.count_rows() == len(KINDS)


def test_a_restore_names_the_files_of_partitions_again(lake: Lakehouse) -> None:
    _write(lake, 1)
    lake.sql(f"UPDATE {EVENTS} SET kind = 'moved', n = 2 WHERE true; STORAGE FLUSH TABLE {EVENTS}")
    assert set(_cold(lake.table(EVENTS)).values()) == {"moved"}
    lake.restore(EVENTS, version=1, dry_run=False)
    assert _cold(lake.table(EVENTS)) == dict(enumerate(KINDS))
    lake.sql(f"ALTER TABLE {EVENTS} RENAME COLUMN n TO m")
    (report,) = lake.restore(EVENTS, version=2, dry_run=False)
    assert report.outcome == "done"
    assert set(_cold(lake.table(EVENTS)).values()) == {"moved"}
    theirs = DeltaTable(str(_place(lake))).to_pyarrow_table()
    assert (set(theirs["kind"].to_pylist()), set(theirs["m"].to_pylist())) == ({"moved"}, {2})


def test_files_of_another_program_in_partitions_are_kept_and_packed(lake: Lakehouse, clock: Clock) -> None:
    _write(lake, 1)
    theirs = {100 + place: kind for place, kind in enumerate(KINDS[:11])}
    columns = {"id": pa.array(theirs, pa.int64()), "kind": pa.array(theirs.values(), pa.string())}
    rest = {"n": pa.array([5] * len(theirs), pa.int32()), "_seq": pa.nulls(len(theirs), pa.int64())}
    write_deltalake(str(_place(lake)), pa.table(columns | rest), mode="append")
    every = dict(enumerate(KINDS)) | theirs
    assert _cold(lake.table(EVENTS)) == every
    assert all(finding.passed for finding in lake.check())
    (packed,) = lake.optimize(EVENTS)
    assert (packed.metrics["files_added"], packed.metrics["files_removed"]) == (len(theirs), 2 * len(theirs))
    clock.ahead = _WEEK
    (report,) = lake.vacuum(EVENTS, dry_run=False)
    assert (report.metrics["files_deleted"], len(_files(_place(lake)))) == (2 * len(theirs), len(KINDS))
    assert _cold(lake.table(EVENTS)) == every


def test_a_repair_brings_back_rows_of_partitions(lake: Lakehouse) -> None:
    _write(lake, 1)
    _write(lake, 2, range(4))
    (_place(lake) / "_delta_log" / f"{2:020d}.json").write_bytes(b"")
    assert not all(finding.passed for finding in lake.check())
    (repaired,) = lake.repair(EVENTS)
    assert (repaired.rows_lost, _cold(lake.table(EVENTS))) == (0, dict(enumerate(KINDS)))
    rows = lake.table(EVENTS).read(freshness="eventual").to_pylist()
    assert {row["id"] for row in rows if row["n"] == 2} == set(range(4))
    assert all(finding.passed for finding in lake.check()), lake.check()


def test_a_partition_named_as_an_erased_user_is_not_the_users(lake: Lakehouse) -> None:
    make_notes(lake).write(notes({1: "ann's"}), user="ann")
    lake.table(EVENTS).write([{"id": 1, "kind": "ann", "n": 1}])
    lake.flush()
    lake.erase("ann", deep=True)
    assert _cold(lake.table(EVENTS)) == {1: "ann"}
    assert lake.table(NOTES).read(user="ann").num_rows == 0
