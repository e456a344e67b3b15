"""From a stream of readings to one Delta table per device, a dashboard, and a topic that others follow.

    python examples/spark_streaming.py ./warehouse                              # a stream, and a dashboard
    python examples/spark_streaming.py ./warehouse --brokers localhost:9092     # and a Kafka consumer beside it

Stop it and start it again: the query goes on from its checkpoint, the topic from its position, and each reading counts once.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql.streaming.query import StreamingQuery

from lakewarden import Column, Lakehouse

TABLE = "sensors.readings"
DEVICES = 4


def main(warehouse: str, brokers: str | None, wanted: int) -> None:
    with Lakehouse.open(warehouse) as lake:
        run(lake, lake.spark(), Path(warehouse).with_suffix(".checkpoint"), brokers, wanted)


def run(lake: Lakehouse, spark: SparkSession, checkpoint: Path, brokers: str | None, wanted: int) -> None:
    make_table(lake)
    query = start(spark, checkpoint)
    try:
        while show_dashboard(spark) < wanted:
            query.awaitTermination(1)  # the stream goes on meanwhile
    finally:
        query.stop()
    if brokers is not None:
        lake.relay(TABLE, brokers=brokers)
        print("in the topic:", dict(sorted(follow(brokers).items())))


def make_table(lake: Lakehouse) -> None:
    """A USER table: every device has a Delta table of its own."""
    lake.create_namespace("sensors", if_not_exists=True)
    columns = [Column("id", "BIGINT"), Column("at", "TIMESTAMP"), Column("celsius", "DOUBLE")]
    options = {"FLUSH_POLICY": "rows:1000,interval:60"}
    lake.create_table(TABLE, type="USER", columns=columns, primary_key=["id"], options=options, if_not_exists=True)


def start(spark: SparkSession, checkpoint: Path) -> StreamingQuery:
    """Spark's source of test data, written by device: exactly once by the query's `stream_id` and its batches."""
    readings = (
        spark.readStream.format("rate")
        .option("rowsPerSecond", 20)
        .load()
        .select(
            F.col("value").alias("id"),
            F.col("timestamp").alias("at"),
            (F.lit(20.0) + F.col("value") % 7).alias("celsius"),
            F.concat(F.lit("device-"), (F.col("value") % DEVICES).cast("string")).alias("device"),
        )
    )
    return (
        readings.writeStream.format("lakewarden")
        .option("table", TABLE)
        .option("user_column", "device")
        .option("stream_id", "readings")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def show_dashboard(spark: SparkSession) -> int:
    """What each device has up to now, flushed or not; returns how many readings there are."""
    rows = spark.read.format("lakewarden").option("table", TABLE).load()
    found = rows.groupBy("_user").agg(F.count("*").alias("readings"), F.max("celsius").alias("warmest")).collect()
    for row in sorted(found, key=lambda row: str(row["_user"])):
        print(f"{row['_user']}: {row['readings']} readings, at most {row['warmest']} °C")
    return sum(int(row["readings"]) for row in found)


def follow(brokers: str) -> Counter[str]:
    """Another program: a plain consumer that counts the readings of each device in the topic."""
    settings = {
        "bootstrap.servers": brokers,
        "group.id": "dashboard",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }
    found: Counter[str] = Counter()
    with Consumer(settings) as consumer:
        consumer.assign([TopicPartition(TABLE, 0, 0)])
        while (message := consumer.poll(10)) is not None and message.error() is None:
            found[json.loads(message.value() or b"")["after"]["_user"]] += 1
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("warehouse")
    parser.add_argument("--brokers", help="of Kafka, as localhost:9092")
    parser.add_argument("--readings", type=int, default=100, help="stop when so many are there")
    arguments = parser.parse_args()
    main(arguments.warehouse, arguments.brokers, arguments.readings)
