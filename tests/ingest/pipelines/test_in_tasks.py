"""Batches that tasks read, run in this process: what they write is in the table or gone, and how batches are cut."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import PipelinesSettings
from lakewarden.base.settings import Settings
from lakewarden.ingest.pipelines.run import cut, fills, in_tasks
from lakewarden.storage.sources import SourceObject
from lakewarden.tables.direct import task_files
from tests.ingest.pipelines.uploads import ingest, make, rejects, table, upload
from tests.maintenance.steps import then

BOUNDS = PipelinesSettings(spark_objects=4, spark_bytes=50, batch_objects=2, batch_bytes=100, workers=2)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "w"), settings=Settings(pipelines=PipelinesSettings(spark_objects=1))) as opened:
        yield opened


def leftovers(lake: Lakehouse) -> set[str]:
    """Data files that no version names."""
    home = Path(lake.table("n.t").reader.target(None).uri)
    named = set(DeltaTable(str(home)).file_uris())
    return {str(path) for path in home.rglob("*.parquet") if "_delta_log" not in path.parts} - named


@pytest.mark.slow
def test_a_column_that_objects_bring_leaves_no_file_behind(lake: Lakehouse) -> None:
    make(lake)
    upload(lake, {"a.csv": "id\n1\n", "b.csv": "id,x\n2,5\n", "c.csv": "id,x\n3,text\n", "d.csv": "id,y\n4,6\n"})
    report = ingest(lake)
    assert (report.ingested, report.rejected, report.batches) == (3, 1, 1)
    assert table(lake, "id, x, y") == [(1, None, None), (2, 5, None), (4, None, 6)]
    assert "'x', line 2: 'text' does not fit BIGINT" in rejects(lake)["c.csv"]
    assert leftovers(lake) == set()


def test_objects_with_more_rows_than_a_pack_has_numbers(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_files, "WHOLE", 5)
    make(lake)
    upload(lake, {f"{number}.csv": "id\n1\n2\n" for number in range(4)})
    assert ingest(lake).rows == 8
    assert table(lake, "count(*), count(DISTINCT _seq)") == [(8, 8)]
    assert leftovers(lake) == set()


@pytest.mark.parametrize("step", ["ingest:grown", "ingest:read"])
def test_the_attempt_that_came_too_late_takes_its_files_along(lake: Lakehouse, step: str) -> None:
    make(lake, "PRIMARY_KEY = (id)")
    upload(lake, {"a.csv": "id,name\n1,a\n1,b\n"})
    seen: list[object] = []

    def other() -> None:
        seen.append(None)
        if len(seen) == 2:  # the first time, the table gets its schema
            ingest(lake)

    ingest(lake, reach=then(step, other))
    assert table(lake) == [(1, "b")]
    assert leftovers(lake) == set()


def test_batches_are_large_where_tasks_read_them() -> None:
    def some(count: int, size: int = 1) -> list[SourceObject]:
        return [SourceObject(f"{number}", size, "e", datetime(2026, 11, 23, tzinfo=UTC)) for number in range(count)]

    assert [in_tasks(BOUNDS, some(count)) for count in (3, 4)] == [False, True]
    assert [in_tasks(BOUNDS, some(count, 25)) for count in (2, 3)] == [False, True], "two are read here by two workers"
    assert [fills(BOUNDS, some(3), tasks=tasks) for tasks in (False, True)] == [True, False]
    assert [len(one) for one in cut(BOUNDS, some(9), tasks=True)] == [4, 5]
    assert [len(one) for one in cut(BOUNDS, some(3), tasks=True)] == [2, 1]
    assert [len(one) for one in cut(BOUNDS, some(9), tasks=False)] == [2, 7]
    assert [len(one) for one in cut(BOUNDS, some(3, 70), tasks=True)] == [1, 2]
