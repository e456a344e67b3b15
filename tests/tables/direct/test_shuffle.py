"""Rows of many partitions from many tasks: each partition's come together in few files, and nothing else is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden import Column, Lakehouse
from lakewarden.base.setting_sections import MaintenanceSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import SHUFFLE, NewFile
from lakewarden.errors import StorageUnavailable
from lakewarden.storage.local import LocalObjects
from lakewarden.storage.open import open_store
from lakewarden.tables.direct import outputs
from lakewarden.tables.direct.outputs import PartWriter, ShuffleBlock, TaskOutput, remove_written, shuffled
from lakewarden.tables.direct.value import Reserve, TaskFiles
from lakewarden.tables.fanout import run_here
from tests.fixtures.lakes import lake_fixture
from tests.maintenance.steps import later

SALES = "n.sales"
Row = tuple[int, str | None]

_DAYS = st.sampled_from([None, "a", "b/c", "=%", "d" * 300, "ü"])
_TASKS = st.lists(st.lists(st.lists(_DAYS, max_size=20), max_size=3), max_size=4)
"""Of each task, batches; of each batch, the partition of each row."""


def make_table(lake: Lakehouse) -> None:
    lake.create_namespace("n")
    lake.create_table(SALES, columns=[Column("id", "BIGINT"), Column("day", "TEXT")], partition_by=["day"])


lake = lake_fixture(make_table)


def numbered(first: int, days: Sequence[str | None]) -> pa.Table:
    ids = pa.array(range(first, first + len(days)), pa.int64())
    return pa.table({"id": ids, "day": pa.array(days, pa.string()), "_seq": ids})


def written_by(
    target: ScopeTarget, tasks: Sequence[Sequence[Sequence[str | None]]], first: int
) -> tuple[list[TaskOutput], list[Row]]:
    """Has each task write its batches; the rows are what they wrote."""
    made, rows = list[TaskOutput](), list[Row]()
    for batches in tasks:
        writer = PartWriter(target)
        tables = []
        for days in batches:
            tables.append(numbered(first + len(rows), days))
            rows += zip(range(first + len(rows), first + len(rows) + len(days)), days, strict=True)
        writer.write_all(tables)
        made.append(writer.written())
    return made, rows


def kept(lake: Lakehouse) -> list[str]:
    """All files of the table but those of its log, and its manifest."""
    found = open_store(target_of(lake).location).list("")
    return [one.key for one in found if not one.key.startswith("_") and one.key != "manifest.json"]


def target_of(lake: Lakehouse) -> ScopeTarget:
    return lake.table(SALES).reader.target(None)


@pytest.mark.slow
@settings(max_examples=max(settings().max_examples // 4, 5))
@given(tasks=_TASKS, size=st.sampled_from([100, 1_000, 1 << 20]), at_once=st.sampled_from([1, 2_000, 1 << 20]))
def test_nothing_is_lost_and_nothing_comes_twice(tasks: list[list[list[str | None]]], size: int, at_once: int) -> None:
    with TemporaryDirectory() as place, Lakehouse.open(str(Path(place) / "w")) as lake, pytest.MonkeyPatch.context() as patch:
        patch.setattr(outputs, "_TASK_BYTES", at_once)
        make_table(lake)
        rows: list[Row] = []

        def write(target: ScopeTarget, reserve: Reserve) -> list[NewFile]:
            made, own = written_by(replace(target, target_file_size=size), tasks, reserve(1_000))
            rows.extend(own)
            return shuffled(run_here, replace(target, target_file_size=size), made)

        done = lake.table(SALES).direct.append(TaskFiles(write))
        assert done.rows_inserted == len(rows)
        found = lake.table(SALES).read()
        assert Counter(zip(found.column("id").to_pylist(), found.column("day").to_pylist(), strict=True)) == Counter(rows)
        assert not [key for key in kept(lake) if SHUFFLE.fullmatch(key)]
        live = pa.table(DeltaTable(target_of(lake).uri).get_add_actions()).column("path").to_pylist() if rows else []
        assert {*kept(lake)} == {unquote(str(path)) for path in live}


@pytest.mark.slow
def test_each_partition_has_one_file_where_each_task_has_rows_of_all(lake: Lakehouse) -> None:
    target = target_of(lake)
    made, rows = written_by(target, [[[f"day {number}" for number in range(50)] * 3]] * 6, 0)
    assert [len(one.files) for one in made] == [0] * 6
    assert [sum(block.rows for block in one.blocks) for one in made] == [150] * 6
    files = shuffled(run_here, target, made)
    assert len({file.partition for file in files}) == len(files) == 50
    assert sum(file.rows for file in files) == len(rows)
    assert {*kept(lake)} == {file.path for file in files}


def test_a_task_writes_data_files_of_partitions_with_enough_rows(lake: Lakehouse) -> None:
    target = replace(target_of(lake), target_file_size=1 << 14)
    (made,), _ = written_by(target, [[["much"] * 400 + ["little"] * 4]], 0)
    assert {file.partition for file in made.files} == {(("day", "much"),)}
    assert [(block.partition, block.rows) for block in made.blocks] == [((("day", "little"),), 4)]


@pytest.mark.disk
def test_a_task_reads_neighbouring_blocks_with_one_request(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of(lake)
    made, _ = written_by(target, [[[f"day {number}" for number in order]] for order in (range(30), range(29, -1, -1))], 0)
    reads = Counter[str]()
    get_range = LocalObjects.get_range

    def counted(self: LocalObjects, key: str, start: int, length: int) -> bytes:
        reads[key] += 1
        return get_range(self, key, start, length)

    monkeypatch.setattr(LocalObjects, "get_range", counted)
    shuffled(run_here, target, made)
    assert sorted(reads.values()) == [1, 1]


@pytest.mark.disk
def test_where_a_task_fails_all_that_was_written_goes(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of(lake)
    monkeypatch.setattr(outputs, "_TASK_BYTES", 1)
    made, _ = written_by(replace(target, target_file_size=1 << 14), [[["a"] * 400 + ["b", "c"]], [["b", "c", "d"]]], 0)
    assert any(one.files for one in made)
    write = LocalObjects.write

    def fails(self: LocalObjects, key: str, data: bytes | memoryview) -> None:
        if key.startswith("day=c/"):
            raise StorageUnavailable("the disk is gone")
        write(self, key, data)

    monkeypatch.setattr(LocalObjects, "write", fails)
    with pytest.raises(StorageUnavailable, match="the disk is gone"):
        shuffled(run_here, target, made)
    assert kept(lake) == []


def test_a_vacuum_removes_what_a_process_left_that_died(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        make_table(lake)
        lake.table(SALES).direct.append([pa.table({"id": [1], "day": ["a"]})])
        written_by(target_of(lake), [[["a", "b"]]], 0)
        assert len([key for key in kept(lake) if SHUFFLE.fullmatch(key)]) == 1
        lake.vacuum(SALES, look=True, dry_run=False)
        assert len(kept(lake)) == 2
    with Lakehouse.open(warehouse_uri, clock=later(days=30)) as lake:
        lake.vacuum(SALES, look=True, dry_run=False)
        assert len(kept(lake)) == 1
        assert lake.table(SALES).read().num_rows == 1


def test_what_is_written_can_be_removed(lake: Lakehouse) -> None:
    target = replace(target_of(lake), target_file_size=1 << 14)
    made, _ = written_by(target, [[["a"] * 400 + ["b"]]], 0)
    assert kept(lake)
    remove_written(target, made)
    assert kept(lake) == []


def test_blocks_are_sorted_by_partition_with_null_first() -> None:
    days = ["b", None, "a"]
    blocks = [ShuffleBlock("shuffle", number, number + 1, 1, (("day", day),)) for number, day in enumerate(days)]
    assert [block.partition[0][1] for block in sorted(blocks, key=lambda one: one.place)] == [None, "a", "b"]


@pytest.mark.slow
def test_rows_that_come_in_many_parts_leave_two_files_in_a_partition(warehouse_uri: str) -> None:
    """The first part as it is, and the others together."""
    days = [f"day {number}" for number in range(20)]
    given = (pa.table({"id": pa.array(range(100), pa.int64()), "day": days * 5}) for _ in range(50))
    small = Settings(maintenance=MaintenanceSettings(target_file_size=10_000))
    with Lakehouse.open(warehouse_uri, settings=small) as lake:
        make_table(lake)
        assert lake.table(SALES).direct.append(given).rows_inserted == 5_000
        assert Counter(key.split("/")[0] for key in kept(lake)) == {f"day=day%20{number}": 2 for number in range(20)}
        assert lake.table(SALES).read().num_rows == 5_000
        numbers = DeltaTable(target_of(lake).uri).to_pyarrow_table().column("_seq").to_pylist()
        assert len(set(numbers)) == 5_000
