"""A partitioned table by the client and SQL: flushed, read, packed and restored."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakewarden import Column, Lakehouse
from lakewarden.base.setting_sections import FlushSettings
from lakewarden.base.settings import Settings
from lakewarden.delta.parquet import reading
from lakewarden.delta.reading import rows as live_rows
from lakewarden.errors import ConstraintViolation, InvalidArgument, LakewardenError
from lakewarden.spark.cluster import SparkCluster
from lakewarden.tables.fanout import Advance, SizedWork, in_process

COLUMNS = [Column("id", "BIGINT"), Column("day", "DATE"), Column("kind", "TEXT"), Column("n", "INT")]
EVENTS = "app.events"


@pytest.fixture
def lake(warehouse_uri: str) -> Lakehouse:
    lake = Lakehouse.open(warehouse_uri)
    lake.create_namespace("app")
    lake.create_table(EVENTS, columns=COLUMNS, primary_key=["id"], partition_by=["kind", "day"])
    return lake


def _flushed(lake: Lakehouse, *rows: tuple[int, str, str | None, int]) -> None:
    lake.table(EVENTS).write([{"id": id_, "day": day, "kind": kind, "n": n} for id_, day, kind, n in rows])
    (report,) = lake.flush(EVENTS)
    assert report.outcome == "done"


def _values(lake: Lakehouse, text: str) -> list[list[object]]:
    (found,) = lake.sql(text)
    return [list(row.values()) for row in found.to_pylist()]  # type: ignore[union-attr]


def _files(lake: Lakehouse) -> dict[str, int]:
    """How many files each directory has."""
    found: dict[str, int] = {}
    for path in DeltaTable(_uri(lake)).file_uris():
        below = path.partition("/events/")[2].rpartition("/")[0]
        found[below] = found.get(below, 0) + 1
    return found


def _uri(lake: Lakehouse) -> str:
    return f"{lake.table(EVENTS).warehouse.uri}/data/app/events"


def _opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the data files that queries open from now on."""
    found: list[str] = []

    def opening(store: object, path: str, *rest: object) -> object:
        found.append(path)
        return reading.open_file(store, path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(live_rows, "open_file", opening)
    return found


def test_a_condition_on_a_partition_column_reads_only_its_files(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    days = ["2024-05-01", "2024-05-02", "2024-05-03"]
    _flushed(lake, *((10 * place + len(kind), day, kind, 1) for place, day in enumerate(days) for kind in ("a", "bb", "ccc")))
    opened = _opened(monkeypatch)
    assert _values(lake, "SELECT id FROM app.events WHERE kind = 'bb' AND day >= DATE '2024-05-02' ORDER BY id") == [[12], [22]]
    assert sorted(path.rpartition("/")[0] for path in opened) == ["kind=bb/day=2024-05-02", "kind=bb/day=2024-05-03"]
    opened.clear()
    assert _values(lake, "SELECT count(*) FROM app.events WHERE kind IN ('a', 'ccc')") == [[6]]
    assert len(opened) == 6
    opened.clear()
    lake.table(EVENTS).write([{"id": 12, "day": "2024-05-02", "kind": "a", "n": 5}])  # hot: moves away from bb
    assert _values(lake, "SELECT id FROM app.events WHERE kind = 'bb' ORDER BY id") == [[2], [22]]


def test_a_row_moves_with_its_partition_columns(lake: Lakehouse) -> None:
    _flushed(lake, (1, "2024-05-01", "a", 1), (2, "2024-05-01", "a", 2))
    lake.sql("UPDATE app.events SET kind = 'b', day = DATE '2024-06-01' WHERE id = 2")
    (report,) = lake.flush(EVENTS)
    assert (report.outcome, report.metrics["rows_updated"]) == ("done", 1)
    assert _files(lake) == {"kind=a/day=2024-05-01": 1, "kind=b/day=2024-06-01": 1}
    assert _values(lake, "SELECT id, kind FROM app.events ORDER BY id") == [[1, "a"], [2, "b"]]


def test_empty_text_in_a_partition_column_is_null_at_once(lake: Lakehouse) -> None:
    lake.table(EVENTS).write([{"id": 1, "day": None, "kind": "", "n": 1}])
    assert lake.table(EVENTS).read().column("kind").to_pylist() == [None]
    lake.create_table("app.strict", columns=COLUMNS, primary_key=["id", "kind"], partition_by=["kind"])
    with pytest.raises(ConstraintViolation, match="in the primary key"):
        lake.table("app.strict").write([{"id": 1, "kind": ""}])


@pytest.mark.slow
def test_compact_and_optimize_work_in_each_partition(lake: Lakehouse) -> None:
    for number in range(6):
        _flushed(lake, (number, "2024-05-01", "a", number), (10 + number, "2024-05-01", "b", number))
    _flushed(lake, (99, "2024-05-01", "c", 0))
    (packed,) = lake.compact(EVENTS)
    assert (packed.outcome, packed.metrics["files_added"], packed.metrics["files_removed"]) == ("done", 2, 12)
    assert set(_files(lake).values()) == {1}
    (again,) = lake.compact(EVENTS)
    assert (again.outcome, again.reason) == ("skipped", "none of its 3 partitions ends with 5 small files that fit into one")
    for number in range(3):
        _flushed(lake, (20 + number, "2024-05-01", "b", number))
    (report,) = lake.optimize(EVENTS)
    assert (report.outcome, report.metrics["files_added"], report.metrics["files_removed"]) == ("done", 1, 4)
    (ordered,) = lake.optimize(EVENTS, zorder=["n"])
    assert (ordered.outcome, ordered.metrics["files_added"]) == ("done", 3)
    with pytest.raises(InvalidArgument, match="a partition column has one value in a file"):
        lake.optimize(EVENTS, zorder=["kind"])
    assert _values(lake, "SELECT count(*), sum(n) FROM app.events") == [[16, 33]]


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("kind = 'a'", {"a": 1, "b": 3, None: 3}),
        ("kind IS NULL OR day < DATE '2024-05-01' + INTERVAL 1 DAY", {"a": 1, "b": 3, None: 1}),
        ("KIND <> 'zz' AND day BETWEEN '2024-05-02' AND '2024-05-31'", {"a": 3, "b": 1, None: 3}),
        ("kind LIKE 'x%'", {"a": 3, "b": 3, None: 3}),
    ],
)
def test_optimize_takes_the_partitions_of_a_condition(lake: Lakehouse, where: str, left: dict[str | None, int]) -> None:
    days = {"a": "2024-05-01", "b": "2024-05-02", None: "2024-06-01"}
    for number in range(3):
        _flushed(lake, *((10 * number + place, day, kind, 1) for place, (kind, day) in enumerate(days.items())))
    lake.sql(f"OPTIMIZE app.events WHERE {where}")
    found = {path.partition("/")[0].partition("=")[2]: count for path, count in _files(lake).items()}
    assert found == {kind or "__HIVE_DEFAULT_PARTITION__": count for kind, count in left.items()}
    assert _values(lake, "SELECT count(*) FROM app.events") == [[9]]


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("n = 1", "n is not a partition column; these can be compared: kind, day"),
        ("kind = (SELECT 'a')", "cannot be used here"),
        ("read_text('/etc/passwd') = kind", "cannot be used here"),
        ("day > 5", "Cannot compare values"),
    ],
)
def test_optimize_refuses_another_condition(lake: Lakehouse, where: str, says: str) -> None:
    _flushed(lake, (1, "2024-05-01", "a", 1))
    with pytest.raises(LakewardenError) as refusal:
        lake.sql(f"OPTIMIZE app.events WHERE {where}")
    assert (refusal.value.code, says in refusal.value.message) == ("INVALID_ARGUMENT", True), refusal.value.message


