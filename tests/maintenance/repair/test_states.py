"""Every damaged state: nothing is silent before the repair, and every acknowledged row that has a copy is back behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from deltalake import DeltaTable

from lakewarden.errors import LakewardenError
from tests.fixtures.bucket import path_of
from tests.maintenance.repair.states import HURT, OTHER, STATES, TABLE, Rows, Scene, State

pytestmark = pytest.mark.slow

_OTHERS: Rows = {100: "mine", 101: "mine too"}
_NEW: Rows = {500: "new"}

on_disk = pytest.mark.disk
every_state = pytest.mark.parametrize("state", STATES, ids=lambda state: state.name.replace(" ", "-"))


@pytest.fixture
def damaged(warehouse_uri: str, state: State) -> Iterator[Scene]:
    scene = Scene(path_of(warehouse_uri).parent, state.settings)
    scene.begin()
    scene.write(_OTHERS, OTHER)
    scene.flush()
    state.make(scene)
    yield scene
    for lake in scene.lakes:
        lake.close()


@on_disk
@every_state
def test_every_door_tells(damaged: Scene, state: State) -> None:
    """Each by a process of its own, so that none goes by what another one remembers."""
    said = {name: _said(door, damaged) for name, door in _DOORS.items()}

    assert said == {"read": state.read, "check": state.check, "write": state.write, "flush": state.flush}


@on_disk
@every_state
def test_a_repair_brings_back_what_is_left(damaged: Scene, state: State) -> None:
    _mount(damaged, state)
    before = _contents(damaged)
    planned = damaged.lake().repair(dry_run=True, restored=state.restored)
    assert _without_plans(_contents(damaged)) == before, "a dry run only keeps its plan"

    done = damaged.lake().repair(restored=state.restored)

    told = [(one.scope, one.subject, one.rows_recovered, one.rows_lost) for one in planned]
    assert told == [(one.scope, one.subject, one.rows_recovered, one.rows_lost) for one in done][: len(told)]
    assert len(told) == len(done) or planned[0].subject in ("log", "floor"), "scopes are looked at once these can be read"
    assert not [one for one in done if one.outcome == "failed"], done
    lost = [one.rows_lost for one in done]
    assert (None if None in lost else sum(count or 0 for count in lost)) == state.lost, done
    assert {one.outcome for one in damaged.lake().repair()} == {"skipped"}, "a second one finds nothing"
    _sound(damaged, state.after)
    if state.make.__name__ == "_lost_cut_and_pending":
        assert damaged.read(OTHER) == _OTHERS | {102: "carried"}


@pytest.mark.night
@pytest.mark.parametrize("store", ["minio"], indirect=True)
@pytest.mark.parametrize("state", [state for state in STATES if state.both], ids=lambda state: state.name.replace(" ", "-"))
def test_a_repair_on_an_object_store(damaged: Scene, state: State) -> None:
    test_a_repair_brings_back_what_is_left(damaged, state)


@pytest.mark.parametrize("store", ["minio"], indirect=True)
@pytest.mark.parametrize("gone", ["one", "all"])
def test_a_settled_segment_that_waits_for_its_removal_is_not_missed(warehouse_uri: str, gone: str) -> None:
    """An object store keeps a few of them for a while (`log.objects.clean`). Whichever are lost, with rows pending above them."""
    scene = Scene(path_of(warehouse_uri).parent)
    scene.begin()
    scene.write(_OTHERS, OTHER)
    for key in (1, 2):
        scene.write({key: "a"})
        scene.flush()
    settled = scene.segments()
    assert len(settled) == 3
    scene.write({3: "b"})
    for each in settled[1:2] if gone == "one" else settled:
        each.unlink()

    assert {name: _said(door, scene) for name, door in _DOORS.items() if name in ("read", "check")} == {
        "read": "rows",
        "check": "passes",
    }
    assert {one.outcome for one in scene.lake().repair()} == {"skipped"}
    _sound(scene, {1: "a", 2: "a", 3: "b"})
    for lake in scene.lakes:
        lake.close()


def _mount(scene: Scene, state: State) -> None:
    if state.item == 3:
        scene.put_back(scene.root / f"backup-{scene.cold.name}", scene.cold)


def _sound(scene: Scene, after: Rows) -> None:
    """Rows, writes, flushes, checks and other Delta readers agree."""
    assert _OTHERS.items() <= scene.read(OTHER).items()
    assert scene.read() == after
    scene.write(_NEW)
    scene.flush()
    assert scene.read() == after | _NEW
    cold = {row["id"]: row["text"] for row in DeltaTable(str(scene.scope())).to_pyarrow_table().to_pylist()}
    assert cold == after | _NEW
    assert not [finding for finding in scene.lake().check() if not finding.passed]


def _read(scene: Scene) -> str:
    return "rows" if scene.read() is not None else ""


def _write(scene: Scene) -> str:
    scene.write(_NEW)
    return "taken"


def _flush(scene: Scene) -> str:
    faults = [report.fault for report in scene.lake().flush(TABLE) if report.scope.user in (HURT, None) and report.fault]
    return faults[0].code if faults else "done"


def _check(scene: Scene) -> str:
    wrong = [finding for finding in scene.lake().check() if not finding.passed]
    return wrong[0].code if wrong else "passes"


_DOORS: dict[str, Callable[[Scene], str]] = {"read": _read, "check": _check, "write": _write, "flush": _flush}
"""Those that change nothing first."""


def _said(door: Callable[[Scene], str], scene: Scene) -> str:
    try:
        return door(scene)
    except LakewardenError as error:
        return error.code


def _without_plans(contents: dict[str, bytes]) -> dict[str, bytes]:
    return {key: data for key, data in contents.items() if "/_lakewarden/plans/" not in key}


def _contents(scene: Scene) -> dict[str, bytes]:
    """Every object but those of the lock."""
    found = sorted(str(path) for path in scene.root.rglob("*") if path.is_file())
    return {name: path_of(name).read_bytes() for name in found if "/.tmp/" not in name and "/catalog/" not in name}
