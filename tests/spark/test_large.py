"""A scope that is too large for one task goes through Spark DataFrames, and nobody sees a difference."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lakewarden import Column, Lakehouse
from lakewarden.base.clock import random_id
from lakewarden.base.connection import Connection, Location
from lakewarden.base.scope import Scope, TableName
from lakewarden.base.setting_sections import FlushSettings, SparkSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.evolution import AddColumn
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import batch_folder, seq_range
from lakewarden.delta.parquet.reading import spark_file
from lakewarden.delta.parquet.schema import file_schema
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, Corrupt, StorageUnavailable
from lakewarden.maintenance.verify import formats
from lakewarden.spark import s3a, s3a_files
from lakewarden.storage.open import open_store
from lakewarden.tables.client import TableClient
from tests.delta.scopes import stats_of
from tests.fixtures.lakes import check_manifest, cold_seqs, eventual, hot_seqs, keys, make_notes, notes, scope_path, strong
from tests.fixtures.minio import S3A_KEYS, MinioServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERYTHING_IS_LARGE = Settings(flush=FlushSettings(large_scope_bytes=1))


@pytest.fixture
def lake(warehouse_uri: str, spark: SparkSession) -> Iterator[Lakehouse]:
    with Lakehouse.open(warehouse_uri, settings=_EVERYTHING_IS_LARGE, spark=lambda: spark) as opened:
        yield opened


def _flush(lake: Lakehouse) -> dict[str, int]:
    (report,) = lake.flush()
    assert report.outcome == "done", report.reason
    return report.metrics


@pytest.mark.parametrize("steps", [2, pytest.param(3, marks=pytest.mark.night)])
def test_inserts_updates_and_deletes_equal_a_dictionary(lake: Lakehouse, steps: int) -> None:
    table = make_notes(lake, options={"TARGET_FILE_SIZE": "16KB"})
    choose = random.Random(3)
    model: dict[int, str] = {}
    seqs: dict[int, int] = {}
    for step in range(steps):
        upserts = {choose.randrange(3_000): f"{step} {choose.random()}" for _ in range(1_500)}
        deletes = choose.sample(range(3_000), 200)
        table.write(notes(upserts), user="ann")
        table.delete(keys(deletes), user="ann")
        seqs |= hot_seqs(table, "ann")
        new = {key: text for key, text in upserts.items() if key not in deletes}
        expected = {
            "rows_inserted": len(new.keys() - model.keys()),
            "rows_updated": len(new.keys() & model.keys()),
            "rows_deleted": len(set(deletes) & model.keys()),
        }
        model = {key: text for key, text in (model | upserts).items() if key not in deletes}
        assert strong(table, "ann") == model

        metrics = _flush(lake)
        assert {name: metrics[name] for name in expected} == expected
        assert eventual(table, "ann") == strong(table, "ann") == model
        assert cold_seqs(lake, "ann") == {key: seqs[key] for key in model}
        check_manifest(lake, "ann")
    files = DeltaTable(str(scope_path(lake, "ann"))).file_uris()
    assert len(files) > 1
    assert all("batch-" in file for file in files)
    assert lake.pending() == []
    assert all(finding.passed for finding in lake.check())
    assert [entry.operation for entry in table.history(user="ann")] == ["MERGE"] * (steps - 1) + ["WRITE"]


@pytest.mark.night
def test_composite_keys(lake: Lakehouse) -> None:
    columns = [Column("day", "DATE"), Column("place", "TEXT"), Column("number", "DECIMAL(9,2)"), Column("seen", "TIMESTAMP")]
    lake.create_namespace("chat")
    table = lake.create_table("chat.days", columns=columns, primary_key=["place", "day"], options={"TARGET_FILE_SIZE": "8KB"})
    model: dict[tuple[Any, Any], Any] = {}
    choose = random.Random(5)
    for step in range(2):
        keys_ = {(f"2024-01-{choose.randrange(1, 29):02d}", f"place {choose.randrange(40)}") for _ in range(400)}
        rows = [
            {"day": day, "place": place, "number": f"{step}.25", "seen": "2024-05-01T10:00:00Z"} for day, place in sorted(keys_)
        ]
        table.write(_typed(rows))
        gone = _typed(rows[:20])
        table.delete([{"day": row["day"], "place": row["place"]} for row in gone])
        model |= {(row["day"], row["place"]): row for row in _typed(rows)}
        model = {key: row for key, row in model.items() if key not in {(row["day"], row["place"]) for row in gone}}
        _flush(lake)
        assert _by_key(table, "eventual") == _by_key(table, "strong") == model


def test_a_scope_grows_large_and_small_again(warehouse_uri: str, spark: SparkSession) -> None:
    """The two ways take turns on one table."""
    model: dict[int, str] = {}
    for number in range(4):
        settings = Settings() if number % 2 else _EVERYTHING_IS_LARGE
        with Lakehouse.open(warehouse_uri, settings=settings, spark=lambda: spark) as lake:
            table = make_notes(lake)
            upserts = dict.fromkeys(range(number, 40, 3), f"flush {number}")
            table.write(notes(upserts), user="ann")
            _flush(lake)
            model |= upserts
            assert eventual(table, "ann") == model
            check_manifest(lake, "ann")


def test_deletes_of_what_is_not_there_and_of_everything(lake: Lakehouse) -> None:
    table = make_notes(lake)
    table.delete(keys([1, 2]), user="ann")
    assert _flush(lake)["rows_deleted"] == 0
    table.write(notes({1: "a", 2: "b"}), user="ann")
    _flush(lake)
    table.delete(keys([1, 2, 3]), user="ann")
    assert _flush(lake)["rows_deleted"] == 2
    assert eventual(table, "ann") == strong(table, "ann") == {}


@pytest.fixture
def s3a_lake(minio: MinioServer, monkeypatch: pytest.MonkeyPatch, spark: SparkSession, tmp_path: Path) -> Iterator[Lakehouse]:
    """A warehouse on disk with a storage on S3, whose large scopes Spark itself reads and writes: our own functions may not."""
    for name, value in minio.credentials(S3A_KEYS).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("lakewarden.spark.large._cold_reader", _no_reader)
    monkeypatch.setattr("lakewarden.spark.large._written_by_tasks", _no_writer)
    settings = Settings(flush=FlushSettings(large_scope_bytes=1), spark=SparkSettings(s3a=True))
    with Lakehouse.open(str(tmp_path / "warehouse"), settings=settings, spark=lambda: spark) as lake:
        connection = Connection(endpoint=minio.endpoint, credentials=f"env:{S3A_KEYS}")
        lake.create_storage("s3a", type="s3", base=minio.prefix_for(str(tmp_path)), connection=connection)
        lake.create_namespace("chat")
        yield lake


@pytest.mark.disk
def test_spark_reads_and_writes_over_s3a_what_is_then_committed_as_ever(s3a_lake: Lakehouse, spark: SparkSession) -> None:
    names = ("bigint", "smallint", "text", "timestamp", "bytes", "double", "date", "boolean", "float", "uuid")
    columns = [
        *(Column(name, name.upper()) for name in names),
        Column("number", "DECIMAL(9,2)"),
        Column("large", "DECIMAL(38,10)"),
    ]
    table = s3a_lake.create_table("chat.s3a", columns=columns, primary_key=["bigint"], options={"STORAGE_ID": "s3a"})
    model: dict[int, dict[str, Any]] = {}
    for step in range(2):
        first = 100 * step
        rows = [_of_every_type(key, step) for key in range(first, first + 300)]
        table.write(rows)
        table.delete([{"bigint": key} for key in range(first, first + 5)])
        model |= {row["bigint"]: row for row in rows}
        model = {key: row for key, row in model.items() if not first <= key < first + 5}
        _flush(s3a_lake)
        assert {row["bigint"]: row for row in table.read(freshness="eventual").to_pylist()} == model

    place = _target(s3a_lake, "s3a", None)
    opened = ScopeTable.open(place.location)
    assert opened is not None
    (live,) = opened.files()
    data = open_store(place.location).get(live.path)
    assert (live.size, live.rows) == (len(data), len(model))
    written = pq.read_table(pa.BufferReader(data))
    assert written.schema.remove_metadata().equals(file_schema(place.schema), check_metadata=True), "names, types and field ids"
    assert (live.min_seq, live.max_seq) == seq_range(written)
    told, known = (json.loads(text) for text in (spark_file(place, live.path, live.size).stats, stats_of(written)))
    for ends in ("minValues", "maxValues"):
        assert told[ends] == {name: value for name, value in known[ends].items() if name not in ("double", "float")}
    assert told["nullCount"] == known["nullCount"]
    assert s3a.reaches(spark, place.location, ["gone.parquet"], os.environ)
    with pytest.raises(Corrupt, match=r"over s3a: .*gone\.parquet"):
        s3a.read(spark, place.location, ["gone.parquet"], pa.schema([("id", pa.int64())]))


@pytest.mark.disk
def test_a_file_that_lacks_a_column_is_read_by_name_over_s3a(s3a_lake: Lakehouse) -> None:
    columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
    table = s3a_lake.create_table("chat.s3a", columns=columns, primary_key=["id"], options={"STORAGE_ID": "s3a"})
    for first in (0, 100):
        table.write([{"id": id_, "text": "old"} for id_ in range(first, first + 3)])
        _flush(s3a_lake)
    s3a_lake.alter_table("chat.s3a", AddColumn(Column("n", "INT")))
    s3a_lake.table("chat.s3a").write([{"id": 100, "text": "new", "n": 5}])
    assert _flush(s3a_lake)["files_removed"] == 1
    old = {id_: {"id": id_, "text": "old", "n": None} for id_ in (0, 1, 2, 101, 102)}
    found = s3a_lake.table("chat.s3a").read(freshness="eventual").to_pylist()
    assert {row["id"]: row for row in found} == old | {100: {"id": 100, "text": "new", "n": 5}}


@pytest.mark.disk
def test_what_a_dead_writer_left_over_s3a_is_found_and_erased(s3a_lake: Lakehouse, spark: SparkSession) -> None:
    table = make_notes(s3a_lake, options={"STORAGE_ID": "s3a"})
    for user in ("ann", "bob"):
        table.write(notes({1: f"of {user}"}), user=user)
    s3a_lake.flush()
    target, folder = _target(s3a_lake, "notes", "ann"), batch_folder(1, random_id)
    rows = spark.range(0, 2, 1, 2).mapInArrow(_one_row_or_failure, "id long, text string, _seq long")
    with pytest.raises(StorageUnavailable, match=r"cannot write files of s3://.*over s3a"):
        s3a_files.write(rows, target, folder)

    place = open_store(target.location)
    left = place.list(folder)
    assert [(formats.footer(place.get(found.key)) or {})["lakewarden.user"] for found in left] == ["ann"]
    assert not [found for found in place.list("") if "_temporary" in found.key or found.key.startswith("__")]
    (orphans,) = [found.message for found in s3a_lake.check() if found.check == "orphans" and found.message]
    assert orphans.startswith("1 files of ")

    around = open_store(replace(target.location, uri=target.location.uri.removesuffix("/ann")))
    around.put("kept/copy.parquet", place.get(left[0].key))
    with pytest.raises(Conflict, match=r"its footer names the user .*copy\.parquet"):
        s3a_lake.erase("ann", deep=True)
    around.delete(["kept/copy.parquet"])
    assert s3a_lake.erase("ann", deep=True).result == "complete"
    assert not [found for found in place.list("") if not found.key.startswith("_delta_log/")]

    table.delete(keys([1]), user="bob")
    s3a_lake.flush()
    assert strong(table, "bob") == eventual(table, "bob") == {}
    assert [name for name in around.list("bob") if "/batch-1-" in name.key] == [], "a file without rows"


def _one_row_or_failure(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first task writes a file, the second one dies."""
    for batch in batches:
        for row in batch.to_pylist():
            if row["id"]:
                raise OSError("no more")
            yield pa.RecordBatch.from_pylist([{"id": 7, "text": "late", "_seq": 9}])


