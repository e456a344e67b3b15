"""Nothing false is said of tables that Spark and delta-rs append to, compact, delete from, checkpoint and vacuum while a survey
looks: every look is a state that existed.

`LAKEWARDEN_BESIDE`: seconds for each place, by default until each writer has committed; `make torture` takes five minutes each.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

import lakewarden
from lakewarden.base.connection import Connection, Location
from lakewarden.delta.replay.log_objects import LogObjects
from lakewarden.delta.replay.log_state import replay
from lakewarden.spark.s3a import connect
from lakewarden.storage.options import delta_options
from tests.fixtures.minio import S3A_KEYS, MinioServer

_SECONDS = float(os.environ.get("LAKEWARDEN_BESIDE", "0"))
_LEAST = 3
"""Commits of each writer, and versions that looks have to see."""

_PAUSE = 0.05 if _SECONDS else 0.2
"""Seconds between two commits of delta-rs, else it takes all of the processor, and Spark commits nothing; where no time is given,
between two looks as well."""

_PROPERTIES = "'delta.checkpointInterval' = '4', 'delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true'"


@pytest.fixture(params=["disk", pytest.param("bucket", marks=[pytest.mark.minio, pytest.mark.night])])
def place(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> str:
    """A directory, or a prefix of a bucket that Spark reaches over `s3a://`: there a look may trust the `.crc` of a version."""
    if request.param == "disk":
        return str(tmp_path)
    minio: MinioServer = request.getfixturevalue("minio")
    for name, value in minio.credentials(S3A_KEYS).items():
        monkeypatch.setenv(name, value)
    assert connect(spark, Location(minio.uri, Connection(minio.endpoint, credentials=f"env:{S3A_KEYS}")), os.environ)
    return minio.prefix_for(request.node.nodeid)


Step = Callable[[], object]


def _spark_writer(spark: SparkSession, place: str, chosen: random.Random) -> Step:
    table = f"delta.`{place.replace('s3://', 's3a://')}/spark`"
    spark.sql(f"CREATE TABLE {table} (Day STRING, id BIGINT) USING delta PARTITIONED BY (Day) TBLPROPERTIES ({_PROPERTIES})")
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")

    def step() -> None:
        match chosen.randrange(8):
            case 0:
                spark.sql(f"OPTIMIZE {table}")
            case 1:
                spark.sql(f"DELETE FROM {table} WHERE id % 5 = {chosen.randrange(5)}")
            case 2:
                spark.sql(f"VACUUM {table} RETAIN 0 HOURS")
            case _:
                spark.sql(f"INSERT INTO {table} SELECT '{chosen.randrange(3)}', id FROM range(20)")

    return step


def _delta_rs_writer(place: str, chosen: random.Random) -> Step:
    path, options = f"{place}/delta-rs", delta_options(Location(place), os.environ) or None

    def append(mode: str = "append") -> None:
        rows = pa.table({"Day": [str(chosen.randrange(3))], "id": [chosen.randrange(9)]})
        write_deltalake(path, rows, mode=mode, partition_by=["Day"], storage_options=options)  # type: ignore[call-overload]

    append()

    def step() -> None:
        match chosen.randrange(8):
            case 0:
                DeltaTable(path, storage_options=options).optimize.compact()
            case 1:
                DeltaTable(path, storage_options=options).vacuum(
                    retention_hours=0, dry_run=False, enforce_retention_duration=False
                )
            case 2:
                DeltaTable(path, storage_options=options).create_checkpoint()
            case 3:
                append("overwrite")
            case _:
                append()
        time.sleep(_PAUSE)

    return step


@contextmanager
def _busy(*steps: Step) -> Iterator[None]:
    """Each writer works until the block ends."""
    done = threading.Event()
    failed: list[BaseException] = []

    def work(step: Step) -> None:
        try:
            while not done.is_set():
                step()
        except BaseException as error:  # noqa: BLE001  # the test says it
            failed.append(error)

    threads = [threading.Thread(target=work, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failed == []


def _newest(place: str) -> dict[str, int]:
    paths = (f"{place}/{writer}" for writer in ("delta-rs", "spark"))
    return {path: LogObjects(Location(path)).files().newest or 0 for path in paths}


Seen = tuple[str, int | None, int | None, int | None]
"""Path, version, files and bytes of a look."""


def _of_version(path: str, version: int | None) -> Seen:
    state = replay(Location(path), version)
    assert state is not None
    return path, version, state.files.num_rows, pc.sum(state.files.column("size")).as_py() or 0


@pytest.mark.slow
def test_every_look_beside_writers_is_a_state_that_existed(spark: SparkSession, place: str) -> None:
    looks: set[Seen] = set()
    steps = _spark_writer(spark, place, random.Random(1)), _delta_rs_writer(place, random.Random(2))
    until = time.monotonic() + _SECONDS
    with _busy(*steps):
        while time.monotonic() < until or len(looks) < 2 * _LEAST or min(_newest(place).values()) < _LEAST:
            before = _newest(place)
            found = lakewarden.survey(place)
            assert [(each.verdict, each.damage, each.error) for each in found] == [("sound", (), "")] * 2
            assert all((each.version or 0) >= before[each.path] for each in found)
            looks.update((each.path, each.version, each.files, each.bytes) for each in found)
            time.sleep(0 if _SECONDS else _PAUSE)
    assert looks == {_of_version(path, version) for path, version, _, _ in looks}
