"""Columns that are called as reserved words of SQL, in quotes, through every statement and every door."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakewarden import Column, Lakehouse
from lakewarden.catalog.names import _SQL_WORDS
from lakewarden.errors import InvalidArgument
from lakewarden.sql.results import Result
from tests.ingest.pipelines.uploads import place, upload_to

KINDS = {
    "user": ("USER TABLE", ""),
    "shared": ("SHARED TABLE", ""),
    "parts": ("SHARED TABLE", 'PARTITION BY ("group")'),
    "dynamic": ("DYNAMIC TABLE", "WITH ('bucket' = '2', 'log.changelog-mode' = 'all')"),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path_factory.mktemp("warehouse") / "w")) as opened:
        opened.create_namespace("n")
        opened.sql("CREATE USER ann WITH PASSWORD 'correct horse battery' ROLE system")
        yield opened


def run(lake: Lakehouse, text: str) -> list[Result]:
    return lake.session(user="ann", role="system").sql(f"USE n; {text}")[1:]


def rows(lake: Lakehouse, query: str) -> list[Any]:
    found: Any = run(lake, query)[0]
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.fixture(scope="module", params=KINDS)
def table(lake: Lakehouse, request: pytest.FixtureRequest) -> str:
    kind, more = KINDS[request.param]
    name = f"t_{request.param}"
    columns = '"order" INT, "select" TEXT NOT NULL DEFAULT \'d\', "group" TEXT, PRIMARY KEY ("order")'
    run(lake, f"CREATE {kind} {name} ({columns}) {more}")
    return name


@pytest.mark.slow
def test_every_statement(lake: Lakehouse, table: str) -> None:
    run(lake, f"INSERT INTO {table} (\"order\", \"select\", \"group\") VALUES (1, 'a', 'g'), (2, 'b', 'h'), (3, 'c', 'g')")
    for _ in range(2):  # hot, then cold
        assert rows(lake, f'SELECT "select" FROM {table} WHERE "order" = 2 AND "group" = \'h\'') == [("b",)]
        assert rows(lake, f'SELECT "group", max({table}."order") FROM {table} GROUP BY "group" ORDER BY "group"') == [
            ("g", 3),
            ("h", 2),
        ]
        run(lake, f"STORAGE FLUSH TABLE n.{table}")
    run(lake, f'UPDATE {table} SET "select" = "select" || \'!\' WHERE "order" = 1')
    run(lake, f'UPDATE {table} SET "select" = "group" WHERE "group" > \'g\'')
    run(lake, f"DELETE FROM {table} WHERE \"select\" = 'c'")
    run(lake, f'INSERT INTO {table} ("order") VALUES (1) ON CONFLICT ("order") DO UPDATE SET "group" = excluded."select"')
    source = '(SELECT range AS "order", \'m\' AS "select" FROM range(2, 5)) AS "from"'
    run(
        lake,
        f'MERGE INTO {table} USING {source} ON {table}."order" = "from"."order"'
        ' WHEN MATCHED THEN UPDATE SET "select" = "from"."select"'
        ' WHEN NOT MATCHED THEN INSERT ("order", "select") VALUES ("from"."order", "from"."select")',
    )
    expected = [(1, "a!", "d"), (2, "m", "h"), (3, "m", None), (4, "m", None)]
    assert rows(lake, f'SELECT * FROM {table} ORDER BY "order"') == expected
    run(lake, f'CREATE OR REPLACE VIEW v AS SELECT "order" AS "table", "select" FROM {table}')
    assert rows(lake, 'SELECT "table" FROM v WHERE "select" = \'a!\'') == [(1,)]
    run(lake, f"STORAGE FLUSH TABLE n.{table}; STORAGE COMPACT TABLE n.{table}")
    run(lake, f"OPTIMIZE {table}" + ("" if "dynamic" in table else ' ZORDER BY ("select", "order")'))
    assert rows(lake, f'SELECT * FROM {table} ORDER BY "order"') == expected
    changes = lake.table(f"n.{table}").changes(user="ann" if "user" in table else None)
    assert {"order", "select", "group"} <= set(changes.rows.column_names)


@pytest.mark.slow
def test_alter_and_restore(lake: Lakehouse, table: str) -> None:
    run(lake, f"TRUNCATE {table}; INSERT INTO {table} VALUES (1, 'a', 'g')")
    run(lake, f"STORAGE FLUSH TABLE n.{table}")
    user = "ann" if "user" in table else None
    version = lake.table(f"n.{table}").history(user=user)[0].version
    run(lake, f'ALTER TABLE {table} ADD COLUMN "where" INT; ALTER TABLE {table} RENAME COLUMN "where" TO "limit"')
    run(lake, f'UPDATE {table} SET "limit" = 5 WHERE "order" = 1; DELETE FROM {table} WHERE "limit" = 6')
    run(lake, f"STORAGE FLUSH TABLE n.{table}")
    assert rows(lake, f'SELECT "limit" FROM {table}') == [(5,)]
    assert rows(lake, f'SELECT "order" FROM {table} VERSION AS OF {version}') == [(1,)]
    run(lake, f'ALTER TABLE {table} DROP COLUMN "limit"; RESTORE {table} TO VERSION AS OF {version}')
    assert rows(lake, f"SELECT * FROM {table}") == [(1, "a", "g")]
    warehouse = lake.warehouse
    found = next(Path(warehouse.uri).glob(f"data/n/{table}/**/_delta_log")).parent
    assert {"order", "select", "group"} <= {field.name for field in DeltaTable(str(found)).schema().fields}


def test_without_quotes_they_are_refused(lake: Lakehouse) -> None:
    for statement in (
        "CREATE SHARED TABLE bad (id INT PRIMARY KEY, order INT)",
        'CREATE SHARED TABLE bad ("order" INT, PRIMARY KEY (order))',
        "ALTER TABLE t ADD COLUMN select TEXT",
        "ALTER TABLE t RENAME COLUMN a TO from",
        "OPTIMIZE t ZORDER BY (order)",
    ):
        with pytest.raises(InvalidArgument, match="reserved word of SQL: write it in double quotes"):
            run(lake, statement)
    with pytest.raises(InvalidArgument, match="reserved; so are"):
        run(lake, 'CREATE SHARED TABLE bad (id INT PRIMARY KEY, "_seq" INT)')
    with pytest.raises(InvalidArgument, match="reserved word"):
        run(lake, 'CREATE SHARED TABLE "order" (id INT PRIMARY KEY)')


@pytest.mark.slow
def test_every_reserved_word(lake: Lakehouse) -> None:
    words = sorted(_SQL_WORDS)
    lake.create_table(
        "n.words", type="SHARED", columns=[Column("id", "INT"), *(Column(word, "INT") for word in words)], primary_key=["id"]
    )
    lake.table("n.words").write([{"id": 1, **{word: place for place, word in enumerate(words)}}])
    together = ", ".join(f'"{word}" = "{word}" + 1' for word in words)
    each = " AND ".join(f'"{word}" >= 0 AND words."{word}" IS NOT NULL' for word in words)
    run(lake, f"UPDATE words SET {together} WHERE {each}")
    lake.flush("n.words")
    (found,) = lake.table("n.words").read().to_pylist()
    assert found == {"id": 1, **{word: place + 1 for place, word in enumerate(words)}}


def test_k3s_calls(lake: Lakehouse) -> None:
    k3: Any = lake.k3
    k3.create_bucket("b")
    columns = [{"name": name, "type": "COLUMN_TYPE_STRING"} for name in ("select", "group")]
    key = {"name": "order", "type": "COLUMN_TYPE_LONG"}
    k3.create_table("b", "k", columns=[key, *columns], merge_keys=["order"], partition_columns=["group"])
    k3.insert("b", "k", [{"order": 1, "select": "a", "group": "g"}, {"order": 2, "select": "b", "group": "h"}])
    k3.merge("b", "k", [{"order": 1, "select": "c", "group": "g"}])
    k3.update("b", "k", {"select": "z"}, '"order" = 2')
    k3.compact("b", "k")
    k3.execute("b", "UPDATE k SET \"select\" = 'q' WHERE \"group\" = 'h'")
    k3.delete_rows("b", "k", "\"select\" = 'q'")
    k3.optimize("b", "k", z_order_columns=["order"])
    answer = k3.execute("b", 'SELECT "order", "select" FROM k', "FRESHNESS_STRONG")
    assert answer["rows"] == [{"order": 1, "select": "c"}]


def test_a_load_falls_into_the_column_of_its_name(lake: Lakehouse, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,order,select\n1,7,x\n")
    run(lake, 'CREATE SHARED TABLE loaded (id INT PRIMARY KEY, "order" INT, "select" TEXT)')
    lake.load("n.loaded", str(tmp_path / "a.csv"))
    assert rows(lake, 'SELECT "order", "select" FROM loaded') == [(7, "x")]


@pytest.mark.slow
def test_an_upload_falls_into_the_column_of_its_name_where_there_is_one(lake: Lakehouse) -> None:
    run(lake, "CREATE SHARED TABLE filed FROM TEMPLATE csv WITH (GLOBS = '*.csv')")
    upload_to(place(lake), {"a.csv": "id,order\n1,7\n"})
    lake.ingest("n.filed")
    assert rows(lake, "SELECT id, order_1 FROM filed") == [(1, 7)]
    run(lake, 'ALTER TABLE filed DROP COLUMN order_1; ALTER TABLE filed ADD COLUMN "order" BIGINT')
    upload_to(place(lake), {"b.csv": "id,order\n2,8\n"})
    lake.ingest("n.filed")
    assert rows(lake, 'SELECT id, "order" FROM filed ORDER BY id') == [(1, None), (2, 8)]
