"""A state that is deleted, half deleted or replaced by an older one while flushes and maintenance run: right again by itself."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import CompactionSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.floor import floor_at
from lakewarden.maintenance.plans.select import QUIET
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore
from tests.fixtures.children import ended, start
from tests.fixtures.lakes import NOTES, Rows, eventual, make_notes, notes, strong

SETTINGS = Settings(compaction=CompactionSettings(min_eligible_segments=2))
USERS = ("ann", "bob", "cyd", "dee")
FAMILIES = ("known", "whole", "totals")

Kept = dict[str, bytes]


def _keys(state: ObjectStore) -> list[str]:
    return [found.key for family in FAMILIES for found in state.list(family)]


def _copy(state: ObjectStore) -> Kept:
    """What is there; objects that are merged meanwhile are left out."""
    kept: Kept = {}
    for key in _keys(state):
        with suppress(Missing):
            kept[key] = state.get(key)
    return kept


def _all(state: ObjectStore, old: Kept) -> None:  # noqa: ARG001  # as the others
    state.delete(_keys(state))


def _half(state: ObjectStore, old: Kept) -> None:  # noqa: ARG001
    state.delete(_keys(state)[::2])


def _older(state: ObjectStore, old: Kept) -> None:
    state.delete([key for key in _keys(state) if key not in old])
    for key, data in old.items():
        with suppress(AlreadyThere):
            state.create(key, data)


def _new_process(state: ObjectStore, old: Kept) -> None:  # noqa: ARG001
    floor_at.cache_clear()


LOSSES = (_all, _half, _older, _new_process)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "turns", "seed"),
    [("disk", 10, 1), *(pytest.param(*more, marks=pytest.mark.slow) for more in [("disk", 10, 2), ("minio", 5, 3)])],
)
@pytest.mark.disk  # the store is a parameter of this test
def test_a_state_is_lost_while_everything_runs(request: pytest.FixtureRequest, place: str, turns: int, seed: int) -> None:
    uri = request.getfixturevalue("warehouse_uri" if place == "disk" else "s3_warehouse_uri")
    chance, expected = random.Random(seed), {user: Rows() for user in USERS}
    with (
        Lakehouse.open(uri, settings=SETTINGS) as lake,
        Lakehouse.open(uri, settings=SETTINGS) as other,
        Lakehouse.open(uri, settings=SETTINGS) as third,
        ThreadPoolExecutor(4) as pool,
    ):
        table, state, old = make_notes(lake), lake.warehouse.state, Kept()
        for turn in range(turns):
            for user in chance.sample(USERS, 3):
                rows = dict.fromkeys(chance.sample(range(8), 2), f"{turn}")
                table.write(notes(rows), user=user)
                expected[user] |= rows
            acts: list[Callable[[], object]] = [lake.flush, other.compact, lambda: third.vacuum(dry_run=False), other.overview]
            running = [pool.submit(act) for act in acts]
            chance.choice(LOSSES)(state, old)
            chance.choice(LOSSES)(state, old)
            found = [one.result() for one in running]
            assert _faults(found) <= {"CONFLICT"}
            assert {user: strong(table, user) for user in USERS} == expected
            if turn % 4 == 0:
                old = _copy(state)
        lake.flush()
        _right_again(lake)
        assert {user: eventual(table, user) for user in USERS} == expected


ACTS: dict[str, Callable[[Lakehouse], object]] = {
    "flush": lambda lake: lake.flush(),
    "compact": lambda lake: lake.compact(),
    "vacuum": lambda lake: lake.vacuum(dry_run=False),
}


def _works(uri: str, act: str) -> None:
    """What another process does meanwhile."""
    with Lakehouse.open(uri, settings=SETTINGS) as lake:
        for _ in range(8):
            assert _faults([ACTS[act](lake)]) <= {"CONFLICT"}


@pytest.mark.slow
@pytest.mark.parametrize(("place", "seed"), [("disk", 1), pytest.param("minio", 3, marks=pytest.mark.night)])
@pytest.mark.disk
def test_a_state_is_lost_while_other_processes_work(request: pytest.FixtureRequest, place: str, seed: int) -> None:
    """Each knows what it read before, and nothing of what the others did."""
    uri = request.getfixturevalue("warehouse_uri" if place == "disk" else "s3_warehouse_uri")
    chance, expected, losses = random.Random(seed), {user: Rows() for user in USERS}, 0
    with Lakehouse.open(uri, settings=SETTINGS) as lake:
        table, state, old = make_notes(lake), lake.warehouse.state, Kept()
        children = [start(_works, uri, act) for act in ("flush", "flush", "compact", "vacuum")]
        while any(child.is_alive() for child in children):
            for user in chance.sample(USERS, 2):
                rows = dict.fromkeys(chance.sample(range(8), 2), f"{losses}")
                table.write(notes(rows), user=user)
                expected[user] |= rows
            chance.choice(LOSSES[:3])(state, old)
            losses += 1
            old = _copy(state) if losses % 4 == 0 else old
        assert [ended(child) for child in children] == [0, 0, 0, 0]
        assert {user: strong(table, user) for user in USERS} == expected
        assert losses > 2, "the processes were done too soon for anything to be lost"
        lake.flush()
        _right_again(lake)
        assert {user: eventual(table, user) for user in USERS} == expected


def _faults(results: list[object]) -> set[str]:
    reports = [one for result in results if isinstance(result, list) for one in result]
    return {one.fault.code for one in reports if isinstance(one, ScopeReport) and one.fault}


def _right_again(lake: Lakehouse) -> None:
    """Two runs open what they have to, and a third one nothing, though each scope is as a look finds it."""
    for _ in range(2):
        assert _faults([lake.compact(), lake.vacuum()]) == set()
    looked = {report.scope.user for report in lake.compact(look=True, dry_run=True) if report.outcome == "planned"}
    assert looked == set()
    assert all(QUIET in report.metrics for report in lake.compact())
    (table,) = lake.overview().tables
    assert (table.scopes, table.scopes_unknown) == (len(USERS), 0)


@pytest.mark.disk
@pytest.mark.parametrize("process", ["same", "new"])
def test_an_older_state_does_not_take_an_erased_user_for_lost(warehouse_uri: str, process: str) -> None:
    with Lakehouse.open(warehouse_uri, settings=SETTINGS) as lake:
        table = make_notes(lake)
        for turn in range(3):
            table.write(notes({turn: "before"}), user="ann")
            lake.flush()
        old = _copy(lake.warehouse.state)
        lake.erase("ann")
        _older(lake.warehouse.state, old)
        if process == "new":
            floor_at.cache_clear()
        table.write(notes({9: "after"}), user="ann")
        assert _faults([lake.flush(), lake.compact()]) == set()
        assert strong(table, "ann") == eventual(table, "ann") == {9: "after"}
        assert {report.fault for report in lake.compact(NOTES, look=True)} == {None}
