"""A large batch is read by tasks of Spark: each object in a process with bounds, its rows straight into data files, once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakewarden import Lakehouse
from lakewarden.base.connection import Location
from lakewarden.base.setting_sections import PipelinesSettings
from lakewarden.base.settings import Settings
from lakewarden.ingest.pipelines import in_tasks
from lakewarden.ingest.pipelines.reading import bounded, reads_of_tasks
from lakewarden.ingest.pipelines.run import IngestRequest, ObjectIngest, Readers
from lakewarden.storage.open import open_store
from tests.fixtures.minio import MinioServer
from tests.ingest.pipelines.uploads import NAME, make, rejects, rows, table, upload
from tests.maintenance.steps import Died, dies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MANY = Settings(pipelines=PipelinesSettings(spark_objects=20))


@pytest.fixture
def lake(warehouse_uri: str, spark: SparkSession) -> Iterator[Lakehouse]:
    with Lakehouse.open(warehouse_uri, settings=MANY, spark=lambda: spark) as opened:
        yield opened


def test_many_objects_are_read_by_tasks(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake, "PARTITION_BY = (name)")
    monkeypatch.setattr(in_tasks, "_PACK_OBJECTS", 50)
    objects = {f"{number}.csv": f"id,name\n{number},{'ab'[number % 2]}\n" for number in range(120)}
    upload(lake, objects | {"bad.csv": "id,name\n1\n", "few.csv": "id\n1\n", "more.csv": "id,name,more\n-1,a,x\n"})
    jobs = _jobs(monkeypatch)
    report = lake.ingest("n.t")
    assert (report.ingested, report.rejected, report.batches, report.rows) == (121, 2, 1, 121)
    assert jobs == [3, 3], "one job; and again, since one object brought a column"
    assert table(lake, "id, more") == [(-1, "x"), *((number, None) for number in range(120))]
    assert set(rejects(lake)) == {"bad.csv", "few.csv"}
    upload(lake, {key: text.replace("id,name\n", "id,name\n1") for key, text in list(objects.items())[:30]})
    assert (lake.ingest("n.t").ingested, jobs) == (30, [3, 3, 1])
    assert [row["rows"] for row in rows(lake, "SELECT count(*) AS rows FROM n.t GROUP BY _object HAVING rows > 1")] == []
    upload(lake, {"a few.csv": "id,name\n7,a\n"})
    assert (lake.ingest("n.t").ingested, jobs) == (1, [3, 3, 1]), "read here"
    assert not [found for found in lake.check() if not found.passed]


def test_of_a_key_the_last_row_stays(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake, "PRIMARY_KEY = (id)")
    monkeypatch.setattr(in_tasks, "_PACK_OBJECTS", 50)
    upload(lake, {f"{number:03}.csv": f"id,name\n{number},own\n-1,{number}\n" for number in range(60)})
    assert lake.ingest("n.t").rows == 120
    assert table(lake) == [(-1, "59"), *((number, "own") for number in range(60))]
    upload(lake, {f"x{number}.csv": f"id,name\n{number},later\n" for number in range(30)})
    lake.ingest("n.t")
    assert table(lake)[:31] == [(-1, "59"), *((number, "later") for number in range(30))]


def test_each_object_counts_once_wherever_an_ingest_dies(lake: Lakehouse) -> None:
    make(lake)
    expected: list[tuple[object, ...]] = []
    for step in ("ingest:read", "ingest:named", "direct:committing", "before-link", "direct:committed", "ingest:committed"):
        upload(lake, {f"{len(expected) + more}.csv": f"id,name\n{len(expected) + more},x\n" for more in range(25)})
        expected += [(len(expected) + more, "x") for more in range(25)]
        with bounded(lake.warehouse.settings.pipelines) as read:
            readers = Readers(read, lake._parts.operator.in_tasks, partial(reads_of_tasks, MANY.pipelines))
            dying = ObjectIngest(lake.warehouse, IngestRequest(NAME), readers, f"IN-{step}", dies(step))
            with pytest.raises(Died):
                dying.run()
    lake.ingest("n.t")
    assert table(lake) == expected


def _jobs(patch: pytest.MonkeyPatch) -> list[int]:
    """The packs of each job that Spark runs from now on."""
    from lakewarden.spark.fanout import SparkFanOut

    jobs: list[int] = []
    real = SparkFanOut.__call__

    def counted(self: SparkFanOut, work: object, items: list[object], advance: object) -> object:
        jobs.append(len(items))
        return real(self, work, items, advance)  # type: ignore[arg-type]

    patch.setattr(SparkFanOut, "__call__", counted)
    return jobs


def test_tasks_read_a_bucket(minio: MinioServer, tmp_path: Path) -> None:
    """In a process of its own: Spark's workers have the credentials that were there when it started."""
    place = minio.prefix_for("tasks")
    source = open_store(Location(f"{place}/w/uploads/n"))
    with Lakehouse.open(f"{place}/w", settings=MANY, create=True) as lake:
        make(lake)
        for number in range(30):
            source.put(f"{number}.csv", f"id,name\n{number},x\n".encode())
        source.put("bad.csv", b"id,name\n1\n")
        program = (
            "from lakewarden import Lakehouse",
            "from lakewarden.base.setting_sections import PipelinesSettings",
            "from lakewarden.base.settings import Settings",
            f"settings = Settings(pipelines=PipelinesSettings(spark_objects={MANY.pipelines.spark_objects}))",
            f"with Lakehouse.open({place + '/w'!r}, settings=settings) as lake:",
            "    report = lake.ingest('n.t')",
            "    print(report.ingested, report.rejected, report.batches)",
        )
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", "\n".join(program)], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == ["30", "1", "1"]
        assert table(lake, "id") == [(number,) for number in range(30)]
