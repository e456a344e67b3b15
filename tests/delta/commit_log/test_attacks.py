"""Whatever is kept of a scope, and however wrong it is, nothing is lost, doubled or brought back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakewarden.base.clock import HELD_AT_MOST, CarriedClock, random_id, system_clock
from lakewarden.base.connection import Location
from lakewarden.base.faults import Reach, no_faults
from lakewarden.catalog.state.floor_entries import KnownState
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.apply import ColdApply
from lakewarden.delta.commit_log import kept_versions
from lakewarden.delta.commit_log.checkpoint import write_checkpoint
from lakewarden.delta.commit_log.committing import Committer
from lakewarden.delta.commit_log.kept_versions import KEPT_VERSIONS, NAME, YOUNG, is_current, kept_snapshot, verified
from lakewarden.delta.lifecycle.fence import fence
from lakewarden.delta.manifest import refresh_manifest
from lakewarden.delta.replay.log_objects import commit_name
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, Corrupt
from lakewarden.maintenance.vacuum.sweep import sweep_fence
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import alone
from tests.delta.commit_log.test_signature import KEY
from tests.delta.scopes import hot, people, remember, rows_of, target
from tests.fixtures.bucket import AnyPath

pytestmark = pytest.mark.both_stores

Rows = dict[int, str]


class Died(BaseException):
    """The process was killed here."""


@pytest.fixture
def scope(tmp_path: AnyPath) -> Iterator[ScopeTarget]:
    found = replace(target(tmp_path / "t"), manifest_key=KEY)
    yield found
    KEPT_VERSIONS.forget(found.manifest_key)


def _place(scope: ScopeTarget) -> ObjectStore:
    return open_store(scope.location)


def _text(scope: ScopeTarget) -> bytes:
    return _place(scope).get(NAME)


def _know(scope: ScopeTarget, text: bytes | None) -> None:
    """Makes this all that is known of the scope."""
    KEPT_VERSIONS.forget(scope.manifest_key)
    if text is None:
        _place(scope).delete([NAME])
    else:
        if (path := local_path(scope.uri)) is not None:
            path.mkdir(exist_ok=True)
        _place(scope).replace(NAME, text)


def _cold(scope: ScopeTarget, reach: Reach = no_faults, *, newest: bool) -> ColdApply:
    return ColdApply(scope, Committer("FL-1", system_clock(), system_clock), new_id=random_id, reach=reach, newest=newest)


def _flush(scope: ScopeTarget, first_seq: int, *ids: int, reach: Reach = no_faults) -> None:
    """A flush as a job makes it: the first try relies on what is known, the others look for what is newest."""
    rows = hot(scope.schema, people(*ids, name=f"s{first_seq}-"), first_seq)
    for attempt in range(5):
        cold = _cold(scope, reach, newest=attempt > 0)
        watermark = cold.watermark()
        if watermark is not None and watermark >= first_seq + len(ids) - 1:
            return
        with suppress(Conflict):
            alone(cold.commit(rows, first_seq + len(ids) - 1))
            return
    raise AssertionError("no attempt succeeded")


def _rows(scope: ScopeTarget) -> Rows:
    """As delta-rs finds them."""
    rows = rows_of(scope)
    assert len({row["id"] for row in rows}) == len(rows), "one row per key"
    return {row["id"]: row["name"] for row in rows}


def _named(first_seq: int, *ids: int) -> Rows:
    return {id_: f"s{first_seq}-{id_}" for id_ in ids}


def _stranger(scope: ScopeTarget, id_: int) -> None:
    columns = pa.table({"id": pa.array([id_]), "name": ["theirs"], "_seq": pa.array([None], pa.int64())})
    deltalake.write_deltalake(scope.uri, columns, mode="append")


def _by() -> Committer:
    return Committer("D-1", system_clock(), system_clock)


def _swept(scope: ScopeTarget) -> None:
    alone(fence(scope, _by()))
    assert alone(sweep_fence(scope.location, system_clock() + timedelta(days=1), _by(), lambda: None)) == "gone"


def _agrees(scope: ScopeTarget) -> None:
    """What is opened is what the log says."""
    found, there = open_scope(scope), ScopeTable.open(scope.location)
    assert (found is None) == (there is None)
    if found is None or there is None:
        return
    assert found.version == there.version
    assert found.digest == there.digest
    assert found.watermark(scope.app_id) == there.watermark(scope.app_id)
    assert [file._replace(schema_version=None) for file in found.files()] == list(there.files())


# What a flush needs


def test_a_flush_that_knows_its_scope_opens_nothing(scope: ScopeTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    _flush(scope, 0, 1, 2)

    def opened(location: Location, version: int | None = None) -> None:
        raise AssertionError(f"{location} was opened, at version {version}")

    monkeypatch.setattr("lakewarden.delta.table.replay", opened)
    for number in range(1, 5):
        _flush(scope, 10 * number, 1, 10 + number)
        KEPT_VERSIONS.forget(scope.manifest_key)
    found = open_scope(scope)
    assert found is not None
    assert (found.is_kept, found.version, found.next_batch()) == (True, 4, 5)
    monkeypatch.undo()
    _agrees(scope)
    assert _rows(scope) == _named(0, 2) | _named(10, 11) | _named(20, 12) | _named(30, 13) | _named(40, 1, 14)


def test_what_is_kept_of_a_strangers_commit_is_used_next(scope: ScopeTarget) -> None:
    _flush(scope, 0, 1)
    _stranger(scope, 7)
    _flush(scope, 10, 2)
    found = open_scope(scope)
    assert found is not None
    assert found.is_kept
    _agrees(scope)
    _flush(scope, 20, 7)
    assert _rows(scope) == _named(0, 1) | _named(10, 2) | _named(20, 7)


def test_a_table_that_lists_features_of_others_is_not_kept(scope: ScopeTarget) -> None:
    _flush(scope, 0, 1)
    theirs = deltalake.DeltaTable(scope.uri)
    theirs.alter.add_feature(deltalake.TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    _agrees(scope)
    table = ScopeTable.open(scope.location)
    assert table is not None
    refresh_manifest(scope, table, system_clock())
    assert b'"mac"' not in _text(scope)
    for number in (1, 2):
        _flush(scope, 10 * number, number)
        found = open_scope(scope)
        assert found is not None
        assert not found.is_kept
        assert b'"mac"' not in _text(scope)
    assert _rows(scope) == _named(10, 1) | _named(20, 2)


# What is kept is wrong


@pytest.mark.parametrize("stale", range(4))
def test_stale(scope: ScopeTarget, stale: int) -> None:
    texts = []
    for number in range(4):
        _flush(scope, 10 * number, number, number + 1)
        texts.append(_text(scope))
    _know(scope, texts[stale])
    _agrees(scope)
    _flush(scope, 50, 1)
    assert _rows(scope) == _named(0, 0) | _named(50, 1) | _named(20, 2) | _named(30, 3, 4)
    _agrees(scope)


def test_stale_in_memory_and_fresh_in_the_store(scope: ScopeTarget) -> None:
    _flush(scope, 0, 1)
    old = _text(scope)
    _flush(scope, 10, 2)
    remember(scope, old)
    _agrees(scope)
    remember(scope, old)
    _flush(scope, 20, 1)
    assert _rows(scope) == _named(10, 2) | _named(20, 1)


def test_truncated_broken_or_gone(scope: ScopeTarget) -> None:
    _flush(scope, 0, 1)
    whole = _text(scope)
    for number, text in enumerate((whole[:-1], whole[: len(whole) // 2], b"", b"{}", whole[1:], None), start=1):
        _know(scope, text)
        _agrees(scope)
        _flush(scope, 10 * number, number)
    assert _rows(scope) == {number: f"s{10 * number}-{number}" for number in range(1, 7)}


def test_forged_without_the_key(scope: ScopeTarget) -> None:
    _flush(scope, 0, 1)
    _know(scope, _text(scope).replace(b'"row_count":1', b'"row_count":7'))
    found = open_scope(scope)
    assert found is not None
    assert not found.is_kept
    assert found.state(scope.app_id).rows == 1


def test_of_another_scope(scope: ScopeTarget, tmp_path: AnyPath) -> None:
    """Its key follows from its place, its log and its user."""
    other = replace(target(tmp_path / "other"), manifest_key=KEY[::-1])
    _flush(scope, 0, 1)
    _flush(other, 0, 2)
    _know(scope, _text(other))
    _agrees(scope)
    _flush(scope, 10, 3)
    assert _rows(scope) == _named(0, 1) | _named(10, 3)


def test_of_another_commit_of_the_same_version(scope: ScopeTarget) -> None:
    _flush(scope, 0, 1)
    _flush(scope, 10, 2)
    old = _text(scope)
    _swept(scope)
    _flush(scope, 100, 3)
    _flush(scope, 110, 4)
    _know(scope, old)
    _agrees(scope)
    _flush(scope, 120, 5)
    assert _rows(scope) == _named(100, 3) | _named(110, 4) | _named(120, 5)


@pytest.mark.parametrize("flushes", [0, 1, 2, 3])
def test_from_before_an_erasure(scope: ScopeTarget, flushes: int) -> None:
    """The fence is on top, or was swept and the scope started again, with fewer versions, as many, or more."""
    _flush(scope, 0, 1)
    _flush(scope, 10, 2)
    old = _text(scope)
    alone(fence(scope, _by()))
    _know(scope, old)
    _agrees(scope)
    sweep_by = system_clock() + timedelta(days=1)
    alone(sweep_fence(scope.location, sweep_by, _by(), lambda: None))
    expected: Rows = {}
    for number in range(flushes):
        _flush(scope, 100 + 10 * number, number)
        expected |= _named(100 + 10 * number, number)
    _know(scope, old)
    _agrees(scope)
    _flush(scope, 200, 9)
    assert _rows(scope) == expected | _named(200, 9)


def test_data_that_is_older_than_what_is_kept(scope: ScopeTarget) -> None:
    """As after a restore of the data alone: opened, the table is older than it was known to be."""
    _flush(scope, 0, 1)
    _flush(scope, 10, 2)
    _place(scope).delete([commit_name(1)])
    KEPT_VERSIONS.forget(scope.manifest_key)
    _agrees(scope)
    knowing = replace(scope, known=KnownState(1, 10, 2))
    assert kept_snapshot(knowing, newest=False) is None


def test_more_is_known_than_what_is_kept(scope: ScopeTarget) -> None:
    _flush(scope, 0, 1)
    old = _text(scope)
    _flush(scope, 10, 2)
    _know(scope, old)
    assert kept_snapshot(replace(scope, known=KnownState(1, 0, 2)), newest=False) is None
    assert kept_snapshot(replace(scope, known=KnownState(0, 10, 2)), newest=False) is None


# The log has expired


def _expired(scope: ScopeTarget, versions: int) -> bytes:
    """A table of so many versions with a checkpoint of the last one; returns what was kept of version 1."""
    for number in range(versions):
        _flush(scope, 10 * number, number)
        if number == 1:
            old = _text(scope)
    write_checkpoint(scope.location, versions - 1, in_place=True)
    return old


def test_below_a_checkpoint(scope: ScopeTarget) -> None:
    old = _expired(scope, 4)
    for gone in range(3):  # ascending, as log expiry deletes
        _place(scope).delete([commit_name(gone)])
        _know(scope, old)
        _agrees(scope)
        _flush(scope, 100 + gone, 10 + gone)
    expected = {number: f"s{10 * number}-{number}" for number in range(4)}
    assert _rows(scope) == expected | _named(100, 10) | _named(101, 11) | _named(102, 12)


def test_an_old_commit_whose_successor_is_gone(scope: ScopeTarget) -> None:
    """Whoever deletes in another order: one listing shows that something is above it."""
    old = verified(_expired(scope, 4), KEY, scope.app_id)
    assert old is not None
    _place(scope).delete([commit_name(2)])
    later = CarriedClock(system_clock() + 2 * YOUNG, system_clock())
    assert not is_current(scope.location, old, newest=False, clock=later)
    earlier = CarriedClock(system_clock() - 2 * YOUNG, system_clock())
    assert not is_current(scope.location, old, newest=True, clock=earlier), "nor by a clock that is slow"


@pytest.mark.parametrize("log", ["interval 0 days", "interval 1 hours", "interval 1 week"])
def test_a_stranger_who_keeps_the_log_for_less_and_is_cleaning_it(scope: ScopeTarget, log: str) -> None:
    """In any order: what was kept is of a commit that is there and young, and what came above it is in a checkpoint alone."""
    _flush(scope, 0, 1)
    deltalake.DeltaTable(scope.uri).alter.set_table_properties({"delta.logRetentionDuration": log})
    _flush(scope, 10, 2)
    old = _text(scope)
    for id_ in (50, 51):
        _stranger(scope, id_)
    write_checkpoint(scope.location, 4, in_place=True)
    _place(scope).delete([commit_name(3)])
    _know(scope, old)
    _agrees(scope)
    _know(scope, old)
    _flush(scope, 20, 3)
    assert _rows(scope) == _named(0, 1) | _named(10, 2) | _named(20, 3) | {50: "theirs", 51: "theirs"}


def test_an_old_commit_that_is_the_last_is_used(scope: ScopeTarget) -> None:
    _expired(scope, 3)
    kept = verified(_text(scope), KEY, scope.app_id)
    assert kept is not None
    assert is_current(scope.location, kept, newest=True, clock=CarriedClock(system_clock() + 2 * YOUNG, system_clock()))


def test_clocks_an_hour_apart(scope: ScopeTarget) -> None:
    _flush(scope, 0, 1)
    kept = verified(_text(scope), KEY, scope.app_id)
    assert kept is not None
    for hours in (-1, 1):
        clock = CarriedClock(system_clock() + timedelta(hours=hours), system_clock())
        assert is_current(scope.location, kept, newest=False, clock=clock)
    assert YOUNG + HELD_AT_MOST + timedelta(hours=1) < 2 * HELD_AT_MOST, "shorter than any fence stays"


# Others come between, or it dies

_STEPS = ("after-read", "after-data-file", "before-link", "after-commit", "after-manifest")


@pytest.mark.parametrize("step", _STEPS)
def test_a_stranger_commits_between_two_steps(scope: ScopeTarget, step: str) -> None:
    _flush(scope, 0, 1)
    came: list[str] = []

    def between(now: str) -> None:
        if now == step and not came:
            came.append(now)
            _stranger(scope, 50)

    _flush(scope, 10, 1, 2, reach=between)
    assert came
    assert _rows(scope) == _named(10, 1, 2) | {50: "theirs"}
    _agrees(scope)
    _flush(scope, 20, 50)
    assert _rows(scope) == _named(10, 1, 2) | _named(20, 50)


@pytest.mark.parametrize("step", _STEPS)
def test_another_flush_comes_between_two_steps(scope: ScopeTarget, step: str) -> None:
    _flush(scope, 0, 1)
    came: list[str] = []

    def between(now: str) -> None:
        if now == step and not came:
            came.append(now)
            _flush(scope, 10, 1, 2)

    _flush(scope, 10, 1, 2, reach=between)
    assert _rows(scope) == _named(10, 1, 2)
    _flush(scope, 20, 3)
    assert _rows(scope) == _named(10, 1, 2) | _named(20, 3)
    _agrees(scope)


@pytest.mark.parametrize("step", _STEPS)
@pytest.mark.parametrize("remembers", [False, True], ids=["new process", "same process"])
def test_it_dies_at_a_step(scope: ScopeTarget, step: str, *, remembers: bool) -> None:
    _flush(scope, 0, 1)

    def dies(now: str) -> None:
        if now == step:
            raise Died

    with pytest.raises(Died):
        _flush(scope, 10, 1, 2, reach=dies)
    if not remembers:
        KEPT_VERSIONS.forget(scope.manifest_key)
    _agrees(scope)
    _flush(scope, 10, 1, 2)
    _flush(scope, 20, 3)
    assert _rows(scope) == _named(10, 1, 2) | _named(20, 3)
    _agrees(scope)


def test_a_fence_comes_between_the_commit_and_what_is_kept_of_it(scope: ScopeTarget) -> None:
    """Nothing of an erased user's values stays beside the fence, nor in memory."""
    _flush(scope, 0, 1)

    def between(now: str) -> None:
        if now == "after-commit":
            alone(fence(scope, _by()))

    _flush(scope, 10, 2, reach=between)
    assert not _place(scope).has(NAME)
    assert KEPT_VERSIONS.get(scope.manifest_key) is None
    _agrees(scope)


