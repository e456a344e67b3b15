"""What a query passes over: by any condition it finds what DuckDB finds in all of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from lakewarden import Lakehouse
from lakewarden.delta.reading.bounds import Bound
from lakewarden.sql.dialect import query_in
from lakewarden.sql.queries.pushdown import pushdown_of
from lakewarden.sql.relations import resolved
from lakewarden.sql.results import ResultRows
from lakewarden.tables.freshness import Freshness
from tests.fixtures.examples import FAST

_UUID = "0191e3c5-7f4a-7cc2-98a1-00000000000"
_CREATE = """
CREATE NAMESPACE app; USE app;
CREATE USER TABLE t (id BIGINT PRIMARY KEY, small SMALLINT, name TEXT, made DATE, seen TIMESTAMP, price DECIMAL(20,4),
                     ref UUID, ratio DOUBLE, ok BOOLEAN, gone INT);
"""
_ROW = """
SELECT x, x % 7, CASE WHEN x % 5 = 0 THEN NULL ELSE chr((97 + x % 26)::INT) || x END, DATE '2024-02-27' + x::INT,
       TIMESTAMPTZ '2024-02-29 23:59:59.999999' + x * INTERVAL 1 HOUR, x * 1.2345,
       '0191e3c5-7f4a-7cc2-98a1-00000000000' || (x % 10), x / 3,
       x % 2 = 0, CASE WHEN x % 3 = 0 THEN NULL ELSE x END
"""
_STEPS = (
    f"INSERT INTO app.t {_ROW} FROM range(0, 20) r(x); STORAGE FLUSH TABLE app.t",
    f"INSERT INTO app.t {_ROW} FROM range(20, 40) r(x); STORAGE FLUSH TABLE app.t",
    "ALTER TABLE app.t RENAME COLUMN name TO title; ALTER TABLE app.t MODIFY COLUMN small INT",
    "ALTER TABLE app.t DROP COLUMN gone; ALTER TABLE app.t ADD COLUMN gone INT; ALTER TABLE app.t ADD COLUMN name TEXT",
    f"INSERT INTO app.t SELECT *, 'new' FROM ({_ROW} FROM range(40, 60) r(x))",
    "UPDATE app.t SET small = 100000, title = 'hot' WHERE id IN (3, 25, 45); DELETE FROM app.t WHERE id = 4",
)
_CONDITIONS = (
    "id = 25",
    "4 = id",
    "id > 38 AND id <= 45",
    "id BETWEEN 3 AND 5",
    "id IN (3, 25, 59)",
    "id IN (3, NULL)",
    "id = -1 OR id = 7",
    "NOT id = 3",
    "id = 9223372036854775807",
    "id > 99999999999999999999",
    "small = 100000",
    "small >= 5.5",
    "small IS NULL",
    "title = 'hot'",
    "title >= 'w' AND title < 'é'",
    "title BETWEEN 'b' AND 'd'",
    "title IN ('b1', 'hot', 'Z')",
    "title IS NULL",
    "title IS NOT NULL AND id < 6",
    "title LIKE 'h%'",
    "name = 'new'",
    "name IS NULL",
    "gone = 44",
    "gone IS NULL",
    "made = '2024-02-29'",
    "made >= DATE '2024-03-20'",
    "made < TIMESTAMP '2024-02-28 12:00:00'",
    "made IN ('2024-02-28', DATE '2024-03-01')",
    "seen = '2024-02-29 23:59:59.999999'",
    "seen <= TIMESTAMP '2024-03-01 00:59:59.999999'",
    "seen < TIMESTAMPTZ '2024-03-01 02:00:00+01'",
    "seen >= '2024-03-02T00:00:00Z'",
    "seen > DATE '2024-03-02'",
    "seen BETWEEN '2024-03-01' AND '2024-03-01 05:00:00'",
    "price = 1.2345",
    "price > 60",
    "price < -0.5",
    "price BETWEEN 1.23 AND 2.46901",
    f"ref = '{_UUID}3'",
    f"ref IN ('{_UUID}1', '{_UUID}2')",
    "ratio > 18",
    "ok AND id < 5",
    "seen = 'infinity'",
    "t.id = 5 AND t.title > 'a'",
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path_factory.mktemp("pushdown") / "lake")) as lake:
        for step in (_CREATE, *_STEPS):
            lake.sql(step)
        yield lake


@pytest.mark.slow
@pytest.mark.parametrize("freshness", ["strong", "eventual"])
def test_any_condition_finds_what_it_finds_in_all_of_the_rows(lake: Lakehouse, freshness: Freshness) -> None:
    session = lake.session(user="root", role="system")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("t", lake.table("app.t").read(user="root", freshness=freshness))
        for condition in _CONDITIONS[:: 4 if FAST else 1]:
            for chosen in ("id", "count(*)", "title, seen"):
                expected = sorted(
                    map(repr, connection.sql(f"SELECT {chosen} FROM t WHERE {condition}").to_arrow_table().to_pylist())
                )
                found = session.sql(f"SELECT {chosen} FROM app.t WHERE {condition}", freshness=freshness)[-1]
                assert isinstance(found, ResultRows)
                assert sorted(map(repr, found.table.to_pylist())) == expected, (condition, chosen)


@pytest.mark.slow
def test_literals_of_every_comparable_type_are_bounds(lake: Lakehouse) -> None:
    schema = lake.table("app.t").table.schema

    def bounds(condition: str) -> tuple[Bound, ...]:
        query = query_in(f"SELECT * FROM app.t WHERE {condition}")
        assert query is not None
        made = resolved(query, lambda ref, _: lake.table("app.t").table.name, None)
        return pushdown_of(made.query, next(iter(made.tables.values())), schema).bounds

    for condition in ("id = 1", "title > 'a'", "made < '2024-03-01'", "seen >= TIMESTAMP '2024-03-01 00:00:00'", "price <= 1.5"):
        assert len(bounds(condition)) == 1, condition
    assert bounds("ref IN ('b', 'a')") == (Bound("ref", "a", "b", ("a", "b")),)
    for condition in ("id = 1.5", "seen = 'now'", "made = '2024-02-30'", "ratio = 1", "id = 1 OR id = 2", "lower(title) = 'a'"):
        assert not bounds(condition), condition


@pytest.mark.slow
def test_another_session_sees_what_was_committed_between_its_queries(tmp_path: Path) -> None:
    uri = str(tmp_path / "lake")
    with Lakehouse.open(uri) as lake, Lakehouse.open(uri) as other:
        lake.sql("CREATE NAMESPACE app; CREATE USER TABLE app.t (id BIGINT PRIMARY KEY, name TEXT)")

        def seen() -> list[object]:
            found = other.sql("SELECT * FROM app.t ORDER BY id", freshness="eventual")[-1]
            assert isinstance(found, ResultRows)
            return [tuple(row.values()) for row in found.to_pylist()]

        for number in range(3):
            assert seen() == [(one, "x") for one in range(number)]
            lake.sql(f"INSERT INTO app.t VALUES ({number}, 'x'); STORAGE FLUSH TABLE app.t")
        assert seen() == seen() == [(0, "x"), (1, "x"), (2, "x")]
        lake.sql("RESTORE TABLE app.t TO VERSION AS OF 0")
        assert seen() == [(0, "x")]
        lake.erase("root")
        assert seen() == []
        lake.sql("DROP TABLE app.t; CREATE USER TABLE app.t (id BIGINT PRIMARY KEY, name TEXT)")
        lake.sql("INSERT INTO app.t VALUES (9, 'again'); STORAGE FLUSH TABLE app.t")
        assert seen() == [(9, "again")]
