"""Every feature of Delta, and none that Delta has, on a table of ours: a commit keeps it, or is refused by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.features import FEATURES
from lakewarden.delta.lifecycle.fence import fence
from lakewarden.errors import LakewardenError, Unsupported
from lakewarden.storage.steps import alone
from tests.delta.foreign_features import commit
from tests.delta.scopes import at, by, flush, people, table_of, target

_UNKNOWN = ("unheardOf", "adaptiveMetadata-preview", "geospatial")
_READERS = {feature.name for feature in FEATURES if feature.reader}
_KEPT = {feature.name for feature in FEATURES if feature.kept}

_ACTS: Mapping[str, Callable[[ScopeTarget], object]] = {
    "a row that is new": lambda scope: flush(scope, people(7), first_seq=7),
    "a row that is there": lambda scope: flush(scope, people(1, name="new"), first_seq=8),
    "a property": lambda scope: alone(
        table_of(scope).commit(CommitChange(CommitStamp("J", "MOVE")), properties={"lakewarden.a": "b"}, **at())
    ),
    "the same rows": lambda scope: alone(
        table_of(scope).commit(CommitChange(CommitStamp("J", "OPTIMIZE"), data_change=False), **at())
    ),
    "a drop": lambda scope: alone(fence(scope, by("DR-1"))),
}


def _made(path: Path, name: str, *, reads: bool) -> ScopeTarget:
    scope = target(path / "t")
    flush(scope, people(1))
    readers = {"minReaderVersion": 3, "readerFeatures": [name]} if reads else {"minReaderVersion": 1}
    commit(path / "t", {"protocol": {**readers, "minWriterVersion": 7, "writerFeatures": [name]}})
    return scope


def _log(path: Path) -> dict[str, bytes]:
    return {found.name: found.read_bytes() for found in (path / "t" / "_delta_log").iterdir()}


def _data(path: Path) -> set[str]:
    return {found.name for found in (path / "t").glob("*.parquet")}


@pytest.mark.disk
@pytest.mark.parametrize("name", sorted(_KEPT))
def test_what_is_kept_is_listed_behind_every_commit(tmp_path: Path, name: str) -> None:
    scope = _made(tmp_path, name, reads=name in _READERS)
    for did, act in _ACTS.items():
        act(scope)
        theirs = DeltaTable(scope.uri).protocol()
        assert theirs.writer_features == [name], did
        assert theirs.reader_features == ([name] if name in _READERS else None), did
    assert table_of(scope).version == len(_ACTS) + 1
    assert DeltaTable(scope.uri).file_uris() == []


@pytest.mark.disk
@pytest.mark.parametrize("name", [*sorted({feature.name for feature in FEATURES} - _KEPT), *_UNKNOWN])
def test_what_is_not_kept_is_refused_by_its_name_and_changes_nothing(tmp_path: Path, name: str) -> None:
    scope = _made(tmp_path, name, reads=name in _READERS)
    before = _log(tmp_path), _data(tmp_path)
    for act in _ACTS.values():
        with pytest.raises(Unsupported, match=name):
            act(scope)
    assert (_log(tmp_path), _data(tmp_path)) == before


@pytest.mark.disk
@pytest.mark.parametrize(("versions", "said"), [((1, 8), "writer version 8"), ((4, 7), "reader version 4")])
def test_versions_above_those_known_are_refused_by_number(tmp_path: Path, versions: tuple[int, int], said: str) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    reader, writer = versions
    readers: dict[str, object] = {"readerFeatures": []} if reader >= 3 else {}
    commit(
        tmp_path / "t", {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, "writerFeatures": [], **readers}}
    )
    before = _log(tmp_path)
    for act in _ACTS.values():
        with pytest.raises(LakewardenError, match=said):
            act(scope)
    assert _log(tmp_path) == before
