"""What a task writes is durable and answered, or gone and an error; and its rows have the numbers that were reserved for it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden import Column, Lakehouse
from lakewarden.catalog.target import ScopeTarget
from lakewarden.errors import InvalidArgument, LakewardenError
from lakewarden.storage.steps import Steps
from lakewarden.tables.direct.outputs import PartWriter, TaskOutput
from lakewarden.tables.direct.task_files import TaskNumbers, all_written, write_rows
from lakewarden.tables.fanout import SizedWork, run_here
from tests.fixtures.lakes import lake_fixture

pytestmark = pytest.mark.disk


def make_table(lake: Lakehouse) -> None:
    lake.create_namespace("n")
    lake.create_table("n.t", columns=[Column("id", "BIGINT")])


lake = lake_fixture(make_table)


def target_of(lake: Lakehouse) -> ScopeTarget:
    return lake.warehouse.target_of(lake.warehouse.catalog.read(), lake.table("n.t").table, None)


def files(target: ScopeTarget) -> list[str]:
    return [path.name for path in Path(target.location.uri).rglob("*.parquet")]


def test_tasks_of_which_one_fails_leave_no_file(lake: Lakehouse) -> None:
    target = replace(target_of(lake), target_file_size=1)  # a file for each part, so that one is there before the error
    closed: list[int] = []

    def rows(task: int) -> Generator[pa.Table, None, None]:
        numbers = TaskNumbers(target, task * 100)
        try:
            for each in ([1], [2]):
                yield numbers.numbered(pa.table({"id": each}))
            if task == 1:
                raise InvalidArgument("its second object is broken")
        finally:
            closed.append(task)

    def work(task: int) -> Steps[tuple[TaskOutput, int] | LakewardenError]:
        return write_rows(target, rows(task), task)

    done, said = all_written(run_here, target, work, [SizedWork(0, 1), SizedWork(2, 1)])
    assert said == [0, 2]
    assert [[file.rows for file in one.files] for one in done] == [[1, 1], [1, 1]]
    before = files(target)
    assert len(before) == 4
    with pytest.raises(InvalidArgument, match="second object"):
        all_written(run_here, target, work, [SizedWork(each, 1) for each in range(3)])
    assert sorted(closed) == [0, 0, 1, 2, 2]
    assert sorted(files(target)) == sorted(before)


def test_rows_are_closed_where_a_file_cannot_be_written(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []

    def rows() -> Generator[pa.Table, None, None]:
        try:
            while True:
                yield pa.table({"id": [1], "other": [2]})
        finally:
            closed.append(True)

    def refused(*_: object) -> None:
        raise InvalidArgument("no room")

    monkeypatch.setattr(PartWriter, "write_all", lambda _, given: refused(next(given)))
    (found,) = run_here(lambda _: write_rows(target_of(lake), rows(), None), [SizedWork(0, 1)])
    assert isinstance(found, InvalidArgument)
    assert closed == [True]


def test_a_task_with_more_rows_than_numbers_is_refused(lake: Lakehouse) -> None:
    numbers = TaskNumbers(target_of(lake), 7, 3, "too many rows")
    made = numbers.numbered(pa.table({"id": [1, 2]}))
    assert (made.column("_seq").to_pylist(), numbers.left) == ([7, 8], 1)
    with pytest.raises(InvalidArgument, match="too many rows"):
        numbers.numbered(pa.table({"id": [1, 2]}))
