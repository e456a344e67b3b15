"""A sync that fails while a step is done: the step is not acknowledged, or needs nothing of what was lost.

Every sync of every step fails once: of an erasure every fourth, but all with `LAKEWARDEN_CUTS`, as in `make torture`; of steps
of many syncs the gate takes every third. Behind each, the machine crashes and takes what that sync was for; a fresh process must
then find what was acknowledged before, and the step that failed whole or not at all.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

import pytest

from lakewarden.errors import LakewardenError
from tests.crash.inspection import inspect
from tests.crash.losing import LosingDisk
from tests.crash.perform import FACTS, NOTES, SHORT_LIVED, StepFailed, open_lake, perform, prepare
from tests.crash.steps import Expected, ScopeKey, Step

pytestmark = [pytest.mark.disk, pytest.mark.slow]

_SEED = 7
_ANN = ScopeKey(NOTES, "ann")
_BEFORE = [
    Step("write", NOTES, sizes={"ann": {1: 20, 2: 20}, "ben": {1: 20}}),
    Step("write", FACTS, sizes={"": {1: 20, 2: 20}}),
    Step("write", SHORT_LIVED, sizes={"ann": {1: 20}}),
    Step("flush"),
    Step("write", NOTES, sizes={"ann": {2: 20, 3: 20}, "ben": {2: 20}}),
    Step("flush"),
    Step("delete", NOTES, sizes={"ann": {1: 0}}),
    Step("flush"),
    Step("write", NOTES, sizes={"ann": {4: 20}, "cleo": {1: 20}}),
    Step("delete", FACTS, sizes={"": {2: 0}}),
]
_STEPS = {
    "write": Step("write", NOTES, sizes={"ann": {3: 20, 9: 20}, "new": {1: 20}}),
    "delete": Step("delete", NOTES, sizes={"ann": {2: 0, 4: 0}}),
    "flush": Step("flush"),
    "flush of one table": Step("flush", FACTS),
    "compact": Step("compact", NOTES),
    "optimize": Step("optimize", NOTES),
    "vacuum": Step("vacuum"),
    "restore": Step("restore", NOTES, "ann", version=0),
    "restore without what is pending": Step("restore", NOTES, "ann", version=0, discard=True),
    "drop": Step("drop", SHORT_LIVED),
    "erase": Step("erase", NOTES, "ben"),
}
_NUMBER = 100
_SYNCS_AT_MOST = 200
_EVERY = {} if "LAKEWARDEN_CUTS" in os.environ else {"erase": 4}
"""Of the syncs of a step: an erasure has a hundred, of a few kinds."""
_THIRDS = ("flush", "compact", "drop")
"""Steps of which the gate takes every third sync: each has some dozens."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Expected]:
    """A warehouse with three versions of a scope and pending rows, and what is in it."""
    root = tmp_path_factory.mktemp("template") / "lake"
    expected = Expected(prepare(str(root), Random(_SEED)))
    with open_lake(str(root), Random(_SEED)) as lake:
        for number, step in enumerate(_BEFORE):
            expected.apply(number, step, perform(lake, number, step))
    return root, expected


@pytest.mark.parametrize(
    ("name", "every"),
    [
        *(pytest.param(name, 3, id=f"{name}, every third") for name in _THIRDS),
        *(
            pytest.param(name, _EVERY.get(name, 1), id=name, marks=() if name == "write" else pytest.mark.night)
            for name in _STEPS
        ),
    ],
)
def test_a_sync_that_fails_is_never_an_acknowledgement(
    name: str, every: int, template: tuple[Path, Expected], tmp_path: Path
) -> None:
    prepared, before = template
    failures = 0
    for at in range(0, _SYNCS_AT_MOST, every):
        root = tmp_path / f"{at}"
        shutil.copytree(prepared, root)
        disk, expected = LosingDisk(root, at), before.copy()
        left = _tried(disk, expected, _STEPS[name])
        if not disk.failed:
            break
        failures += 1
        disk.crash()
        with open_lake(str(root), Random(_SEED)) as lake:
            found = inspect(lake, root, expected, left)
        assert found.wrong == [], f"sync {at} failed: {disk.what}"
    assert failures > 0


def _tried(disk: LosingDisk, expected: Expected, step: Step) -> dict[int, Step]:
    """The step, if it was not acknowledged."""
    with open_lake(str(disk.root), Random(_SEED)) as lake, disk.failing():
        try:
            versions = perform(lake, _NUMBER, step)
        except (LakewardenError, StepFailed):
            return {_NUMBER: step}
    expected.apply(_NUMBER, step, versions)
    return {}
