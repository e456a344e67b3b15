"""A data file with its size and other bytes: a repair finds it where a check did, or where the table is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakewarden.base.settings import Settings
from lakewarden.maintenance.repair.report import RepairReport
from tests.fixtures.bucket import AnyPath
from tests.maintenance.repair.states import FORGOTTEN, KEPT, OTHER, TABLE, Rows, Scene

pytestmark = pytest.mark.disk


@pytest.fixture(params=[KEPT, FORGOTTEN], ids=["kept", "forgotten"])
def scene(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    settings: Settings = request.param
    scene = Scene(tmp_path, settings)
    scene.begin()
    scene.write({1: "mine"}, OTHER)
    scene.write({1: "a"})
    scene.flush()
    scene.write({2: "b"})
    scene.flush()
    yield scene
    for lake in scene.lakes:
        lake.close()


def _garble(path: AnyPath) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4] + bytes(byte ^ 0x55 for byte in data[4:60]) + data[60:])


def _newest(scene: Scene) -> AnyPath:
    return next(path for path in scene.data_files() if path.name.startswith("batch-1-"))


def _whole_warehouse(scene: Scene) -> list[RepairReport]:
    assert not all(one.passed for one in scene.lake().check())
    return scene.lake().repair()


def _named(scene: Scene) -> list[RepairReport]:
    return scene.lake().repair(TABLE)


@pytest.mark.slow
@pytest.mark.parametrize("repair", [_whole_warehouse, _named])
def test_a_garbled_file_is_replaced_by_what_is_left(scene: Scene, repair: Callable[[Scene], list[RepairReport]]) -> None:
    _garble(_newest(scene))
    kept = scene.settings is KEPT
    (done,) = (one for one in repair(scene) if one.outcome == "done")
    assert "garbled" in done.reason
    assert (done.rows_recovered, done.rows_lost) == ((1, 0) if kept else (0, 1))
    right: Rows = {1: "a", 2: "b"} if kept else {1: "a"}
    assert (scene.read(), scene.read(OTHER)) == (right, {1: "mine"})
    assert all(one.passed for one in scene.lake().check())
    assert all(one.outcome == "skipped" for one in scene.lake().repair(TABLE))


def test_a_warehouse_without_findings_is_not_read(scene: Scene) -> None:
    _garble(_newest(scene))
    assert all(one.outcome == "skipped" for one in scene.lake().repair())
