"""Of a scope with very many files the manifest has a summary, and a version is known to the process that made it alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from lakewarden.base.clock import system_clock
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.kept_versions import KEPT_VERSIONS
from lakewarden.delta.manifest import refresh_manifest
from lakewarden.delta.scope import open_scope
from tests.delta.commit_log.test_attacks import _agrees, _flush, _named, _rows, _stranger, _swept, _text
from tests.delta.commit_log.test_signature import KEY
from tests.delta.scopes import table_of, target
from tests.fixtures.bucket import AnyPath

pytestmark = pytest.mark.both_stores


@pytest.fixture
def scope(tmp_path: AnyPath, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScopeTarget]:
    monkeypatch.setattr("lakewarden.delta.manifest.MOST_LISTED", 2)
    found = replace(target(tmp_path / "t"), manifest_key=KEY)
    yield found
    KEPT_VERSIONS.forget(KEY)


def _files(scope: ScopeTarget, *firsts: int) -> None:
    """A file with each flush."""
    for first in firsts:
        _flush(scope, first, 10 * first, 10 * first + 1)


def _is_known(scope: ScopeTarget) -> bool:
    found = open_scope(scope)
    return found is not None and found.is_kept


def test_the_manifest_counts_what_it_does_not_list(scope: ScopeTarget) -> None:
    _files(scope, 0, 10)
    assert len(json.loads(_text(scope))["segments"]) == 2
    _files(scope, 20)
    found = json.loads(_text(scope))
    assert found.keys().isdisjoint({"segments", "snapshot", "mac"})
    assert (found["summary"]["segments"], found["summary"]["row_count"], found["delta_version"]) == (3, 6, 2)
    _flush(scope, 30, 0, 100, 200)  # in place of all three
    assert len(json.loads(_text(scope))["segments"]) == 1
    remembered = KEPT_VERSIONS.get(KEY)
    assert remembered is None or (remembered.version, len(remembered.files)) == (3, 1)


def test_of_more_files_than_a_process_keeps_the_statistics_are_not_gathered(
    scope: ScopeTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakewarden.delta.table_contents.MOST_KEPT", 3)
    _files(scope, 0, 10, 20)
    assert _is_known(scope)
    _files(scope, 30)
    assert _is_known(scope), "a table of three files was kept, and what follows from it"
    _files(scope, 40)
    assert not _is_known(scope)
    assert table_of(scope).snapshot(scope.app_id).stats is None
    _flush(scope, 50, 0, 100, 200)
    assert json.loads(_text(scope))["delta_version"] == 5
    _agrees(scope)


def test_a_summary_is_not_written_again(scope: ScopeTarget) -> None:
    _files(scope, 0, 10, 20)
    assert not refresh_manifest(scope, table_of(scope), system_clock())


def test_who_made_the_version_knows_it_and_others_open_it(scope: ScopeTarget) -> None:
    _files(scope, 0, 10, 20, 30)
    assert _is_known(scope)
    _agrees(scope)
    KEPT_VERSIONS.forget(KEY)
    assert not _is_known(scope)
    _files(scope, 40)
    assert _is_known(scope)
    assert _rows(scope) == {
        id_: name for first in range(0, 50, 10) for id_, name in _named(first, 10 * first, 10 * first + 1).items()
    }


def _begun_again(scope: ScopeTarget) -> None:
    _swept(scope)
    _files(scope, 100, 110, 120)


@pytest.mark.parametrize("event", [lambda scope: _stranger(scope, 7), lambda scope: _files(scope, 100), _swept, _begun_again])
def test_what_is_remembered_is_looked_at(scope: ScopeTarget, event: Callable[[ScopeTarget], None]) -> None:
    """A stranger's commit, another process's, a sweep, and a new start of equal length."""
    _files(scope, 0, 10, 20)
    old = KEPT_VERSIONS.get(KEY)
    assert old is not None
    event(scope)
    KEPT_VERSIONS.put(KEY, old, 3)
    before = _rows(scope) if event is not _swept else {}
    _flush(scope, 200, 1)
    assert _rows(scope) == before | _named(200, 1)
    _agrees(scope)
