"""examples/spark_streaming.py does what it says, and goes on where it was when it is started again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.spark_streaming import TABLE, follow, run
from lakewarden import Lakehouse
from lakewarden.spark import register
from tests.fixtures.kafka import KafkaServer


@pytest.mark.night
def test_the_example_carries_readings_from_a_stream_to_a_topic(
    spark: SparkSession, kafka: KafkaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Lakehouse.open(str(tmp_path / "warehouse"))
    register(spark, lake.warehouse.uri)
    for wanted in (4, 12):
        run(lake, spark, tmp_path / "checkpoint", kafka.servers, wanted)
    table = lake.table(TABLE)
    counts = {f"device-{number}": table.read(user=f"device-{number}").num_rows for number in range(4)}
    assert follow(kafka.servers) == counts
    assert sum(counts.values()) >= 12
    assert re.search(r"^device-3: \d+ readings, at most 2\d\.\d °C$", capsys.readouterr().out, re.MULTILINE)
