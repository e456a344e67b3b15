"""What a power cut leaves at the top of a Delta log, state by state: what readers see, and what is refused."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lakewarden.base.connection import Location
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.damage import LogDamage, damage_of
from lakewarden.delta.lifecycle.fence import fence, fence_settled
from lakewarden.delta.replay.log_objects import LAST_CHECKPOINT, checkpoint_name, commit_name
from lakewarden.errors import Corrupt, NotFound
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import alone
from tests.delta.scopes import APP, by, flush, people, rows_of, table_of, target
from tests.fixtures.minio import MinioServer
from tests.maintenance.steps import compact, data_files, optimize, restore, vacuum

_NEWEST = 12
_CHECKPOINT = 9


def _made(path: Path) -> ScopeTarget:
    """Thirteen versions of a row each, with a checkpoint."""
    scope = target(path / "t")
    for number in range(_NEWEST + 1):
        flush(scope, people(number), first_seq=number)
    return scope


def _file(scope: ScopeTarget, name: str) -> Path:
    return Path(scope.uri) / name


def _cut(name: str, keep: int, zeros: int = 0) -> Callable[[ScopeTarget], None]:
    """Keeps this many bytes of a file; as many zeros as a block that was never written follow."""

    def damage(scope: ScopeTarget) -> None:
        path = _file(scope, name)
        path.write_bytes(path.read_bytes()[:keep] + bytes(zeros))

    return damage


def _gone(name: str) -> Callable[[ScopeTarget], None]:
    return lambda scope: _file(scope, name).unlink()


def _leading_nowhere(scope: ScopeTarget) -> None:
    _file(scope, LAST_CHECKPOINT).write_text('{"version": 99, "size": 1}')


_TORN: dict[str, Callable[[ScopeTarget], None]] = {
    "empty": _cut(commit_name(_NEWEST), 0),
    "cut off": _cut(commit_name(_NEWEST), 300),
    "zeros": _cut(commit_name(_NEWEST), 0, zeros=900),
    "cut off, then zeros": _cut(commit_name(_NEWEST), 300, zeros=600),
}


@pytest.mark.parametrize("state", _TORN)
def test_a_torn_newest_commit_is_taken_for_none_and_nothing_goes_on_top(tmp_path: Path, state: str) -> None:
    scope = _made(tmp_path)
    _TORN[state](scope)
    table = table_of(scope)
    assert (table.version, table.watermark(APP), table.torn) == (_NEWEST - 1, _NEWEST - 1, _NEWEST)
    assert rows_of(scope) == people(*range(_NEWEST))
    assert damage_of(scope.location) == LogDamage(torn=(_NEWEST,))
    before = data_files(scope)
    for operation in (
        lambda: flush(scope, people(77), first_seq=77),
        lambda: compact(scope),
        lambda: optimize(scope),
        lambda: restore(scope, 3),
        lambda: vacuum(scope, days=9),
        lambda: alone(fence(scope, by("DR-1"))),
    ):
        with pytest.raises(Corrupt, match=rf"version {_NEWEST}, is torn: .* before lakewarden repair has put it aside"):
            operation()
    assert data_files(scope) == before, "nothing was written that nobody will name"
    with pytest.raises(NotFound, match=f"has no version {_NEWEST}: the newest is {_NEWEST - 1}"):
        table_of(scope, _NEWEST)


def test_several_torn_commits_and_a_torn_checkpoint_among_them(tmp_path: Path) -> None:
    scope = _made(tmp_path)
    for version in (10, 11, 12):
        _cut(commit_name(version), 100)(scope)
    _cut(checkpoint_name(_CHECKPOINT), 2000)(scope)
    assert (table_of(scope).version, table_of(scope).torn) == (9, 10)
    assert rows_of(scope) == people(*range(10))
    assert damage_of(scope.location) == LogDamage((10, 11, 12), (checkpoint_name(_CHECKPOINT),))


def test_a_torn_commit_whose_checkpoint_is_whole_is_torn_all_the_same(tmp_path: Path) -> None:
    scope = _made(tmp_path)
    for version in (10, 11, 12):
        _gone(commit_name(version))(scope)
    _cut(commit_name(_CHECKPOINT), 0)(scope)
    assert (table_of(scope).version, table_of(scope).torn) == (8, 9)


def test_a_torn_first_commit_is_no_table_and_no_place_for_one(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    _cut(commit_name(0), 0)(scope)
    before = data_files(scope)
    with pytest.raises(AssertionError):
        table_of(scope)
    assert damage_of(scope.location) == LogDamage(torn=(0,))
    with pytest.raises(Corrupt, match="version 0, is torn"):
        flush(scope, people(2))
    assert data_files(scope) == before


@pytest.mark.slow
def test_what_is_torn_is_erased_whole(tmp_path: Path) -> None:
    for name, damage in (_TORN | {"first": _cut(commit_name(0), 0)}).items():
        scope = target(tmp_path / name)
        for number in range(1 if name == "first" else _NEWEST + 1):
            flush(scope, people(number), first_seq=number)
        damage(scope)
        assert alone(fence_settled(scope, 99, by("ER-1"), lambda: None)) == 0
        assert (rows_of(scope), table_of(scope).watermark(APP), data_files(scope)) == ([], 99, set())


def test_emptied_commits_below_a_fence_are_not_torn(tmp_path: Path) -> None:
    scope = _made(tmp_path)
    version = alone(fence(scope, by("DR-1")))
    assert _file(scope, commit_name(3)).stat().st_size == 0
    assert (table_of(scope).version, table_of(scope).torn) == (version, None)
    assert not damage_of(scope.location)
    flush(scope, people(1), first_seq=50)
    assert rows_of(scope) == people(1)


# Checkpoints


@dataclass(frozen=True)
class _Bad:
    """How a checkpoint is damaged, and what is said of it."""

    damage: Callable[[ScopeTarget], None]
    said: tuple[str, ...]


_BAD = {
    "empty": _Bad(_cut(checkpoint_name(_CHECKPOINT), 0), (checkpoint_name(_CHECKPOINT),)),
    "cut off": _Bad(_cut(checkpoint_name(_CHECKPOINT), 3000), (checkpoint_name(_CHECKPOINT),)),
    "zeros": _Bad(_cut(checkpoint_name(_CHECKPOINT), 4, zeros=9000), (checkpoint_name(_CHECKPOINT),)),
    "missing": _Bad(_gone(checkpoint_name(_CHECKPOINT)), (LAST_CHECKPOINT,)),
    "never there": _Bad(_leading_nowhere, (LAST_CHECKPOINT,)),
}


@pytest.mark.slow
@pytest.mark.parametrize("state", _BAD)
def test_a_checkpoint_that_cannot_be_read_is_passed_over(tmp_path: Path, state: str) -> None:
    scope = _made(tmp_path)
    _BAD[state].damage(scope)
    assert damage_of(scope.location) == LogDamage(checkpoints=_BAD[state].said)
    assert (table_of(scope).version, table_of(scope).torn) == (_NEWEST, None)
    assert len(rows_of(scope, 10)) == 11
    for number in range(_NEWEST + 1, 21):  # behind the next checkpoint, all is well again
        flush(scope, people(number), first_seq=number)
        assert table_of(scope).watermark(APP) == number
    assert rows_of(scope) == people(*range(21))
    assert not damage_of(scope.location)


def test_no_copy_of_the_log_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scope = _made(tmp_path)
    _BAD["empty"].damage(scope)
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    table = table_of(scope)
    assert table.watermark(APP) == _NEWEST
    assert list(copies.iterdir()) == []


def test_without_the_commits_that_a_bad_checkpoint_stood_for_it_is_corrupt(tmp_path: Path) -> None:
    scope = _made(tmp_path)
    _BAD["cut off"].damage(scope)
    _gone(commit_name(4))(scope)
    with pytest.raises(Corrupt):
        table_of(scope)


def test_a_fence_on_top_of_a_bad_checkpoint_has_its_own(tmp_path: Path) -> None:
    scope = _made(tmp_path)
    _BAD["zeros"].damage(scope)
    version = alone(fence(scope, by("DR-1")))
    assert (table_of(scope).version, rows_of(scope)) == (version, [])
    assert not damage_of(scope.location)


@pytest.mark.slow
def test_the_log_does_not_expire_for_a_checkpoint_that_cannot_be_read(tmp_path: Path) -> None:
    whole, bad = _made(tmp_path / "whole"), _made(tmp_path / "bad")
    _BAD["zeros"].damage(bad)
    for scope in (whole, bad):
        vacuum(scope, days=40, hours=0)
    assert not _file(whole, commit_name(3)).exists()
    assert _file(bad, commit_name(3)).exists()
    for scope in (whole, bad):
        assert rows_of(scope) == people(*range(_NEWEST + 1))


def test_a_lost_checkpoint_in_a_bucket_is_passed_over(minio: MinioServer, request: pytest.FixtureRequest) -> None:
    scope = replace(target(Path("unused")), location=Location(f"{minio.prefix_for(request.node.name)}/chat/people/u_1"))
    for number in range(12):
        flush(scope, people(number), first_seq=number)
    open_store(scope.location).delete([checkpoint_name(9)])
    assert rows_of(scope) == people(*range(12))
    assert damage_of(scope.location) == LogDamage(checkpoints=(LAST_CHECKPOINT,))
    for number in range(12, 20):
        flush(scope, people(number), first_seq=number)
    assert rows_of(scope) == people(*range(20))
    assert not damage_of(scope.location)
