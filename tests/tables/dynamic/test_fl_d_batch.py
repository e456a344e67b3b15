"""FL.D, FL.E and FL.G: batch writes of dynamic tables, and what they do where others commit meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakewarden import Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.catalog.buckets import bucket_named, bucket_of
from lakewarden.delta.commit_log.actions import BUCKET_TAG
from lakewarden.errors import Conflict, InvalidArgument, NotFound, Unsupported
from lakewarden.maintenance.open_table import flush_pending
from lakewarden.sql.results import AffectedRows, Result, ResultRows
from lakewarden.tables.client.direct import DirectWrites
from lakewarden.tables.dynamic import StreamingWriter

Sql = Callable[[str], list[Result]]
KEYED = "(dt TEXT, id INT, v INT, PRIMARY KEY (dt, id)) PARTITIONED BY (dt)"


def rows(lake: Lakehouse, name: str) -> set[tuple[object, ...]]:
    (found,) = lake.sql(f"SELECT * FROM n.{name}")
    assert isinstance(found, ResultRows)
    return {tuple(row.values()) for row in found.to_pylist()}


def files(lake: Lakehouse, name: str) -> list[Path]:
    warehouse = lake.warehouse
    catalog = warehouse.catalog.read()
    place = Path(warehouse.target_of(catalog, catalog.tables[TableName("n", name)], None).location.uri)
    return sorted(path for path in place.rglob("*.parquet") if "_delta_log" not in path.parts)


def flush(lake: Lakehouse, name: str) -> None:
    assert [report.fault for report in lake.flush(f"n.{name}")] == [None]


def test_fl_034_files_are_divided_by_the_hash_of_the_key(lake: Lakehouse, sql: Sql) -> None:
    sql("CREATE DYNAMIC TABLE d34 (id INT PRIMARY KEY, v INT) WITH ('bucket' = '4')")
    lake.table("n.d34").write([{"id": id_, "v": id_} for id_ in range(200)])
    flush(lake, "d34")
    found = files(lake, "d34")
    assert [bucket_named(path.name) for path in found] == [0, 1, 2, 3]
    for path in found:
        part = pq.read_table(path)
        assert set(bucket_of(part, ["id"], 4).to_pylist()) == {bucket_named(path.name)}
    commit = max((found[0].parent / "_delta_log").glob("*.json")).read_text().splitlines()
    adds = [json.loads(line)["add"] for line in commit if '"add"' in line]
    assert [(add["path"], add["tags"]) for add in adds] == [
        (path.name, {BUCKET_TAG: str(number)}) for number, path in enumerate(found)
    ]
    assert len(rows(lake, "d34")) == 200


def test_fl_035_a_rewrite_keeps_a_bucket_by_itself(lake: Lakehouse, sql: Sql) -> None:
    sql("CREATE DYNAMIC TABLE d35 (id INT PRIMARY KEY, v INT) WITH ('bucket' = '2')")
    for start in (0, 50):
        lake.table("n.d35").write([{"id": id_, "v": id_} for id_ in range(start, start + 50)])
        flush(lake, "d35")
    sql("ALTER TABLE d35 COMPACT")
    live = [path for path in files(lake, "d35") if "compact-" in path.name]
    assert sorted(bucket_named(path.name) for path in live) == [0, 1]  # type: ignore[type-var]
    assert lake.optimize("n.d35")[0].outcome == "skipped"
    assert len(rows(lake, "d35")) == 100


def test_fl_041_batch_writes_beside_a_streaming_writer(lake: Lakehouse, sql: Sql) -> None:
    sql(f"CREATE DYNAMIC TABLE d41 {KEYED}")
    stream = StreamingWriter.take(lake.warehouse.catalog, TableName("n", "d41"), "stream")
    sql("INSERT INTO d41 VALUES ('x', 1, 1); INSERT OVERWRITE d41 VALUES ('x', 2, 2); ALTER TABLE d41 COMPACT")
    stream.renew(lake.warehouse.catalog)
    stream.release(lake.warehouse.catalog)
    assert rows(lake, "d41") == {("x", 2, 2)}


@pytest.mark.slow
def test_fl_043_overwrite_of_partitions(lake: Lakehouse, sql: Sql) -> None:
    sql(f"CREATE DYNAMIC TABLE d43 {KEYED}; INSERT INTO d43 VALUES ('x', 1, 1), ('y', 1, 1), ('z', 1, 1)")
    sql("INSERT OVERWRITE d43 PARTITION (dt = 'x') VALUES (2, 2), (3, 3)")
    assert rows(lake, "d43") == {("x", 2, 2), ("x", 3, 3), ("y", 1, 1), ("z", 1, 1)}
    sql("INSERT OVERWRITE d43 PARTITION (dt = 'y') SELECT id, v FROM d43 WHERE dt = 'x'")
    sql("INSERT OVERWRITE d43 VALUES ('x', 9, 9)")
    assert rows(lake, "d43") == {("x", 9, 9), ("y", 2, 2), ("y", 3, 3), ("z", 1, 1)}
    sql("INSERT OVERWRITE d43 PARTITION (dt = 'z') SELECT id, v FROM d43 WHERE false")
    assert {row[0] for row in rows(lake, "d43")} == {"x", "y"}
    with pytest.raises(InvalidArgument):
        sql("INSERT OVERWRITE d43 PARTITION (v = 1) VALUES ('x', 1)")
    sql("CREATE DYNAMIC TABLE d43b (id INT PRIMARY KEY); INSERT INTO d43b VALUES (1); INSERT OVERWRITE d43b VALUES (2)")
    assert rows(lake, "d43b") == {(2,)}


@pytest.mark.slow
@pytest.mark.parametrize("key", [", PRIMARY KEY (dt, id)", ""])
def test_fl_044_overwrite_makes_no_changelog(lake: Lakehouse, sql: Sql, key: str) -> None:
    name = "d44k" if key else "d44"
    sql(f"CREATE DYNAMIC TABLE {name} (dt TEXT, id INT{key}) PARTITIONED BY (dt); INSERT INTO {name} VALUES ('x', 80)")
    with lake.subscribe(f"SELECT * FROM n.{name}") as stream:
        assert [event.row["id"] for event in stream.poll()] == [80]
        after = lake.table(f"n.{name}").changes().upto
        sql(f"INSERT OVERWRITE {name} PARTITION (dt = 'x') VALUES (81); INSERT INTO {name} VALUES ('x', 82)")
        assert [(event.kind, event.row["id"]) for event in stream.poll()] == [("insert", 82)]
    found = lake.table(f"n.{name}").changes(after=after).rows.to_pylist()
    assert [(row["_change_type"], row["id"]) for row in found] == [("insert", 82)]
    assert rows(lake, name) == {("x", 81), ("x", 82)}


def test_fl_045_compact_is_done_when_it_returns(lake: Lakehouse, sql: Sql) -> None:
    sql("CREATE DYNAMIC TABLE d45 (a INT)")
    for value in range(3):
        sql(f"INSERT INTO d45 VALUES ({value})")
    before = rows(lake, "d45")
    sql("ALTER TABLE d45 COMPACT")
    (described,) = sql("DESCRIBE TABLE EXTENDED d45")
    assert isinstance(described, ResultRows)
    assert described.to_pylist()[0]["num-files"] == 1
    assert rows(lake, "d45") == before
    with pytest.raises(Unsupported, match="Only managed table supports compaction"):
        sql("CREATE TABLE d45b (a INT); ALTER TABLE d45b COMPACT")


def overwriting(lake: Lakehouse, name: str, meanwhile: str) -> None:
    """Overwrites the partition x while a stream writes to the partition `meanwhile`, and flushes."""
    warehouse = lake.warehouse
    table = warehouse.catalog.read().tables[TableName("n", name)]
    done: list[str] = []

    def reach(where: str) -> None:
        if where == "direct:drafted" and not done:
            done.append(where)
            lake.table(f"n.{name}").write([{"dt": meanwhile, "id": 7, "v": 7}])
            flush(lake, name)

    rows_given = lake.table(f"n.{name}").completed([{"dt": "x", "id": 5, "v": 5}], user=None)
    DirectWrites(warehouse, table, flush_pending, reach=reach).overwrite([rows_given], within="dt = 'x'")


def test_fl_046_a_command_that_lost_asks_to_retry(lake: Lakehouse, sql: Sql) -> None:
    sql(f"CREATE DYNAMIC TABLE d46 {KEYED}; INSERT INTO d46 VALUES ('x', 1, 1)")
    with pytest.raises(Conflict, match="retry"):
        overwriting(lake, "d46", "x")


@pytest.mark.slow
def test_fl_047_nothing_stays_of_it_and_the_stream_goes_on(lake: Lakehouse, sql: Sql) -> None:
    sql(f"CREATE DYNAMIC TABLE d47 {KEYED}; INSERT INTO d47 VALUES ('x', 1, 1)")
    with pytest.raises(Conflict):
        overwriting(lake, "d47", "x")
    assert rows(lake, "d47") == {("x", 1, 1), ("x", 7, 7)}
    assert [path for path in files(lake, "d47") if "direct-" in path.name] == []


@pytest.mark.slow
def test_fl_048_other_partitions_do_not_conflict(lake: Lakehouse, sql: Sql) -> None:
    sql(f"CREATE DYNAMIC TABLE d48 {KEYED}; INSERT INTO d48 VALUES ('x', 1, 1)")
    overwriting(lake, "d48", "y")
    assert rows(lake, "d48") == {("x", 5, 5), ("y", 7, 7)}


@pytest.mark.slow
def test_fl_079_drop_partition(lake: Lakehouse, sql: Sql) -> None:
    sql(f"CREATE DYNAMIC TABLE d79 {KEYED}; INSERT INTO d79 VALUES ('x', 1, 1), ('y', 1, 1); STORAGE FLUSH TABLE n.d79")
    sql("INSERT INTO d79 VALUES ('x', 2, 2)")
    assert sql("ALTER TABLE d79 DROP PARTITION (dt = 'x')") == [AffectedRows(2)]
    assert rows(lake, "d79") == {("y", 1, 1)}
    with pytest.raises(NotFound):
        sql("ALTER TABLE d79 DROP PARTITION (dt = 'x')")
    assert sql("ALTER TABLE d79 DROP IF EXISTS PARTITION (dt = 'x')") == [AffectedRows(0)]
