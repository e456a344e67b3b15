"""UPDATE and DELETE past the log on a table with many bytes: tasks of Spark change its files, and no reader sees a difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from lakewarden import Lakehouse
from lakewarden.errors import ConstraintViolation
from lakewarden.settings import FlushSettings, Settings
from lakewarden.sql.results import Affected

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
        assert isinstance(here, Affected)
        assert isinstance(there, Affected)
        assert there.rows == here.rows, text
        assert rows(large, "app.sales") == rows(lake, "app.same")
    assert not [finding for finding in large.check() if not finding.passed]


def test_a_value_that_does_not_fit_in_a_task_changes_nothing_and_leaves_no_file(large: Lakehouse) -> None:
    before = rows(large, "app.sales")
    with pytest.raises(ConstraintViolation, match="'id'"):
        large.sql("UPDATE app.sales SET id = id::BIGINT * 100000000 WHERE day < 9")
    assert rows(large, "app.sales") == before
    assert not [finding.message for finding in large.check() if "no commit names" in finding.message]
