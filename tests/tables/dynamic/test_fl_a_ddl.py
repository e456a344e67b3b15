"""FL.A: tables, DDL, drop, describe."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakewarden import Column, Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.catalog.dynamic_options import DynamicOptions
from lakewarden.errors import AlreadyExists, InvalidArgument, NotFound, PermissionDenied, Unsupported
from lakewarden.sql.results import Result, ResultRows

Sql = Callable[[str], list[Result]]


def rows(result: Result) -> list[dict[str, object]]:
    assert isinstance(result, ResultRows)
    return result.to_pylist()


def row(result: Result) -> dict[str, object]:
    (found,) = rows(result)
    return found


def place(lake: Lakehouse, name: str) -> Path:
    warehouse = lake.warehouse
    table = warehouse.catalog.read().tables[TableName.parse(name)]
    return Path(warehouse.target_of(warehouse.catalog.read(), table, None).location.uri)


def test_fl_001_create_makes_the_storage(lake: Lakehouse, sql: Sql) -> None:
    sql("CREATE DYNAMIC TABLE t1 (a INT)")
    assert (place(lake, "n.t1") / "_delta_log" / f"{0:020}.json").exists()
    assert lake.warehouse.catalog.read().tables[TableName("n", "t1")].dynamic is not None


def test_fl_002_no_option_is_needed(lake: Lakehouse, sql: Sql) -> None:
    sql("SET 'table-storage.kind' = 'dynamic'; CREATE TABLE t2 (a INT); INSERT INTO t2 VALUES (1)")
    assert lake.warehouse.catalog.read().tables[TableName("n", "t2")].dynamic is not None
    sql("CREATE TABLE t2b (a INT); SET 'table-storage.kind' = 'dynamic'; CREATE SHARED TABLE t2c (a INT)")
    assert [lake.warehouse.catalog.read().tables[TableName("n", name)].dynamic for name in ("t2b", "t2c")] == [None, None]


def test_fl_003_create_of_what_is_there(lake: Lakehouse, sql: Sql) -> None:
    sql("CREATE DYNAMIC TABLE t3 (a INT PRIMARY KEY); INSERT INTO t3 VALUES (1)")
    with pytest.raises(AlreadyExists):
        sql("CREATE DYNAMIC TABLE t3 (a INT)")
    sql("CREATE DYNAMIC TABLE IF NOT EXISTS t3 (a INT)")
    assert rows(sql("SELECT a FROM t3")[0]) == [{"a": 1}]
    kept = place(lake, "n.t3")
    sql("DROP TABLE t3")
    shutil.rmtree(kept)
    write_deltalake(kept, pa.table({"a": pa.array([1], pa.int32()), "_seq": pa.array([None], pa.int64())}))
    with pytest.raises(AlreadyExists, match="IF NOT EXISTS"):
        sql("CREATE DYNAMIC TABLE t3 (a INT)")
    with pytest.raises(Unsupported):
        sql("CREATE DYNAMIC TABLE IF NOT EXISTS t3 (b INT)")
    sql("CREATE DYNAMIC TABLE IF NOT EXISTS t3 (a INT)")
    assert rows(sql("SELECT a FROM t3")[0]) == [{"a": 1}]


def test_fl_004_the_key_includes_the_partition_fields(sql: Sql) -> None:
    columns = "shopId INT, dt TEXT, hr INT, v INT"
    with pytest.raises(InvalidArgument) as refused:
        sql(f"CREATE DYNAMIC TABLE t4 ({columns}, PRIMARY KEY (shopId)) PARTITIONED BY (dt, hr)")
    assert str(refused.value) == "Primary key constraint [shopId] should include all partition fields [dt, hr]"
    sql(f"CREATE DYNAMIC TABLE t4 ({columns}, PRIMARY KEY (dt, hr, shopId)) PARTITIONED BY (dt, hr)")


def test_fl_005_the_key_is_more_than_the_partition_fields(sql: Sql) -> None:
    with pytest.raises(InvalidArgument, match="only one record in a partition"):
        sql("CREATE DYNAMIC TABLE t5 (dt TEXT, v INT, PRIMARY KEY (dt)) PARTITIONED BY (dt)")


def test_fl_006_drop_removes_everything(lake: Lakehouse, sql: Sql) -> None:
    sql("CREATE DYNAMIC TABLE t6 (a INT PRIMARY KEY); INSERT INTO t6 VALUES (1); STORAGE FLUSH TABLE n.t6")
    before = place(lake, "n.t6")
    log = lake.warehouse.catalog.read().tables[TableName("n", "t6")].log_id
    sql("DROP TABLE t6")
    assert TableName("n", "t6") not in lake.warehouse.catalog.read().tables
    assert not list(before.glob("*.parquet"))
    assert not list(Path(lake.warehouse.uri).glob(f"_lakewarden/log/{log}/segments/*"))
    sql("CREATE DYNAMIC TABLE t6 (a INT PRIMARY KEY)")
    assert rows(sql("SELECT a FROM t6")[0]) == []


def test_fl_007_drop_of_a_missing_table(sql: Sql) -> None:
    with pytest.raises(NotFound):
        sql("DROP TABLE t7")
    sql("DROP TABLE IF EXISTS t7")


def test_fl_008_drop_where_the_path_is_gone(lake: Lakehouse, sql: Sql) -> None:
    sql("CREATE DYNAMIC TABLE t8 (a INT PRIMARY KEY)")
    shutil.rmtree(place(lake, "n.t8"))
    with pytest.raises(NotFound, match="IF EXISTS"):
        sql("DROP TABLE t8")
    assert TableName("n", "t8") in lake.warehouse.catalog.read().tables
    sql("DROP TABLE IF EXISTS t8")
    assert TableName("n", "t8") not in lake.warehouse.catalog.read().tables


@pytest.mark.slow
def test_fl_010_names_of_one_to_three_parts(sql: Sql) -> None:
    for name in ("lakewarden.n.t10", "n.t10", "t10"):
        sql(f"CREATE DYNAMIC TABLE {name} (a INT); DESCRIBE TABLE EXTENDED {name}")
        sql(f"INSERT INTO {name} VALUES (1); DROP TABLE {name}")
    with pytest.raises(InvalidArgument, match="three parts"):
        sql("DROP TABLE other.n.t10")


def test_fl_012_describe_extended(sql: Sql) -> None:
    found = row(
        sql(
            "CREATE DYNAMIC TABLE t12 (a INT PRIMARY KEY, at TIMESTAMP)"
            " WITH ('bucket' = '4', 'log.retention' = '7 d', 'watermark' = 'at', 'change-tracking' = 'false');"
            "DESCRIBE TABLE EXTENDED t12"
        )[1]
    )
    assert found["name"] == "lakewarden.n.t12"
    assert (found["log.system"], found["log.retention"]) == ("object", "604800 s")
    assert (found["file.format"], found["bucket"], found["change-tracking"]) == ("parquet", 4, False)
    assert str(found["file.path"]).endswith("/n/t12")
    assert [found[f"log.kafka.{key}"] for key in ("bootstrap.servers", "topic")] == [None, None]
    assert "watermark" not in row(sql("CREATE DYNAMIC TABLE t12b (a INT); DESCRIBE TABLE EXTENDED t12b")[1])


def test_fl_013_describe_a_partition(lake: Lakehouse, sql: Sql) -> None:
    sql("CREATE DYNAMIC TABLE t13 (dt TEXT, a INT) PARTITIONED BY (dt); INSERT INTO t13 VALUES ('x', 1), ('y', 2)")
    sql("INSERT INTO t13 VALUES ('x', 3)")
    found = row(sql("DESCRIBE TABLE EXTENDED t13 PARTITION (dt = 'x')")[0])
    assert (found["partition"], found["num-files"]) == ("dt=x", 2)
    assert found["file.path"] == f"{place(lake, 'n.t13')}/dt=x"
    assert found["last-modified"] is not None


def test_fl_014_describe_without_a_partition_has_its_columns_too(sql: Sql) -> None:
    sql("CREATE DYNAMIC TABLE t14 (dt TEXT, a INT) PARTITIONED BY (dt); INSERT INTO t14 VALUES ('x', 1), ('y', 2)")
    found = row(sql("DESCRIBE TABLE EXTENDED t14")[0])
    assert (found["num-files"], "partition" in found) == (2, False)
    assert found["last-modified"] is not None


def test_fl_015_what_is_no_partition(sql: Sql) -> None:
    sql("CREATE DYNAMIC TABLE t15 (dt TEXT, hr INT, a INT) PARTITIONED BY (dt, hr); INSERT INTO t15 VALUES ('x', 1, 1)")
    with pytest.raises(NotFound, match="no partition"):
        sql("DESCRIBE TABLE EXTENDED t15 PARTITION (dt = 'x', hr = 2)")
    for wrong in ("dt = 'x'", "dt = 'x', a = 1", "dt = 'x', hr = 'one'", "dt = 'x', dt = 'y'"):
        with pytest.raises(InvalidArgument):
            sql(f"DESCRIBE TABLE EXTENDED t15 PARTITION ({wrong})")
    with pytest.raises(InvalidArgument, match="not partitioned"):
        sql("CREATE DYNAMIC TABLE t15b (a INT); DESCRIBE TABLE EXTENDED t15b PARTITION (a = 1)")
    with pytest.raises(Unsupported, match="for dynamic tables"):
        sql("CREATE TABLE t15c (a INT); DESCRIBE TABLE EXTENDED t15c")


def test_fl_016_watermark_of_the_newest_rows(sql: Sql) -> None:
    sql("CREATE DYNAMIC TABLE t16 (a INT PRIMARY KEY, at TIMESTAMP) WITH ('watermark' = 'at')")
    assert row(sql("DESCRIBE TABLE EXTENDED t16")[0])["watermark"] is None
    sql("INSERT INTO t16 VALUES (1, '2026-11-22 10:00:00'); STORAGE FLUSH TABLE n.t16")
    sql("INSERT INTO t16 VALUES (2, '2026-11-23 10:00:00')")
    assert str(row(sql("DESCRIBE TABLE EXTENDED t16")[0])["watermark"]).startswith("2026-11-23 10:00:00")


def test_python_creates_what_sql_creates(lake: Lakehouse) -> None:
    columns = [Column("dt", "TEXT"), Column("a", "INT")]
    lake.create_table("n.p", columns=columns, primary_key=["dt", "a"], partition_by=["dt"], dynamic=True, options={"bucket": "2"})
    made = lake.warehouse.catalog.read().tables[TableName("n", "p")]
    assert made.dynamic == DynamicOptions(bucket=2)
    assert made.options.on_duplicate == "replace"


def test_rights_are_those_of_shared_tables(lake: Lakehouse, sql: Sql) -> None:
    sql("CREATE DYNAMIC TABLE rights (a INT) WITH (ACCESS_LEVEL = 'PRIVATE')")
    plain = lake.session(user="u", role="user")
    for text in (
        "DROP TABLE n.rights",
        "ALTER TABLE n.rights COMPACT",
        "DESCRIBE TABLE EXTENDED n.rights",
        "CREATE DYNAMIC TABLE n.x (a INT)",
    ):
        with pytest.raises(PermissionDenied):
            plain.sql(text)
    with pytest.raises(PermissionDenied):
        lake.session(user="s", role="service").sql("CREATE DYNAMIC TABLE n.x (a INT) WITH ('file.path' = '/elsewhere')")