def _target(lake: Lakehouse, name: str, user: str | None) -> ScopeTarget:
    return lake.warehouse.target(lake.warehouse.catalog.read(), Scope(TableName("chat", name), user))


def _no_writer(*_given: object) -> None:
    pytest.fail("our own writer was used")


def _no_reader(_target: object, paths: list[str], _ids: object) -> None:
    assert not paths, "our own reader was used"


def _of_every_type(key: int, step: int) -> dict[str, Any]:
    return {
        "bigint": key,
        "smallint": key % 100,
        "text": f"{step} ünï {key}",
        "timestamp": datetime(2024, 5, 1, 10, 0, 0, key, tzinfo=UTC),
        "bytes": bytes([key % 256]),
        "double": key / 7 if key % 5 else None,
        "date": date(1 + key, 1, 1 + key % 28),
        "boolean": bool(key % 2),
        "float": key / 4,
        "uuid": f"{key:08x}-0000-4000-8000-000000000000",
        "large": Decimal(key) / 8 if key % 3 else None,
        "number": Decimal(key) / 4,
    }


def test_a_bucket_that_is_reached_in_two_ways_is_read_by_our_own_client(spark: SparkSession) -> None:
    one, other = (Location("s3://twice", Connection(endpoint="http://127.0.0.1:9", region=name)) for name in ("a", "b"))
    assert [s3a.reaches(spark, place, ["a.parquet"], {}) for place in (one, other, one)] == [True, False, True]
    assert not s3a.reaches(spark, one, ["a[1].parquet"], {}), "Hadoop takes it for a pattern"
    assert not s3a.reaches(spark, Location("/srv/lake"), ["a.parquet"], {})


