"""Deletion vectors that another writer left: every operation says one thing, with the way out that works."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import LakewardenError
from lakewarden.maintenance.planning.health import health
from tests.delta.test_foreign import delete_row_by_vector

pytestmark = pytest.mark.disk

_WAY_OUT = "REORG TABLE … APPLY (PURGE)"


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    with Lakehouse.open(warehouse_uri) as opened:
        opened.sql("CREATE NAMESPACE app; CREATE SHARED TABLE app.k (id INT PRIMARY KEY, n INT)")
        opened.sql("INSERT INTO app.k VALUES (1, 1), (2, 2), (3, 3)")
        opened.flush()
        opened.sql("INSERT INTO app.k VALUES (4, 4)")
        opened.flush()
        delete_row_by_vector(opened.table("app.k").reader.target(None), row=1)
        yield opened


def _flush(lake: Lakehouse) -> list[ScopeReport]:
    lake.table("app.k").write([{"id": 1, "n": 7}])
    return lake.flush("app.k")


_ACTS: Mapping[str, Callable[[Lakehouse], list[ScopeReport]]] = {
    "flush": _flush,
    "restore": lambda lake: lake.restore("app.k", version=0, dry_run=False),
    "compact": lambda lake: lake.compact("app.k", dry_run=False),
    "optimize": lambda lake: lake.optimize("app.k", dry_run=False),
    "vacuum": lambda lake: lake.vacuum("app.k", dry_run=False),
}


@pytest.mark.parametrize("act", _ACTS)
def test_each_operation_names_the_way_out_and_changes_nothing(lake: Lakehouse, act: str) -> None:
    files = {path for path in (Path(lake.warehouse.uri) / "data").rglob("*") if path.name != "manifest.json"}
    try:
        lake.check()  # from then on, the state knows it
        said = "; ".join(f"{report.outcome}: {report.reason}" for report in _ACTS[act](lake))
    except LakewardenError as error:
        said = error.message
    assert _WAY_OUT in said
    assert "restore a version" not in said
    assert "done" not in said
    assert files == {path for path in (Path(lake.warehouse.uri) / "data").rglob("*") if path.name != "manifest.json"}


def test_check_status_and_health_name_it(lake: Lakehouse) -> None:
    (failed,) = [finding for finding in lake.check() if not finding.passed]
    assert (failed.check, failed.code) == ("takes_rows", "UNSUPPORTED")
    assert _WAY_OUT in failed.message
    assert [one.table for one in lake.status() if _WAY_OUT in one.reason] == ["app.k"]
    assert [one for table in health(lake.warehouse) for one in table.worst if _WAY_OUT in one.reason]


def test_new_keys_are_flushed_beside_them(lake: Lakehouse) -> None:
    lake.sql("INSERT INTO app.k VALUES (9, 9)")
    assert [report.outcome for report in lake.flush("app.k")] == ["done"]
    assert {*lake.table("app.k").read().column("id").to_pylist()} == {1, 3, 4, 9}