@pytest.mark.parametrize("zorder", [(), ("n",)])
def test_bins_of_a_large_table_are_written_side_by_side(
    lake: Lakehouse, warehouse_uri: str, monkeypatch: pytest.MonkeyPatch, zorder: tuple[str, ...]
) -> None:
    for number in range(3):
        _flushed(lake, (number, "2024-05-01", "a", 9 - number), (10 + number, "2024-05-01", None, number))
    spread: list[int] = []

    def counted(work: Any, items: Sequence[SizedWork[Any]], advance: Advance) -> list[Any]:
        spread.append(len(items))
        return in_process(work, pickle.loads(pickle.dumps(items)), advance)

    monkeypatch.setattr(SparkCluster, "fan_out", lambda _self: counted)
    with Lakehouse.open(warehouse_uri, settings=Settings(flush=FlushSettings(large_scope_bytes=1))) as large:
        (report,) = large.optimize(EVENTS, zorder=zorder)
        assert (report.outcome, report.metrics["files_added"], report.metrics["files_removed"]) == ("done", 2, 6)
        assert spread == [2]
        assert set(_files(large).values()) == {1}
        assert _values(large, "SELECT count(*), sum(n) FROM app.events") == [[6, 27]]
        assert large.table(EVENTS).history(limit=1)[0].operation == "OPTIMIZE"


