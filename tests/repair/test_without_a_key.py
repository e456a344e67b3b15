"""Repairs of a table without a key: a row stands for itself alone, and comes back only if its commit is known."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakewarden import Column, Lakehouse
from tests.fixtures.bucket import AnyPath, path_of

LOG = "app.log"


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    """Three direct writes, of which the last one's commit was torn."""
    with Lakehouse.open(warehouse_uri) as opened:
        opened.create_namespace("app")
        table = opened.create_table(LOG, type="SHARED", columns=[Column("id", "BIGINT")], primary_key=[])
        for number in range(3):
            table.direct.append([pa.table({"id": pa.array([number, number], pa.int64())})])
        (_place(opened) / "_delta_log" / f"{3:020d}.json").write_bytes(b"")
        yield opened


def _place(lake: Lakehouse) -> AnyPath:
    return path_of(lake.warehouse.uri) / "data" / "app" / "log"


def _ids(lake: Lakehouse) -> list[int]:
    return sorted(row["id"] for row in lake.table(LOG).read().to_pylist())


def test_all_rows_come_back_where_the_manifest_names_the_files(lake: Lakehouse) -> None:
    (repaired,) = lake.repair(LOG)
    assert (repaired.rows_recovered, repaired.rows_lost, _ids(lake)) == (2, 0, [0, 0, 1, 1, 2, 2])
    assert all(finding.passed for finding in lake.check())
    lake.table(LOG).direct.append([pa.table({"id": pa.array([9], pa.int64())})])
    assert _ids(lake) == [0, 0, 1, 1, 2, 2, 9]


def test_rows_whose_commit_is_not_known_are_set_apart(lake: Lakehouse) -> None:
    (_place(lake) / "manifest.json").unlink()
    (repaired,) = lake.repair(LOG)
    assert (repaired.rows_recovered, repaired.rows_quarantined, repaired.rows_lost, _ids(lake)) == (0, 2, None, [0, 0, 1, 1])
    assert [path.name for path in (_place(lake) / "_quarantine").rglob("rows-*.parquet")] != []
    assert all(finding.passed for finding in lake.check())
