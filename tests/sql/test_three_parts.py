"""Names that begin with the one catalog: `lakewarden.n.t`, `lakewarden.n.t.id`, and `lakewarden.n` for a namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

import pytest

from lakewarden import Lakehouse
from lakewarden.errors import InvalidArgument, PermissionDenied
from lakewarden.sql.results import Result, ResultRows

if TYPE_CHECKING:
    from lakewarden.client.k3.messages import QueryAnswer

Sql = Callable[[str], list[Result]]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path_factory.mktemp("warehouse") / "w")) as opened:
        opened.create_namespace("n")
        opened.session(user="root", role="system").sql(
            "CREATE SHARED TABLE lakewarden.n.t (id BIGINT PRIMARY KEY, v TEXT);"
            "INSERT INTO lakewarden.n.t (id, v) VALUES (1, 'a'), (2, 'b')"
        )
        yield opened


@pytest.fixture
def sql(lake: Lakehouse) -> Sql:
    return lake.session(user="root", role="system").sql


def rows(found: Result) -> list[tuple[object, ...]]:
    assert isinstance(found, ResultRows)
    return [tuple(row.values()) for row in found.table.to_pylist()]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT id FROM lakewarden.n.t ORDER BY id", [(1,), (2,)]),
        ("SELECT lakewarden.n.t.id FROM lakewarden.n.t WHERE lakewarden.n.t.v = 'b'", [(2,)]),
        ('SELECT "lakewarden"."n"."t"."id" FROM "Lakewarden"."n"."t" WHERE id = 1', [(1,)]),
        (
            "SELECT lakewarden.n.t.id::TEXT || lakewarden.n.t.v[1] FROM lakewarden.n.t ORDER BY n.t.id",
            [("1a",), ("2b",)],
        ),
        ("SELECT x.id FROM lakewarden.n.t AS x JOIN n.t AS y ON x.id = y.id + 1", [(2,)]),
        (
            "SELECT count(*) FROM lakewarden.n.t, (SELECT max(lakewarden.n.t.id) AS m FROM n.t) s WHERE t.id = s.m",
            [(1,)],
        ),
        ("WITH c AS (FROM lakewarden.n.t) SELECT v FROM c WHERE id IN (SELECT id FROM lakewarden.n.t WHERE id > 1)", [("b",)]),
        ("SELECT lakewarden.id FROM n.t AS lakewarden WHERE lakewarden.v = 'a'", [(1,)]),
        ("SELECT count(*) FROM lakewarden.system.tables WHERE table_name = 't'", [(1,)]),
    ],
)
def test_queries(sql: Sql, query: str, expected: list[tuple[object, ...]]) -> None:
    assert rows(sql(query)[0]) == expected
    assert rows(sql(f"EXPLAIN {query}")[0])


@pytest.mark.slow
def test_views_and_writes(lake: Lakehouse, sql: Sql) -> None:
    sql("CREATE SHARED TABLE lakewarden.n.w (id BIGINT PRIMARY KEY, v TEXT)")
    sql("CREATE VIEW lakewarden.n.seen AS SELECT lakewarden.n.w.id, v FROM lakewarden.n.w")
    sql("INSERT INTO lakewarden.n.w SELECT lakewarden.n.t.id, lakewarden.n.t.v FROM lakewarden.n.t")
    sql("UPDATE lakewarden.n.w SET v = 'c' WHERE lakewarden.n.w.id = (SELECT max(lakewarden.n.t.id) FROM lakewarden.n.t)")
    sql(
        "MERGE INTO lakewarden.n.w USING (SELECT lakewarden.n.t.id + 1 AS id FROM lakewarden.n.t) AS s"
        " ON lakewarden.n.w.id = s.id WHEN MATCHED THEN UPDATE SET v = lakewarden.n.w.v || '!'"
        " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new')"
    )
    assert rows(sql("SELECT * FROM lakewarden.n.seen ORDER BY id")[0]) == [(1, "a"), (2, "c!"), (3, "new")]
    sql("MERGE INTO lakewarden.n.w USING lakewarden.n.t AS s ON w.id = s.id WHEN MATCHED THEN DELETE")
    sql("DELETE FROM lakewarden.n.w WHERE lakewarden.n.w.id = 9 OR id IN (SELECT id FROM lakewarden.n.t)")
    assert lake.table("n.w").read().to_pylist() == [{"id": 3, "v": "new"}]
    sql("ALTER TABLE lakewarden.n.w ADD COLUMN x INT; TRUNCATE TABLE lakewarden.n.w; DROP VIEW lakewarden.n.seen")
    sql("STORAGE FLUSH TABLE lakewarden.n.w; DESCRIBE TABLE lakewarden.n.w; DROP TABLE lakewarden.n.w")


def test_namespaces(lake: Lakehouse, sql: Sql) -> None:
    assert ("n", "t") in [row[:2] for row in rows(sql("SHOW TABLES IN lakewarden.n")[0])]
    sql("CREATE NAMESPACE lakewarden.o; ALTER NAMESPACE lakewarden.o SET DESCRIPTION 'other'")
    sql("SHOW RULES IN NAMESPACE lakewarden.o; STORAGE FLUSH ALL IN lakewarden.o")
    assert rows(sql("USE NAMESPACE lakewarden.n; SELECT count(*) FROM t")[1]) == [(2,)]
    assert rows(sql("USE lakewarden.n; SELECT count(*) FROM t")[1]) == [(2,)]
    sql("DISABLE ENGINE lakewarden.o; ENABLE ENGINE lakewarden.o; DROP NAMESPACE lakewarden.o")
    assert "o" not in lake.warehouse.catalog.read().namespaces


def test_a_namespace_called_as_the_catalog(sql: Sql) -> None:
    sql("CREATE NAMESPACE lakewarden; CREATE SHARED TABLE lakewarden.n (id BIGINT PRIMARY KEY)")
    sql("INSERT INTO lakewarden.lakewarden.n (id) VALUES (7)")
    assert rows(sql("SELECT lakewarden.n.id FROM lakewarden.n")[0]) == [(7,)]
    assert rows(sql("SELECT lakewarden.lakewarden.n.id FROM lakewarden.lakewarden.n")[0]) == [(7,)]
    sql("DROP NAMESPACE lakewarden.lakewarden CASCADE")


@pytest.mark.parametrize("query", ["SELECT * FROM other.n.t", "EXPLAIN SELECT * FROM n.t JOIN other.n.t AS o USING (id)"])
def test_another_catalog_is_refused(sql: Sql, query: str) -> None:
    with pytest.raises(PermissionDenied, match="another catalog"):
        sql(query)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO other.n.t (id) VALUES (9)",
        "DELETE FROM other.n.t WHERE id = 1",
        "MERGE INTO other.n.t USING n.t AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "SHOW TABLES IN other.n",
        "USE other.n",
        "DROP NAMESPACE other.n",
    ],
)
def test_another_catalog_is_refused_in_statements(sql: Sql, statement: str) -> None:
    with pytest.raises(InvalidArgument, match="parts"):
        sql(statement)


def test_k3_takes_them(lake: Lakehouse) -> None:
    lake.k3.create_bucket("b")
    lake.k3.create_table("b", "k", columns=[{"name": "id", "type": "COLUMN_TYPE_LONG"}], merge_keys=["id"])
    lake.k3.execute("b", "INSERT INTO lakewarden.b.k (id) VALUES (3)")
    answer = lake.k3.execute("b", "SELECT lakewarden.b.k.id FROM lakewarden.b.k", "FRESHNESS_STRONG")
    assert cast("QueryAnswer", answer)["rows"] == [{"id": 3}]
