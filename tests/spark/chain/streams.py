"""A process of Spark that streams into a table or out of one. It says so after each batch, and each look that found nothing.

python -m tests.spark.chain.streams in <warehouse> <checkpoint>
python -m tests.spark.chain.streams out <warehouse> <checkpoint>
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql.streaming.query import StreamingQuery

from lakewarden import Column
from lakewarden.spark import register

SOURCE, TAKEN, COPY = "n.source", "n.taken", "n.copy"
SOURCE_COLUMNS = (Column("id", "BIGINT", nullable=False), Column("value", "BIGINT"))
CHANGE_COLUMNS = (Column("seq", "BIGINT", nullable=False), Column("change", "TEXT"), *SOURCE_COLUMNS)
"""What `out` makes of a change: `seq` is its `_seq` in the first table."""
STREAM = "in"

ROWS = 7
"""Of a batch of `in`: the next numbers from 0, whichever process makes the batch."""
KEYS = 31
_BATCH_ROWS = 24
_SETTINGS: dict[str, bool | float | int | str | None] = {
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.noDataProgressEventInterval": "500",
    "spark.log.level": "ERROR",
}


def key_of(value: int) -> int:
    """Each once in a batch."""
    return value * 7 % KEYS


def main(role: str, warehouse: str, checkpoint: str) -> None:
    spark = SparkSession.builder.master("local[2]").config(map=_SETTINGS).getOrCreate()
    register(spark, warehouse)
    frame, table, stream = (_numbers(spark), SOURCE, STREAM) if role == "in" else (_changes(spark), TAKEN, "out")
    writer = frame.writeStream.format("lakewarden").option("table", table).option("stream_id", stream)
    _report(writer.option("checkpointLocation", checkpoint).trigger(processingTime="500 milliseconds").start())


def _numbers(spark: SparkSession) -> DataFrame:
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 2).load()
    return numbers.select((F.col("value") * 7 % KEYS).alias("id"), "value")


def _changes(spark: SparkSession) -> DataFrame:
    changes = spark.readStream.format("lakewarden").option("table", SOURCE).option("max_rows", _BATCH_ROWS).load()
    after = changes.where(F.col("_change_type") != "update_preimage")
    return after.select(F.col("_seq").alias("seq"), F.col("_change_type").alias("change"), "id", "value")


def _report(query: StreamingQuery) -> None:
    said = None
    while not query.awaitTermination(1):
        progress = query.lastProgress
        if progress is not None and progress["timestamp"] != said:
            said = progress["timestamp"]
            print(said, flush=True)  # noqa: T201  # to the process that started this one


if __name__ == "__main__":
    main(*sys.argv[1:])
