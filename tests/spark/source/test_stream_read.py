"""What `spark.readStream.format("lakewarden")` returns, as Spark calls it, in this process; and in a real session."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from lakewarden import Column, Lakehouse
from lakewarden.base.setting_sections import SparkSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.evolution import AddColumn, DropColumn
from lakewarden.errors import InvalidArgument
from lakewarden.spark.options import StreamOptions
from lakewarden.spark.stream_read import ChangeStream, Offset
from tests.fixtures.lakes import lake_fixture
from tests.spark.source.reading import connection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TABLES = """
CREATE NAMESPACE app;
CREATE USER TABLE app.notes (id INT PRIMARY KEY, text TEXT);
CREATE SHARED TABLE app.items (id INT PRIMARY KEY, text TEXT);
CREATE SHARED TABLE app.hits (id INT);
"""


lake = lake_fixture(sql=_TABLES)


@dataclass
class Query:
    """What Spark does: offsets are written down before a batch, and a restart begins with the last one that was."""

    lake: Lakehouse
    options: dict[str, str]
    offsets: list[Offset] = field(default_factory=list)
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        self.restart()
        self.offsets = [self.stream.initialOffset()]

    def restart(self) -> None:
        self.stream = ChangeStream(connection(self.lake, self.settings), StreamOptions.of(self.options))

    def batch(self) -> list[tuple[object, ...]]:
        self.offsets.append(self.stream.latestOffset())
        return self.again()

    def again(self) -> list[tuple[object, ...]]:
        """The last batch, planned and read."""
        parts = self.stream.partitions(*self.offsets[-2:])
        rows = [row for part in parts for batch in self.stream.read(part) for row in batch.to_pylist()]
        rows.sort(key=lambda row: row["_seq"])
        return [(row["_change_type"], row["_user"], row["id"], row.get("text")) for row in rows]


def test_full_then_changes_each_once_through_restarts(lake: Lakehouse) -> None:
    notes = lake.table("app.notes")
    notes.write([{"id": 1, "text": "a"}], user="ann")
    lake.flush("app.notes")
    notes.write([{"id": 2, "text": "b"}], user="bob")
    query = Query(lake, {"table": "app.notes"})
    notes.write([{"id": 1, "text": "c"}], user="ann")
    assert query.batch() == [("insert", "bob", 2, "b"), ("insert", "ann", 1, "c")]
    lake.flush("app.notes")
    assert query.again() == [("insert", "bob", 2, "b"), ("insert", "ann", 1, "c")], "a batch that died is read again"
    assert query.batch() == []
    notes.delete([{"id": 1}], user="ann")
    notes.write([{"id": 2, "text": "d"}], user="bob")
    lake.flush("app.notes")
    query.restart()
    wanted = [("delete", "ann", 1, "c"), ("update_preimage", "bob", 2, "b"), ("update_postimage", "bob", 2, "d")]
    assert query.batch() == wanted
    query.restart()
    assert query.again() == wanted
    assert query.batch() == []


def test_max_rows_bounds_a_batch(lake: Lakehouse) -> None:
    items = lake.table("app.items")
    query = Query(lake, {"table": "app.items", "starting_from": "latest", "max_rows": "2"})
    for key in range(5):
        items.write([{"id": key, "text": "x"}])
    assert [len(query.batch()) for _ in range(4)] == [2, 2, 1, 0]


def test_users_and_tasks(lake: Lakehouse) -> None:
    users = [f"u{number}" for number in range(6)]
    notes = lake.table("app.notes")
    for user in users:
        notes.write([{"id": 1, "text": "x" * 1000}], user=user)
    query = Query(
        lake, {"table": "app.notes", "starting_from": "seq:-1"}, settings=Settings(spark=SparkSettings(task_bytes=37_500))
    )
    assert sorted(str(row[1]) for row in query.batch()) == users
    assert len(query.stream.partitions(*query.offsets)) == 3
    two = Query(lake, {"table": "app.notes", "users": "u1,u3"})
    assert sorted(str(row[1]) for row in two.batch()) == ["u1", "u3"]
    with pytest.raises(PySparkException, match="INVALID_ARGUMENT"):
        Query(lake, {"table": "app.items", "user": "ann"})


def test_tasks_read_a_shared_table_one_after_the_other(lake: Lakehouse) -> None:
    items = lake.table("app.items")
    items.write([{"id": 1, "text": "old"}])
    query = Query(
        lake, {"table": "app.items", "starting_from": "latest"}, settings=Settings(spark=SparkSettings(task_bytes=1_000))
    )
    for number in range(6):
        items.write([{"id": key, "text": f"{number} " + "x" * 5_000} for key in (1, number + 2)])
    rows = query.batch()
    parts = query.stream.partitions(*query.offsets)
    assert len(parts) == 6
    assert [row[:3] for row in rows] == [
        each
        for number in range(6)
        for each in (("update_preimage", None, 1), ("update_postimage", None, 1), ("insert", None, number + 2))
    ]
    batches = [batch.select(["_seq"]) for part in parts for batch in query.stream.read(part)]
    seqs = pa.Table.from_batches(batches).column("_seq").to_numpy()
    assert (seqs[1:] >= seqs[:-1]).all()


def test_a_table_without_a_key(lake: Lakehouse) -> None:
    hits = lake.table("app.hits")
    hits.direct.append([pa.table({"id": pa.array([1], pa.int32())})])
    query = Query(lake, {"table": "app.hits", "max_rows": "1"})
    assert query.batch() == [("insert", None, 1, None)]
    hits.direct.append([pa.table({"id": pa.array([2], pa.int32())})])
    lake.compact("app.hits")
    assert query.batch() == [("insert", None, 2, None)]
    lake.sql("UPDATE app.hits SET id = 3 WHERE id = 2")
    with pytest.raises(PySparkException, match=r"CONFLICT: .* changed directly"):
        query.batch()


def test_later_columns_wait_for_the_next_start_and_a_lost_one_ends_it(lake: Lakehouse) -> None:
    query = Query(lake, {"table": "app.items"})
    assert query.batch() == []
    lake.alter_table("app.items", AddColumn(Column("mark", "INT")))
    lake.table("app.items").write([{"id": 1, "text": "a", "mark": 7}])
    assert query.batch() == [("insert", None, 1, "a")]
    lake.alter_table("app.items", DropColumn("text"))
    lake.table("app.items").write([{"id": 2}])
    with pytest.raises(PySparkException, match="column text was dropped"):
        query.batch()


def test_a_table_that_was_made_again_is_refused(lake: Lakehouse) -> None:
    query = Query(lake, {"table": "app.items"})
    query.batch()
    lake.drop_table("app.items")
    lake.sql("CREATE SHARED TABLE app.items (id INT PRIMARY KEY, text TEXT)")
    query.restart()
    with pytest.raises(PySparkException, match="NOT_FOUND"):
        query.batch()


@pytest.mark.parametrize(
    "options", [{"starting_from": "earliest"}, {"max_rows": "0"}, {"max_rows": "x"}, {"freshness": "strong"}, {"usr": "a"}]
)
def test_options_that_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        StreamOptions.of({"table": "app.notes", **options})


@pytest.mark.spark
@pytest.mark.slow
def test_a_query_goes_on_from_its_checkpoint(warehouse_uri: str, spark: SparkSession, tmp_path: Path) -> None:
    with Lakehouse.open(warehouse_uri, spark=lambda: spark) as lake:
        lake.sql(_TABLES)
        notes = lake.table("app.notes")
        notes.write([{"id": 1, "text": "a"}, {"id": 2, "text": "b"}], user="ann")
        lake.flush("app.notes")
        session = lake.spark()

        def run() -> None:
            stream = session.readStream.format("lakewarden").option("table", "app.notes").load()
            assert stream.columns == ["id", "text", "_user", "_seq", "_change_type"]
            written = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
            written.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()

        run()
        notes.write([{"id": 1, "text": "c"}], user="bob")
        notes.write([{"id": 1, "text": "d"}], user="ann")
        lake.flush("app.notes")
        run()
        run()
        found = session.read.parquet(str(tmp_path / "out")).orderBy("_seq", "_change_type", "id").collect()
        assert [(row["_change_type"], row["_user"], row["id"], row["text"]) for row in found] == [
            ("insert", "ann", 1, "a"),
            ("insert", "ann", 2, "b"),
            ("insert", "bob", 1, "c"),
            ("update_postimage", "ann", 1, "d"),
            ("update_preimage", "ann", 1, "a"),
        ]
        batch = session.read.format("lakewarden").option("table", "app.notes").load()
        assert batch.columns == ["id", "text", "_user", "_seq"], "a read has no changes"


@pytest.mark.spark
@pytest.mark.slow
def test_a_query_of_a_table_that_keeps_images_goes_on_after_a_vacuum(
    warehouse_uri: str, spark: SparkSession, tmp_path: Path
) -> None:
    with Lakehouse.open(warehouse_uri, spark=lambda: spark) as lake:
        lake.sql(
            "CREATE NAMESPACE app; CREATE DYNAMIC TABLE app.states (id INT PRIMARY KEY, text TEXT)"
            " WITH ('log.changelog-mode' = 'all', 'bucket' = '2')"
        )
        states, session = lake.table("app.states"), lake.spark()

        def run() -> list[tuple[object, ...]]:
            stream = session.readStream.format("lakewarden").option("table", "app.states").load()
            written = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
            written.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
            found = session.read.parquet(str(tmp_path / "out")).collect()
            rank = {"update_preimage": 0}
            found.sort(key=lambda row: (row["_seq"], rank.get(row["_change_type"], 1)))
            return [(row["_change_type"], row["id"], row["text"]) for row in found]

        states.write([{"id": 1, "text": "a"}, {"id": 2, "text": "a"}])
        lake.flush("app.states")
        first = run()
        assert sorted(first) == [("insert", 1, "a"), ("insert", 2, "a")]
        frame = session.createDataFrame([(1, "b"), (3, "b")], "id INT, text STRING")
        frame.write.format("lakewarden").option("table", "app.states").mode("append").save()
        lake.flush("app.states")
        states.write([{"id": 1, "text": "c"}])
        states.delete([{"id": 2}])
        lake.flush("app.states")
        lake.compact("app.states")
        lake.vacuum("app.states", retain_hours=0, force=True, look=True, dry_run=False)
        wanted = [
            ("update_preimage", 1, "b"),
            ("update_postimage", 1, "c"),
            ("delete", 2, "a"),
        ]
        second = run()[2:]
        assert sorted(second[:3]) == [("insert", 3, "b"), ("update_postimage", 1, "b"), ("update_preimage", 1, "a")]
        assert second[3:] == wanted
        lake.alter_table("app.states", AddColumn(Column("mark", "INT")))
        lake.table("app.states").write([{"id": 3, "text": "d", "mark": 7}])
        assert run()[2 + len(second) :] == [("update_preimage", 3, "b"), ("update_postimage", 3, "d")]
