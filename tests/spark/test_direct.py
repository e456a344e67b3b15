"""UPDATE and DELETE past the log on a table with many bytes: tasks of Spark change its files, and no reader sees a difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import FlushSettings, SqlSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import ConstraintViolation, InvalidArgument, Unsupported
from lakewarden.sql.results import AffectedRows, StatementDone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_COLUMNS = "(id INT, day INT, text TEXT, author TEXT NOT NULL DEFAULT CURRENT_USER()) PARTITION BY (day)"
_TABLES = f"""
CREATE NAMESPACE app;
CREATE SHARED TABLE app.sales {_COLUMNS};
CREATE SHARED TABLE app.same {_COLUMNS};
CREATE SHARED TABLE app.wanted (id INT);
INSERT INTO app.wanted VALUES (3), (14), (33);
"""
_STATEMENTS = (
    "UPDATE app.sales SET text = text || id, author = DEFAULT WHERE day <> 4 AND id % 3 = 0",
    "DELETE FROM app.sales WHERE id IN (SELECT id FROM app.wanted) OR day = 2",
    "UPDATE app.sales AS s SET day = s.day + 10 WHERE s.id < 8",
    "UPDATE app.sales SET text = 'gone' WHERE id = 1000",
)


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    """Three appends to six partitions."""
    with Lakehouse.open(warehouse_uri) as opened:
        opened.sql(_TABLES)
        for start in (0, 20, 40):
            for name in ("sales", "same"):
                query = f"SELECT id, id % 6, 't' FROM range({start}, {start + 20}) AS r(id)"
                opened.sql(f"INSERT INTO app.{name} (id, day, text) {query}")
        yield opened


@pytest.fixture
def large(lake: Lakehouse, spark: SparkSession) -> Iterator[Lakehouse]:
    """The same where every table has many bytes."""
    settings = Settings(flush=FlushSettings(large_scope_bytes=1))
    with Lakehouse.open(lake.warehouse.uri, settings=settings, spark=lambda: spark) as opened:
        yield opened


def rows(lake: Lakehouse, table: str) -> list[tuple[object, ...]]:
    found = lake.table(table).read().select(["id", "day", "text", "author"]).to_pylist()
    return sorted((tuple(row.values()) for row in found), key=str)


def test_statements_do_the_same_in_tasks(lake: Lakehouse, large: Lakehouse) -> None:
    for text in _STATEMENTS:
        (here,) = lake.sql(text.replace("app.sales", "app.same"))
        (there,) = large.sql(text)
        assert isinstance(here, AffectedRows)
        assert isinstance(there, AffectedRows)
        assert there.rows == here.rows, text
        assert rows(large, "app.sales") == rows(lake, "app.same")
    assert not [finding for finding in large.check() if not finding.passed]


def test_a_value_that_does_not_fit_in_a_task_changes_nothing_and_leaves_no_file(large: Lakehouse) -> None:
    before = rows(large, "app.sales")
    with pytest.raises(ConstraintViolation, match="'id'"):
        large.sql("UPDATE app.sales SET id = id::BIGINT * 100000000 WHERE day < 9")
    assert rows(large, "app.sales") == before
    assert not [finding.message for finding in large.check() if "no commit names" in finding.message]


_COPIES = (
    "INSERT INTO app.{} (id, day, text) SELECT id + 100, day, upper(text) FROM app.source WHERE day < 4",
    "INSERT INTO app.{} (day, id) SELECT day, id FROM app.source WHERE id % 2 = 0",
    "INSERT INTO app.{} SELECT * FROM app.{} WHERE id > 50",
    "INSERT OVERWRITE app.{} (id, day, text) SELECT id * 2::DECIMAL(5,1), 7, 'x' FROM app.source AS s WHERE s.id < 30",
    "INSERT OVERWRITE app.{} (id, day, text) SELECT id, day, text FROM app.{} WHERE id < 40",
)


@pytest.fixture
def source(lake: Lakehouse) -> Lakehouse:
    lake.sql("CREATE SHARED TABLE app.source AS SELECT id, day, text FROM app.sales")
    return lake


def test_rows_of_a_query_are_the_same_when_tasks_write_them(
    source: Lakehouse, large: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in _COPIES:
        (here,) = source.sql(text.format("same", "same"))
        with monkeypatch.context() as nothing_here:
            nothing_here.setattr("lakewarden.sql.queries.select.run", _must_not_run)
            (there,) = large.sql(text.format("sales", "sales"))
        assert isinstance(here, AffectedRows)
        assert isinstance(there, AffectedRows)
        assert (there.rows, there.strategy) == (here.rows, here.strategy), text
        assert rows(large, "app.sales") == rows(source, "app.same")
    assert rows(source, "app.same")
    assert not [finding for finding in large.check() if not finding.passed]


def test_a_table_is_made_of_what_tasks_write(source: Lakehouse, large: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT id::BIGINT * 3 AS triple, day, text FROM app.source WHERE text = 't'"
    source.sql(f"CREATE SHARED TABLE app.here PARTITION BY (day) AS {query}")
    monkeypatch.setattr("lakewarden.sql.queries.select.run", _must_not_run)
    (done,) = large.sql(f"CREATE SHARED TABLE app.there PARTITION BY (day) AS {query}")
    assert isinstance(done, StatementDone)
    assert done.message == "table app.there created with 60 rows"
    monkeypatch.undo()
    here, there = (source.table(name).read() for name in ("app.here", "app.there"))
    assert here.select(["triple", "day", "text"]).sort_by("triple") == there.select(["triple", "day", "text"]).sort_by("triple")


@pytest.mark.parametrize("statement", ["INSERT INTO", "INSERT OVERWRITE"])
def test_a_row_that_does_not_fit_in_a_task_leaves_nothing(source: Lakehouse, large: Lakehouse, statement: str) -> None:
    before = rows(source, "app.sales")
    with pytest.raises(ConstraintViolation, match="'id'"):
        large.sql(f"{statement} app.sales (id, day) SELECT id::BIGINT * 100000000, day FROM app.source")
    with pytest.raises(InvalidArgument, match="2 values are given for 1 columns"):
        large.sql(f"{statement} app.sales (id) SELECT id, day FROM app.source")
    assert rows(large, "app.sales") == before
    assert not [finding.message for finding in large.check() if "no commit names" in finding.message]


def test_a_result_above_its_bound_lands(source: Lakehouse, spark: SparkSession) -> None:
    settings = Settings(flush=FlushSettings(large_scope_bytes=1), sql=SqlSettings(result_bytes=1024))
    source.sql("INSERT INTO app.source SELECT id, day, repeat('y', 500) FROM app.sales")
    with Lakehouse.open(source.warehouse.uri, settings=settings, spark=lambda: spark) as opened:
        with pytest.raises(Unsupported, match=r"sql\.result_bytes"):
            opened.sql("SELECT * FROM app.source")
        before = len(rows(source, "app.sales"))
        (done,) = opened.sql("INSERT INTO app.sales (id, day, text) SELECT id, day, text FROM app.source")
        assert isinstance(done, AffectedRows)
        assert done.rows == 120
    assert len(rows(source, "app.sales")) == before + 120


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, day FROM app.source ORDER BY id LIMIT 3",
        "SELECT max(id), day FROM app.source GROUP BY day",
        "SELECT s.id, w.id FROM app.source s JOIN app.wanted w ON s.id = w.id",
        "SELECT DISTINCT 1, day FROM app.source",
        "SELECT unnest([1, 2, id]), day FROM app.source",
        "SELECT id, day FROM app.source UNION ALL SELECT 1, 2",
    ],
)
def test_what_does_not_go_row_by_row_is_computed_here(source: Lakehouse, large: Lakehouse, query: str) -> None:
    (here,) = source.sql(f"INSERT INTO app.same (id, day) {query}")
    (there,) = large.sql(f"INSERT INTO app.sales (id, day) {query}")
    assert isinstance(here, AffectedRows)
    assert isinstance(there, AffectedRows)
    assert there.rows == here.rows > 0
    assert rows(large, "app.sales") == rows(source, "app.same")


def test_rows_of_a_table_with_a_key_are_taken_with_those_that_are_pending(lake: Lakehouse, large: Lakehouse) -> None:
    lake.sql("CREATE SHARED TABLE app.keyed (id INT PRIMARY KEY, day INT); INSERT INTO app.keyed VALUES (1, 1), (2, 2)")
    lake.flush("app.keyed")
    lake.sql("INSERT INTO app.keyed VALUES (3, 3); DELETE FROM app.keyed WHERE id = 1")
    for _ in range(2):
        large.sql("INSERT OVERWRITE app.sales (id, day) SELECT id, day FROM app.keyed")
        assert [row[:2] for row in rows(large, "app.sales")] == [(2, 2), (3, 3)]
        lake.flush("app.keyed")  # the second time its files alone say which rows live


def _must_not_run(*_: object) -> None:
    raise AssertionError("the query was computed in this process")