def _typed(rows: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [
        {
            "day": date.fromisoformat(row["day"]),
            "place": row["place"],
            "number": Decimal(row["number"]),
            "seen": datetime.fromisoformat(row["seen"]),
        }
        for row in rows
    ]


def _by_key(table: TableClient, freshness: Any) -> dict[tuple[Any, Any], Any]:
    rows = table.read(freshness=freshness).to_pylist()
    found = {(row["day"], row["place"]): row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("steps", [2, pytest.param(3, marks=pytest.mark.night)])
@pytest.mark.parametrize("key", [pytest.param(["id"], marks=pytest.mark.night), ["id", "kind"]], ids=" and ".join)
def test_a_partitioned_table_is_flushed_partition_by_partition(
    lake: Lakehouse, warehouse_uri: str, spark: SparkSession, key: list[str], steps: int
) -> None:
    lake.create_namespace("app")
    columns = [Column("id", "BIGINT"), Column("kind", "TEXT"), Column("n", "INT")]
    table = lake.create_table("app.events", columns=columns, primary_key=key, partition_by=["kind"])
    choose = random.Random(7)
    model: dict[tuple[Any, ...], Any] = {}
    for step in range(steps):
        kinds = ["a b", "c/%", "zażółć"] if len(key) == 2 else ["a b", "c/%", "zażółć", None]
        rows = [{"id": id_, "kind": choose.choice(kinds), "n": step} for id_ in choose.sample(range(200), 80)]
        table.write(rows)
        model |= {tuple(row[name] for name in key): row for row in rows}
        gone = choose.sample(list(model), 10)
        table.delete([dict(zip(key, values, strict=True)) for values in gone])
        model = {values: row for values, row in model.items() if values not in gone}
        _flush(lake)
        ours = table.read(freshness="eventual").to_pylist()
        assert {tuple(row[name] for name in key): row for row in ours} == model
        assert len(ours) == len(model)
    uri = f"{warehouse_uri}/data/app/events"
    theirs = [row.asDict() for row in spark.read.format("delta").load(uri).select("id", "kind", "n").collect()]
    assert sorted(theirs, key=repr) == sorted(model.values(), key=repr)
    held = pa.table(DeltaTable(uri).get_add_actions()).to_pylist()
    assert {add["partition"]["kind"] for add in held} == {row["kind"] for row in model.values()}
    one = spark.read.format("delta").load(uri).where("kind = 'c/%'")
    assert one.count() == sum(row["kind"] == "c/%" for row in model.values())
    (ordered,) = lake.optimize("app.events", zorder=["n"])
    assert (ordered.outcome, ordered.metrics["rows_rewritten"]) == ("done", len(model))
    assert {tuple(row[name] for name in key): row for row in table.read(freshness="eventual").to_pylist()} == model


@pytest.mark.night
def test_a_column_that_is_added_leaves_the_partitions_that_a_flush_does_not_touch(
    lake: Lakehouse, warehouse_uri: str, spark: SparkSession
) -> None:
    """Spark's Delta reads files of both schemas, and an optimize in tasks puts them together."""
    lake.create_namespace("app")
    columns = [Column("id", "BIGINT"), Column("kind", "TEXT")]
    table = lake.create_table("app.events", columns=columns, primary_key=["id", "kind"], partition_by=["kind"])
    for first in (0, 10):
        table.write([{"id": id_, "kind": kind} for id_ in range(first, first + 4) for kind in "ab"])
        _flush(lake)
    uri = f"{warehouse_uri}/data/app/events"
    before = set(DeltaTable(uri).file_uris())
    lake.alter_table("app.events", AddColumn(Column("n", "INT")))
    table = lake.table("app.events")
    table.write([{"id": 1, "kind": "b", "n": 5}])
    _flush(lake)
    assert len(before & set(DeltaTable(uri).file_uris())) == len(before) - 1

    def agree() -> None:
        ours = sorted(table.read(freshness="eventual").to_pylist(), key=repr)
        assert {(row["id"], row["kind"]): row["n"] for row in ours if row["n"] is not None} == {(1, "b"): 5}
        theirs = spark.read.format("delta").load(uri)
        assert sorted((row.asDict() for row in theirs.select("id", "kind", "n").collect()), key=repr) == ours
        assert (theirs.where("n IS NULL").count(), theirs.where("n = 5").count(), len(ours)) == (15, 1, 16)

    agree()
    (ordered,) = lake.optimize("app.events", zorder=["n"])
    assert (ordered.outcome, ordered.metrics["rows_rewritten"]) == ("done", 16)
    agree()
