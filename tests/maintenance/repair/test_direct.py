"""Repairs of rows that did not come through the log: they come back only if their commit is known."""

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


def test_a_direct_write_on_a_table_with_a_key(lake: Lakehouse) -> None:
    table = lake.create_table("app.keyed", type="SHARED", columns=[Column("id", "BIGINT")], primary_key=["id"])
    table.write([{"id": 1}, {"id": 2}])
    lake.flush("app.keyed")
    table.direct.overwrite([pa.table({"id": pa.array([5, 6], pa.int64())})])
    place = path_of(lake.warehouse.uri) / "data" / "app" / "keyed"
    (place / "_delta_log" / f"{1:020d}.json").write_bytes(b"")
    (repaired,) = lake.repair("app.keyed")
    assert (repaired.rows_recovered, repaired.rows_quarantined, repaired.rows_lost) == (2, 0, 0)
    assert sorted(row["id"] for row in table.read().to_pylist()) == [5, 6]
    (place / "_delta_log" / f"{repaired.version:020d}.json").write_bytes(b"")
    (place / "manifest.json").unlink()
    (again,) = lake.repair("app.keyed")
    assert (again.rows_lost, again.rows) == (None, 0)  # what was overwritten and what was written may each be what there was
    assert again.rows_quarantined == 4
