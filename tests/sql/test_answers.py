"""How queries on one large table say that they were answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewarden import Lakehouse
from lakewarden.sql.results import QueryStrategy, ResultRows, ServedBy
from lakewarden.tables.freshness import Freshness


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path_factory.mktemp("warehouse") / "w")) as opened:
        opened.sql(
            "CREATE NAMESPACE app;"
            "CREATE SHARED TABLE app.parted (id INT PRIMARY KEY, day TEXT NOT NULL) PARTITION BY (day);"
            "CREATE SHARED TABLE app.keyless (id INT);"
            "CREATE SHARED TABLE app.plain (id INT PRIMARY KEY);"
            "CREATE USER TABLE app.mine (id INT PRIMARY KEY);"
            "CREATE VIEW app.seen AS SELECT * FROM parted"
        )
        yield opened


def answer(lake: Lakehouse, text: str, freshness: Freshness | None = None) -> tuple[object, object, object]:
    (rows,) = lake.sql(text, freshness=freshness)
    assert isinstance(rows, ResultRows)
    return rows.strategy, rows.served_by, rows.strategy_reason


@pytest.mark.parametrize("table", ["parted", "keyless", "seen"])
def test_a_query_on_one_large_table_says_how_it_was_answered(lake: Lakehouse, table: str) -> None:
    text = f"SELECT count(*) FROM app.{table}"
    assert answer(lake, text) == (QueryStrategy.UNARY_MERGED_STRONG, ServedBy.MERGED, "")
    alone = (QueryStrategy.UNARY_WAREHOUSE, ServedBy.WAREHOUSE, "")
    small = "it reads 0 bytes, fewer than 67,108,864 (federation.min_bytes)"
    downgraded = (QueryStrategy.FEDERATED_TO_SINGLE, ServedBy.WAREHOUSE, small)
    assert answer(lake, text, "eventual") == (alone if table == "keyless" else downgraded)
    assert answer(lake, text, "oltp_only") == (QueryStrategy.UNSPECIFIED, ServedBy.OLTP, "write-log scan")


def test_a_version_of_the_past_is_in_delta_alone(lake: Lakehouse) -> None:
    past = answer(lake, "SELECT * FROM app.parted VERSION AS OF 0")
    assert past == (QueryStrategy.UNARY_WAREHOUSE, ServedBy.WAREHOUSE, "a version of the past is in Delta alone")
    assert answer(lake, "SELECT * FROM app.parted VERSION AS OF 0", "eventual")[2] == ""


@pytest.mark.parametrize("source", ["app.plain", "app.mine", "app.parted a, app.keyless b", "range(3)", "system.tables"])
def test_any_other_query_does_not(lake: Lakehouse, source: str) -> None:
    assert answer(lake, f"SELECT 1 FROM {source}") == (None, None, None)
