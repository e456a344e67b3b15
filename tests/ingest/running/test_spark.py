"""Objects are read in Spark's Python workers as anywhere else: each worker has a process for templates of its own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pyspark.sql import SparkSession

from lakewarden.ingest.templates.messages import ReadBounds
from lakewarden.ingest.templates.worker import BoundedReads, ObjectRows, ReadJob
from tests.ingest.running.written import rows_in

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def _read(numbers: Iterable[int]) -> Iterable[tuple[int, int | str]]:
    with TemporaryDirectory() as directory, BoundedReads(ReadBounds(cpu_seconds=5.0)) as reads:
        into = Path(directory, "rows")
        for number in numbers:
            data = b"n\n%d\n" % number if number % 7 else b"n\n1,2\n"
            found = reads.read(ReadJob("csv", "a.csv", len(data)), partial(_part, data), into)
            yield number, rows_in(into)["n"][0].as_py() if isinstance(found, ObjectRows) else found.code


def _part(data: bytes, start: int, length: int) -> bytes:
    return data[start : start + length]


def test_tasks_read_objects(spark: SparkSession) -> None:
    found = spark.sparkContext.parallelize(range(1, 41), 4).mapPartitions(_read).collect()
    assert found == [(number, number if number % 7 else "INVALID_ARGUMENT") for number in range(1, 41)]
