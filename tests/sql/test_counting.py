"""The number of rows comes from the commits: no data file is opened where they say it exactly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import FederationSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import Corrupt
from lakewarden.sql.results import QueryStrategy, ResultRows
from lakewarden.tables.freshness import Freshness


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    """Three tables with seven rows each, all of them cold, and without their data files."""
    settings = Settings(federation=FederationSettings(min_bytes=1, part_bytes=1))
    with Lakehouse.open(str(tmp_path / "w"), settings=settings) as lake:
        _fill(lake)
        for file in tmp_path.rglob("data/**/*.parquet"):
            file.unlink()
        yield lake


def _fill(lake: Lakehouse) -> None:
    lake.sql(
        "CREATE NAMESPACE n;"
        "CREATE SHARED TABLE n.keyed (j JSON, id BIGINT PRIMARY KEY);"
        "CREATE SHARED TABLE n.keyless (j JSON, id BIGINT);"
        "CREATE SHARED TABLE n.parted (id BIGINT PRIMARY KEY, day TEXT) PARTITION BY (day)"
    )
    for table, value in (("keyed", "'{}', i"), ("keyless", "'{}', i"), ("parted", "i, 'd' || (i % 3)")):
        lake.sql(f"INSERT INTO n.{table} SELECT {value} FROM range(7) r(i)")
    lake.flush()


def rows(lake: Lakehouse, text: str, freshness: Freshness = "strong") -> ResultRows:
    (found,) = lake.sql(text, freshness=freshness)
    assert isinstance(found, ResultRows)
    return found


@pytest.mark.parametrize("freshness", ["strong", "eventual"])
@pytest.mark.parametrize("table", ["keyed", "keyless", "parted"])
def test_what_only_counts_rows_opens_no_file(lake: Lakehouse, table: str, freshness: Freshness) -> None:
    (row,) = rows(lake, f"SELECT count(*) AS n FROM n.{table}", freshness).to_pylist()
    assert row == {"n": 7}
    assert len(rows(lake, f"SELECT 1 AS one FROM n.{table}", freshness).to_pylist()) == 7
    (row,) = rows(lake, f"SELECT count(*) AS n FROM n.{table} a, n.{table} b", freshness).to_pylist()
    assert row == {"n": 49}
    with pytest.raises(Corrupt):
        rows(lake, f"SELECT count(id) FROM n.{table}", freshness)


def test_a_large_table_is_counted_without_its_partitions(lake: Lakehouse) -> None:
    found = rows(lake, "SELECT count(*) AS n FROM n.parted", "eventual")
    assert (found.strategy, found.to_pylist()) == (QueryStrategy.FEDERATED_AGGREGATE, [{"n": 7}])


def test_pending_rows_are_counted_by_their_keys(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path / "w")) as lake:
        lake.sql("CREATE NAMESPACE n; CREATE SHARED TABLE n.t (id BIGINT PRIMARY KEY, v TEXT)")
        lake.sql("INSERT INTO n.t SELECT i, 'a' FROM range(7) r(i)")
        lake.flush()
        lake.sql("UPDATE n.t SET v = 'b' WHERE id = 3; DELETE FROM n.t WHERE id IN (4, 5); INSERT INTO n.t VALUES (9, 'c')")
        assert rows(lake, "SELECT count(*) AS n FROM n.t").to_pylist() == [{"n": 6}]
        assert rows(lake, "SELECT count(*) AS n FROM n.t", "eventual").to_pylist() == [{"n": 7}]
        assert rows(lake, "SELECT count(*) AS n FROM n.t", "oltp_only").to_pylist() == [{"n": 2}]


def test_a_commit_that_does_not_say_its_rows_is_counted_by_its_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "w")
    with Lakehouse.open(uri) as lake:
        lake.sql("CREATE NAMESPACE n; CREATE SHARED TABLE n.t (id BIGINT); INSERT INTO n.t SELECT * FROM range(7)")
    (commit,) = tmp_path.rglob("data/**/_delta_log/00000000000000000001.json")
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    commit.write_text("\n".join(map(json.dumps, actions)))
    with Lakehouse.open(uri) as lake:
        assert rows(lake, "SELECT count(*) AS n FROM n.t", "eventual").to_pylist() == [{"n": 7}]