@pytest.mark.disk
def test_a_copy_of_a_scope_knows_nothing(scope: ScopeTarget) -> None:
    """Its location is under the MAC, by the key that the warehouse derives for it."""
    _flush(scope, 0, 1)
    copy = replace(scope, location=Location(f"{scope.uri}-copy"), manifest_key=KEY[::-1])
    shutil.copytree(scope.uri, copy.uri)
    assert kept_snapshot(copy, newest=True) is None
    _flush(copy, 10, 2)
    assert (_rows(copy), _rows(scope)) == (_named(0, 1) | _named(10, 2), _named(0, 1))


@pytest.mark.disk
def test_a_torn_commit_above_what_is_kept(scope: ScopeTarget) -> None:
    _flush(scope, 0, 1)
    Path(scope.uri, commit_name(1)).touch()
    found = open_scope(scope)
    assert found is not None
    assert (found.version, found.torn) == (0, 1)
    with pytest.raises(Corrupt, match="torn"):
        _flush(scope, 10, 2)


@pytest.mark.disk
def test_an_old_commit_on_a_disk_is_listed(scope: ScopeTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    _flush(scope, 0, 1)
    listed: list[bool] = []
    last = kept_versions._is_last

    def noted(place: ObjectStore, version: int) -> bool:
        listed.append(True)
        return last(place, version)

    monkeypatch.setattr(kept_versions, "_is_last", noted)
    assert kept_snapshot(scope, newest=True) is not None
    assert not listed
    old = (datetime.now(UTC) - 2 * YOUNG).timestamp()
    os.utime(f"{scope.uri}/{commit_name(0)}", (old, old))
    assert kept_snapshot(scope, newest=True) is not None
    assert listed