def test_a_planned_optimize_of_some_partitions_is_applied(lake: Lakehouse) -> None:
    for number in range(4):
        _flushed(lake, (number, "2024-05-01", "a", 1), (10 + number, "2024-05-01", "b", 1))
    plan = lake.plan("optimize", EVENTS, where="kind = 'b'", target_file_size=1 << 20)
    assert "'b'" not in "".join(plan.to_json().splitlines()[1:]), "the lines of scopes hold no values"
    (report,) = lake.apply(plan)
    assert (report.outcome, _files(lake)) == ("done", {"kind=a/day=2024-05-01": 4, "kind=b/day=2024-05-01": 1})
    with pytest.raises(InvalidArgument, match="target_file_size 1: "):
        lake.optimize(EVENTS, target_file_size=1)


def test_a_restore_and_a_check_know_partitions(lake: Lakehouse) -> None:
    _flushed(lake, (1, "2024-05-01", "a%/=", 1))
    _flushed(lake, (1, "2024-05-02", "b", 2))
    (report,) = lake.restore(EVENTS, version=1, dry_run=False)
    assert report.outcome == "done"
    assert _values(lake, "SELECT id, kind, n FROM app.events") == [[1, "a%/=", 1]]
    theirs = pa.RecordBatchReader.from_stream(DeltaTable(_uri(lake)).scan()).read_all()
    assert theirs.select(["id", "kind", "n"]).to_pylist() == [{"id": 1, "kind": "a%/=", "n": 1}]
    _flushed(lake, (1, "2024-05-02", "b", 3))
    assert all(check.passed for check in lake.check())


def _small_files(lake: Lakehouse) -> None:
    for number in range(5):
        _flushed(lake, *((10 * number + at, "2026-11-22", kind, 1) for at, kind in enumerate("ab")))


def test_upkeep_is_quiet_after_one_look_that_finds_nothing_to_do(lake: Lakehouse) -> None:
    _small_files(lake)
    for operation in (lake.compact, lake.optimize):
        operation(EVENTS)
        assert [report.outcome for report in operation(EVENTS)] == ["skipped"]
        assert [report.reason for report in operation(EVENTS)] == ["nothing to do, by what the state knows"]


@pytest.mark.slow
def test_a_compaction_takes_a_condition_on_partitions(lake: Lakehouse) -> None:
    _small_files(lake)
    for dry_run in (True, False):
        assert [report.outcome for report in lake.compact(EVENTS, where="kind = 'c'", dry_run=dry_run)] == ["skipped"]
    (plan,) = lake.compact(EVENTS, where="kind = 'b'", dry_run=True)
    (applied,) = lake.apply(plan.plan_id)
    assert applied.outcome == "done"
    assert {path.split("kind=")[1][0] for path in plan.files} == {"b"}
    with pytest.raises(InvalidArgument, match="not a partition column"):
        lake.compact(EVENTS, where="n = 1")
    (rest,) = lake.compact(EVENTS)
    assert (rest.outcome, rest.metrics["files_added"]) == ("done", 1)


@pytest.mark.slow
def test_an_optimize_of_other_partitions_or_to_another_size_does_not_make_the_table_quiet(lake: Lakehouse) -> None:
    _small_files(lake)
    for dry_run in (True, False):
        assert [report.outcome for report in lake.optimize(EVENTS, where="kind = 'c'", dry_run=dry_run)] == ["skipped"]
    assert [report.outcome for report in lake.optimize(EVENTS, target_file_size=1024)] == ["skipped"]
    assert [report.outcome for report in lake.optimize(EVENTS)] == ["done"]
