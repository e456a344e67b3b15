"""Columns that are called as reserved words of SQL, where Spark writes and reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import FlushSettings
from lakewarden.base.settings import Settings
from lakewarden.spark import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.night
def test_spark_flushes_and_reads_them(tmp_path: Path, spark: SparkSession) -> None:
    settings = Settings(flush=FlushSettings(in_process_below=0, large_scope_bytes=1))
    uri = str(tmp_path / "w")
    with Lakehouse.open(uri, settings=settings, spark=lambda: spark) as lake:
        lake.sql(
            'CREATE NAMESPACE n; CREATE SHARED TABLE n.t ("order" INT, "select" TEXT, "group" TEXT, PRIMARY KEY ("order"))'
            ' PARTITION BY ("group")'
        )
        lake.sql("INSERT INTO n.t VALUES (1, 'a', 'g'), (2, 'b', 'h'), (3, 'c', 'g')")
        lake.flush("n.t")
        lake.sql('UPDATE n.t SET "select" = \'x\' WHERE "order" = 1; DELETE FROM n.t WHERE "order" = 2')
        lake.flush("n.t")
        lake.optimize("n.t", zorder=["order"])
        expected = [(1, "x", "g"), (3, "c", "g")]
        place = next((tmp_path / "w/data/n/t").glob("**/_delta_log")).parent
        delta = spark.read.format("delta").load(str(place)).select("order", "select", "group").where("`order` > 0")
        assert sorted(tuple(row) for row in delta.collect()) == expected
        register(spark, uri)
        lake.sql("INSERT INTO n.t VALUES (4, 'd', 'h')")
        own = (
            spark.read.format("lakewarden").option("table", "n.t").load().where("`order` >= 1").select("order", "select", "group")
        )
        assert sorted(tuple(row) for row in own.collect()) == [*expected, (4, "d", "h")]
