"""Which buckets a condition leaves, and that a look-up by key reads no file of another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakewarden import Column, Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.catalog.buckets import bucket_named, bucket_of
from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.schema import declare
from lakewarden.delta.reading.bounds import Bound, buckets_within
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.sql.results import Result, ResultRows

Sql = Callable[[str], list[Result]]

BUCKETS = 16
AT = datetime(2026, 1, 2, 3, tzinfo=UTC)


def schema(*key: Column) -> TableSchema:
    columns = [*key, Column("v", "TEXT")]
    return declare(columns, [column.name for column in key], "SHARED", ())


def buckets(*keys: Sequence[object], like: TableSchema) -> frozenset[int]:
    names = like.primary_key
    kinds = [column.type.arrow for column in like.columns if column.name in names]
    rows = pa.table({name: pa.array([key[at] for key in keys], kinds[at]) for at, name in enumerate(names)})
    return frozenset(bucket_of(rows, names, BUCKETS).to_numpy().tolist())


BY_ID = schema(Column("id", "BIGINT"))
BY_TWO = schema(Column("a", "TEXT"), Column("b", "INT"))
BY_PRICE = schema(Column("price", "DECIMAL(10,2)"))
BY_MOMENT = schema(Column("at", "TIMESTAMP"))
FIVE = Bound("id", 5, 5)


@pytest.mark.parametrize(
    ("of", "bounds", "keys"),
    [
        (BY_ID, [FIVE], [(5,)]),
        (BY_ID, [FIVE, Bound("id", None, 100)], [(5,)]),
        (BY_ID, [FIVE, FIVE], [(5,)]),
        (BY_ID, [FIVE, Bound("id", 5, 10, (5, 10))], [(5,)]),
        (BY_ID, [Bound("id", 1, 5, (1, 5)), Bound("id", 5, 10, (5, 10))], [(5,)]),
        (BY_ID, [Bound("id", 1, 9, (1, 5, 9))], [(1,), (5,), (9,)]),
        (BY_ID, [FIVE, Bound("id", 10, 10)], []),
        (BY_ID, [Bound("id", None, 100)], None),
        (BY_ID, [Bound("v", "x", "x")], None),
        (BY_ID, [Bound("id", "5", "5")], None),
        (BY_ID, [Bound("id", 2**70, 2**70)], None),
        (BY_ID, [Bound("id", 0, 1_001, tuple(range(1_002)))], None),
        (BY_TWO, [Bound("a", "x", "x"), Bound("b", 1, 2, (1, 2))], [("x", 1), ("x", 2)]),
        (BY_TWO, [Bound("a", "x", "x")], None),
        (BY_PRICE, [Bound("price", Decimal("1.5"), Decimal("1.5"))], [(Decimal("1.50"),)]),
        (BY_PRICE, [Bound("price", Decimal("1.555"), Decimal("1.555"))], None),
        (BY_MOMENT, [Bound("at", AT, AT)], [(AT,)]),
    ],
)
def test_buckets_that_a_condition_leaves(of: TableSchema, bounds: list[Bound], keys: list[tuple[object, ...]] | None) -> None:
    wanted = None if keys is None else buckets(*keys, like=of) if keys else frozenset[int]()
    assert buckets_within(of, bounds, BUCKETS) == wanted
    assert buckets_within(of, bounds, 1) is None


def found(lake: Lakehouse, query: str) -> list[str]:
    (rows,) = lake.sql(query)
    assert isinstance(rows, ResultRows)
    return sorted(str(row["id"]) for row in rows.to_pylist())


def data_files(lake: Lakehouse, name: str) -> list[Path]:
    catalog = lake.warehouse.catalog.read()
    place = Path(lake.warehouse.target_of(catalog, catalog.tables[TableName("n", name)], None).location.uri)
    return sorted(path for path in place.rglob("*.parquet") if "_delta_log" not in path.parts)


@pytest.mark.slow
def test_a_key_is_looked_for_in_its_bucket_alone(lake: Lakehouse, sql: Sql) -> None:
    """All other files are taken away: whoever reads one of them notices."""
    sql("CREATE DYNAMIC TABLE pruned (dt TEXT, id INT, v INT, PRIMARY KEY (dt, id)) PARTITIONED BY (dt) WITH ('bucket' = '4')")
    table = lake.table("n.pruned")
    table.write([{"dt": dt, "id": id_, "v": 1} for dt in "xy" for id_ in range(40)])
    lake.flush("n.pruned")
    table.write([{"dt": "x", "id": 41, "v": 2}, {"dt": "x", "id": 7, "v": 2}])
    own = bucket_of(pa.table({"dt": ["x"], "id": pa.array([7], pa.int32())}), ["dt", "id"], 4)[0].as_py()
    conditions = {
        "dt = 'x' AND id = 7": ["7"],
        "dt = 'x' AND id IN (7) AND v > 1": ["7"],
        "id = 7 AND dt = 'x' AND (v = 1 OR v = 2)": ["7"],
        "dt = 'x' AND id = 7 AND id < 5": [],
    }
    every = {"id = 7 OR id = 8 AND dt = 'y'": ["7", "7", "8"], "dt = 'x' AND id > 38": ["39", "41"], "id = 7": ["7", "7"]}
    for where, wanted in (conditions | every).items():
        assert found(lake, f"SELECT id FROM n.pruned WHERE {where}") == wanted, where
    for path in data_files(lake, "pruned"):
        if (path.parent.name, bucket_named(path.name)) != ("dt=x", own):
            path.unlink()
    with Lakehouse.open(lake.warehouse.uri) as fresh:
        for where, wanted in conditions.items():
            assert found(fresh, f"SELECT id FROM n.pruned WHERE {where}") == wanted, where
        with pytest.raises(Corrupt):
            found(fresh, "SELECT id FROM n.pruned WHERE id = 7")
    sql("DROP TABLE IF EXISTS pruned")


def test_files_of_another_tables_buckets_are_not_taken_over(lake: Lakehouse, sql: Sql) -> None:
    """By their names they would be looked for in the wrong place."""
    sql("CREATE DYNAMIC TABLE taken (id INT PRIMARY KEY)")
    catalog = lake.warehouse.catalog.read()
    place = Path(lake.warehouse.target_of(catalog, catalog.tables[TableName("n", "taken")], None).location.uri)
    sql("DROP TABLE taken")
    for log in (place / "_delta_log").glob("*"):
        log.unlink()
    write_deltalake(place, pa.table({"id": pa.array([1], pa.int32()), "_seq": pa.array([None], pa.int64())}))
    (data,) = (path for path in place.glob("*.parquet"))
    data.rename(place / f"b003-{data.name}")
    (commit,) = (place / "_delta_log").glob("*.json")
    commit.write_text(commit.read_text().replace(data.name, f"b003-{data.name}"))
    with pytest.raises(Unsupported, match="buckets of another table"):
        sql("CREATE DYNAMIC TABLE IF NOT EXISTS taken (id INT PRIMARY KEY) WITH ('bucket' = '4')")


def test_a_check_finds_rows_in_the_file_of_another_bucket(lake: Lakehouse, sql: Sql) -> None:
    sql("CREATE DYNAMIC TABLE misplaced (id INT PRIMARY KEY) WITH ('bucket' = '2')")
    lake.table("n.misplaced").write([{"id": id_} for id_ in range(20)])
    lake.flush("n.misplaced")
    assert "rows_in_their_bucket" not in wrong_with(lake, "n.misplaced")
    first, second = data_files(lake, "misplaced")
    (commit,) = (path for path in (first.parent / "_delta_log").glob("*.json") if first.name in path.read_text())
    text = commit.read_text()
    commit.write_text(text.replace(first.name, "other").replace(second.name, first.name).replace("other", second.name))
    rows = first.read_bytes(), second.read_bytes()
    second.write_bytes(rows[0])
    first.write_bytes(rows[1])
    with Lakehouse.open(lake.warehouse.uri) as fresh:
        assert wrong_with(fresh, "n.misplaced")["rows_in_their_bucket"].startswith("20 rows ")
    sql("DROP TABLE misplaced")


def wrong_with(lake: Lakehouse, name: str) -> dict[str, str]:
    """What a check finds wrong with a table, by the check's name."""
    return {one.check: one.message for one in lake.check() if one.subject == name and not one.passed}
