"""What Spark does to tables of ours in earnest: compact them, delete by vectors and purge them, put constraints on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakewarden import Lakehouse
from lakewarden.sql.results import ResultRows
from tests.fixtures.lakes import lake_fixture

pytestmark = [pytest.mark.slow, pytest.mark.disk]

_ENDS: Mapping[str, list[str]] = {
    "TIMESTAMP": ["'1890-01-01 00:00:00.000001'", "'2024-05-01 00:00:00.999999'", "'9999-12-31 23:59:59.999999'"],
    "DATE": ["'0001-01-01'", "'1582-10-04'", "'9999-12-31'"],
    "DECIMAL(18,2)": ["-9999999999999999.99", "123456789012345.67", "123456789012345.68"],
    "DECIMAL(38,0)": ["'9223372036854775807'", "'9223372036854775808'", f"'{'9' * 38}'"],
    "BIGINT": ["-9223372036854775808", "9007199254740993", "9223372036854775807"],
    "TEXT": ["'" + "a" * 32 + "\U0001f600'", "'" + "é" * 33 + "'", "'" + "\U0010ffff" * 40 + "'"],
}
_ODD = ["__HIVE_DEFAULT_PARTITION__", "é" * 34, "a/b=c%20", "\U0001f600", "x" * 300, " a\t"]


lake = lake_fixture(sql="CREATE NAMESPACE app")


def _place(lake: Lakehouse, table: str) -> str:
    return f"delta.`{Path(lake.warehouse.uri) / 'data' / 'app' / table}`"


def _found(lake: Lakehouse, query: str) -> list[Any]:
    (rows,) = lake.sql(query)
    assert isinstance(rows, ResultRows)
    return [row["n"] for row in rows.to_pylist()]


def test_each_key_is_found_replaced_and_deleted_behind_its_optimize(lake: Lakehouse, spark: SparkSession) -> None:
    """One key of all kinds: a file is passed over where the bounds of any of its columns say so."""
    key = {f"k{place}": kind for place, kind in enumerate(_ENDS)}
    columns = ", ".join(f"{name} {kind}" for name, kind in key.items())
    lake.sql(f"CREATE SHARED TABLE app.t ({columns}, n INT, PRIMARY KEY ({', '.join(key)}))")
    rows = list(zip(*_ENDS.values(), strict=True))
    for number, values in enumerate(rows):
        lake.sql(f"INSERT INTO app.t VALUES ({', '.join(map(str, values))}, {number})")
        lake.flush("app.t")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        spark.sql(f"OPTIMIZE {_place(lake, 't')}")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    for number, values in enumerate(rows):
        for (name, kind), value in zip(key.items(), values, strict=True):
            assert _found(lake, f"SELECT n FROM app.t WHERE {name} = {value}") == [number], (kind, value)
    first, *_, last = (" AND ".join(f"{name} = {value}" for name, value in zip(key, row, strict=True)) for row in rows)
    for change, left in (
        (f"UPDATE app.t SET n = 9 WHERE {first}", [1, 2, 9]),
        (f"DELETE FROM app.t WHERE {last}", [1, 9]),
    ):
        lake.sql(change)
        lake.flush("app.t")
        assert _found(lake, "SELECT n FROM app.t ORDER BY n") == left


@pytest.mark.night
def test_vectors_are_gone_after_a_purge(lake: Lakehouse, spark: SparkSession) -> None:
    lake.sql("CREATE SHARED TABLE app.k (id INT PRIMARY KEY, n INT); INSERT INTO app.k VALUES (1, 1), (2, 2), (3, 3)")
    lake.flush()
    place = _place(lake, "k")
    spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {place} WHERE id = 2")
    lake.table("app.k").write([{"id": 1, "n": 7}])
    (report,) = lake.flush()
    assert "REORG TABLE" in report.reason
    assert [finding.check for finding in lake.check() if not finding.passed] == ["takes_rows"]
    spark.sql(f"REORG TABLE {place} APPLY (PURGE)")
    (report,) = lake.flush()
    assert report.outcome == "done", report.reason
    assert all(finding.passed for finding in lake.check())
    assert sorted(row["n"] for row in spark.sql(f"SELECT n FROM {place}").collect()) == [3, 7]
    (report,) = lake.restore("app.k", version=0, dry_run=False)
    assert report.outcome == "done", report.reason
    assert _found(lake, "SELECT n FROM app.k ORDER BY n") == [1, 2, 3]


def test_a_constraint_of_spark_is_kept(lake: Lakehouse, spark: SparkSession) -> None:
    lake.sql("CREATE SHARED TABLE app.k (id INT PRIMARY KEY, n INT); INSERT INTO app.k VALUES (1, 1)")
    lake.flush()
    spark.sql(f"ALTER TABLE {_place(lake, 'k')} ADD CONSTRAINT positive CHECK (n > 0 AND id IS NOT NULL)")
    lake.sql("INSERT INTO app.k VALUES (2, 2)")
    (report,) = lake.flush()
    assert report.outcome == "done", report.reason
    lake.table("app.k")
    lake.sql("CREATE SHARED TABLE app.l (id INT PRIMARY KEY, n INT); INSERT INTO app.l VALUES (1, 1)")
    lake.flush("app.l")
    spark.sql(f"ALTER TABLE {_place(lake, 'l')} ADD CONSTRAINT positive CHECK (n > 0)")
    lake.sql("INSERT INTO app.l VALUES (2, -2)")
    (report,) = lake.flush("app.l")
    assert "positive" in report.reason
    assert spark.sql(f"SELECT count(*) AS n FROM {_place(lake, 'l')}").collect()[0]["n"] == 1


def test_odd_partition_values_are_read_as_they_are(lake: Lakehouse, spark: SparkSession) -> None:
    lake.sql("CREATE SHARED TABLE app.p (n INT PRIMARY KEY, kind TEXT) PARTITION BY (kind)")
    lake.table("app.p").write([{"n": number, "kind": kind} for number, kind in enumerate([*_ODD, None])])
    lake.flush()
    rows = spark.sql(f"SELECT n, kind FROM {_place(lake, 'p')} ORDER BY n").collect()
    assert [row["kind"] for row in rows] == [*_ODD, None]
