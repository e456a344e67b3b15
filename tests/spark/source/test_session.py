"""The source in a real Spark session."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from lakewarden import Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.catalog import buckets
from lakewarden.errors import Conflict
from lakewarden.spark import register
from lakewarden.spark.buckets import bucket_of
from lakewarden.tables.dynamic import StreamingWriter, holder_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_TABLES = """
CREATE NAMESPACE app;
CREATE USER TABLE app.notes (
  id BIGINT PRIMARY KEY, text TEXT, flag BOOLEAN, small SMALLINT, part DOUBLE, price DECIMAL(10,2), raw BYTES, day DATE,
  at TIMESTAMP, at_time TIME, uid UUID, doc JSON
);
"""
_ROW = """
INSERT INTO app.notes VALUES
  (1, 'é', true, 7, 0.5, 12.34, 'abc'::BLOB, '2026-01-02', '2026-01-02T03:04:05Z', '03:04:05',
   '11111111-1111-4111-8111-111111111111', '{"a":1}')
"""


def test_every_type_reads_as_lakewarden_reads_it(warehouse_uri: str, spark: SparkSession) -> None:
    with Lakehouse.open(warehouse_uri, spark=lambda: spark) as lake:
        lake.sql(_TABLES)
        lake.sql(_ROW, user="ann", role="user")
        lake.flush("app.notes")
        lake.table("app.notes").write([{"id": 2, "text": "hot"}], user="bob")
        session = lake.spark()
        frame = session.read.format("lakewarden").option("table", "app.notes").load()
        assert frame.columns[-2:] == ["_user", "_seq"]
        for user in ("ann", "bob"):
            found = frame.where(frame["_user"] == user).drop("_user", "_seq").toArrow().to_pylist()
            assert found == lake.table("app.notes").read(user=user).to_pylist()
        assert frame.where("id >= 2 AND text = 'hot'").select("_user").collect()[0][0] == "bob"
        assert frame.groupBy("_user").count().count() == 2
        assert frame.where("_user = 'ann'").union(frame.where("id = 2")).count() == 2, "a frame is read twice with other filters"
        pushed = session.read.format("lakewarden").option("table", "app.notes").option("push_filters", "true").load()
        assert [row["id"] for row in pushed.where("_user = 'bob'").collect()] == [2]


def test_an_error_names_its_code(warehouse_uri: str, spark: SparkSession) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql("CREATE NAMESPACE app")
        register(spark, warehouse_uri)
        with pytest.raises(PySparkException, match=r"NOT_FOUND: there is no table app\.none"):
            spark.read.format("lakewarden").option("table", "app.none").load()


def test_a_query_names_its_columns(warehouse_uri: str, spark: SparkSession, tmp_path: Path) -> None:
    with Lakehouse.open(warehouse_uri, spark=lambda: spark) as lake:
        lake.sql("CREATE NAMESPACE app; CREATE SHARED TABLE app.items (id INT PRIMARY KEY, text TEXT)")
        lake.table("app.items").write([{"id": 1, "text": "x"}])
        source = lake.spark().read.format("lakewarden").option("TABLE", "app.items")
        assert source.load().count() == 1
        for flushed in (False, True):
            if flushed:
                lake.flush("app.items")
            frame = source.schema("_seq BIGINT, text STRING").load()
            assert [(row["_seq"], row["text"]) for row in frame.collect()] == [(0, "x")]
            assert frame.where("text = 'x'").count() == 1
            assert source.schema("_user STRING").load().count() == 1
        with pytest.raises(PySparkException, match="INVALID_ARGUMENT: no such column: txt, more; the columns are id"):
            source.schema("id INT, txt STRING, more INT").load().collect()
        with pytest.raises(PySparkException, match="INVALID_ARGUMENT: the schema has id as bigint; it is id int"):
            source.schema("id BIGINT").load().collect()
        stream = lake.spark().readStream.format("lakewarden").option("table", "app.items")
        for columns in ("_change_type STRING, id INT", "id INT, txt STRING"):
            place = str(tmp_path / columns[:5])
            written = stream.schema(columns).load().writeStream.format("parquet").option("checkpointLocation", f"{place}-at")
            query = written.trigger(availableNow=True).start(place)
            if "txt" in columns:
                with pytest.raises(PySparkException, match="INVALID_ARGUMENT: no such column: txt"):
                    query.awaitTermination()
            else:
                query.awaitTermination()
                assert [(*row,) for row in lake.spark().read.parquet(place).collect()] == [("insert", 1)]


def test_a_frame_is_written_at_once_or_not_at_all(warehouse_uri: str, spark: SparkSession) -> None:
    with Lakehouse.open(warehouse_uri, spark=lambda: spark) as lake:
        lake.sql("CREATE NAMESPACE app; CREATE USER TABLE app.notes (id INT PRIMARY KEY, text TEXT, at TIMESTAMP)")
        session = lake.spark()
        frame = session.range(0, 40, 1, 4).selectExpr(
            "CAST(id AS INT) AS id",
            "CAST(id AS STRING) AS text",
            "TIMESTAMP'2026-01-02' AS at",
            "concat('u', id % 3) AS who",
        )
        writer = frame.write.format("lakewarden").option("table", "app.notes").option("user_column", "who")
        writer.mode("append").save()
        found = [row for user in range(3) for row in lake.table("app.notes").read(user=f"u{user}").to_pylist()]
        assert sorted(row["id"] for row in found) == list(range(40))
        assert lake.table("app.notes").log.view().last_position == 0
        bad = frame.selectExpr("id + 100 AS id", "text", "at", "IF(id = 33, NULL, who) AS who")
        with pytest.raises(Exception, match="CONSTRAINT_VIOLATION: "):
            bad.write.format("lakewarden").option("table", "app.notes").option("user_column", "who").mode("append").save()
        with pytest.raises(Exception, match="UNSUPPORTED: "):
            writer.mode("overwrite").save()
        assert lake.table("app.notes").log.view().counts.rows.sum() == 40  # what ended early took a position, without rows
        assert sum(lake.table("app.notes").read(user=f"u{user}").num_rows for user in range(3)) == 40


def test_fl_039_a_stream_without_a_checkpoint_is_refused_before_a_row_is_written(
    warehouse_uri: str, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "0.json").write_text('{"id": 1}\n')
    with Lakehouse.open(warehouse_uri, spark=lambda: spark) as lake:
        lake.sql("CREATE NAMESPACE app; CREATE DYNAMIC TABLE app.held (id INT PRIMARY KEY)")
        lines = lake.spark().readStream.schema("id INT").json(str(tmp_path / "source"))
        writer = lines.writeStream.format("lakewarden").option("table", "app.held").option("stream_id", "s")
        with pytest.raises(Exception, match="checkpointLocation"):
            writer.trigger(availableNow=True).start()
        assert lake.table("app.held").log.view().last_position == -1
        name = TableName("app", "held")
        StreamingWriter.take(lake.warehouse.catalog, name, "another").release(lake.warehouse.catalog)


def _wait_until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_query_has_its_place_before_its_first_row_and_while_it_idles_until_it_ends(
    warehouse_uri: str, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    with Lakehouse.open(warehouse_uri, spark=lambda: spark) as lake:
        lake.sql("CREATE NAMESPACE app; CREATE DYNAMIC TABLE app.idle (id INT PRIMARY KEY)")
        lines = lake.spark().readStream.schema("id INT").json(str(tmp_path / "source"))
        writer = lines.writeStream.format("lakewarden").option("table", "app.idle").option("stream_id", "idle")
        query = writer.option("checkpointLocation", str(tmp_path / "c")).start()

        def holder() -> str | None:
            return holder_of(lake.warehouse.catalog, TableName("app", "idle"))

        try:
            _wait_until(lambda: holder() == "idle")
            with pytest.raises(Conflict, match="already, idle"):
                StreamingWriter.take(lake.warehouse.catalog, TableName("app", "idle"), "another")
        finally:
            query.stop()
        _wait_until(lambda: holder() is None)


def test_a_bucket_in_spark_is_that_of_python(warehouse_uri: str, spark: SparkSession) -> None:
    columns = "id BIGINT, k TEXT, raw BYTES, day DATE, at TIMESTAMP, price DECIMAL(10,2), flag BOOLEAN"
    names = ["id", "k", "raw", "day", "at", "price", "flag"]
    with Lakehouse.open(warehouse_uri, spark=lambda: spark) as lake:
        lake.sql(f"CREATE NAMESPACE app; CREATE DYNAMIC TABLE app.parted ({columns}, PRIMARY KEY ({', '.join(names)}))")
        lake.sql(
            "INSERT INTO app.parted SELECT i, 'é' || i, ('b' || i)::BLOB, DATE '2026-11-22' + i::INT,"
            " TIMESTAMP '2026-11-22 01:02:03.000004' + i * INTERVAL 1 HOUR, i / 4, i % 2 = 0 FROM range(40) AS t(i)"
        )
        frame = lake.spark().read.format("lakewarden").option("table", "app.parted").load()
        placed = frame.select("*", bucket_of(names, 7).alias("one"), bucket_of([frame["id"]], 4).alias("other")).toArrow()
        golden = spark.createDataFrame([(each,) for each in (0, 1, 2, 3, -1, 2**40)], "id BIGINT").select(bucket_of(["id"], 4))
        assert [row[0] for row in golden.collect()] == [1, 2, 0, 2, 2, 2]
    assert placed.column("one").to_pylist() == buckets.bucket_of(placed, names, 7).to_pylist()
    assert placed.column("other").to_pylist() == buckets.bucket_of(placed, ["id"], 4).to_pylist()
    assert len(set(placed.column("one").to_pylist())) == 7


def test_a_query_that_starts_again_writes_each_row_once(warehouse_uri: str, spark: SparkSession, tmp_path: Path) -> None:
    """Its checkpoint says that the last batch was not committed: the process died behind the publication."""
    checkpoint, source = tmp_path / "checkpoint", tmp_path / "source"
    source.mkdir()
    with Lakehouse.open(warehouse_uri, spark=lambda: spark) as lake:
        lake.sql("CREATE NAMESPACE app; CREATE STREAM TABLE app.events (id INT PRIMARY KEY) WITH (TTL_SECONDS = 3600)")
        session = lake.spark()

        def run(**options: str) -> None:
            lines = session.readStream.schema("id INT").option("maxFilesPerTrigger", 1).json(str(source))
            writer = lines.writeStream.format("lakewarden").option("table", "app.events").option("user", "ann").options(**options)
            writer.trigger(availableNow=True).start().awaitTermination()

        def ids() -> list[int]:
            return sorted(row["id"] for row in lake.table("app.events").read(user="ann").to_pylist())

        for number in range(3):
            (source / f"{number}.json").write_text(f'{{"id": {2 * number}}}\n{{"id": {2 * number + 1}}}\n')
        with pytest.raises(Exception, match="INVALID_ARGUMENT: name the stream"):
            run(checkpointLocation=str(tmp_path / "other"))
        run(stream_id="s", checkpointLocation=str(checkpoint))
        assert ids() == list(range(6))
        for last in (checkpoint / "commits").glob("*2*"):
            last.unlink()
        (source / "3.json").write_text('{"id": 6}\n')
        run(stream_id="s", checkpointLocation=str(checkpoint))
        assert ids() == list(range(7))
