"""The same room on an object store: tables, races, manifests, history and fences in a bucket."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lakewarden.base.connection import Location
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.history import history
from lakewarden.delta.lifecycle.fence import fence
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, Corrupt, LakewardenError, NotFound
from lakewarden.storage.objects import Missing, keys_of
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import alone
from tests.delta.scopes import APP, PEOPLE, by, flush, hot, opened, paths, people, rows_of, table_of, target
from tests.fixtures.minio import MinioServer


@pytest.fixture
def scope(minio: MinioServer, request: pytest.FixtureRequest) -> ScopeTarget:
    return replace(target(Path("unused")), location=Location(f"{minio.prefix_for(request.node.name)}/chat/people/u_1"))


def test_flushes_in_a_bucket(scope: ScopeTarget) -> None:
    assert ScopeTable.open(scope.location) is None
    for number in range(12):
        flush(scope, people(number, 100, name=f"v{number}-"), first_seq=2 * number)
    assert len(rows_of(scope)) == 13
    assert len(rows_of(scope, 0)) == 2
    assert (table_of(scope).watermark(APP), table_of(scope).next_batch()) == (23, 12)
    manifest = json.loads(open_store(scope.location).get("manifest.json"))
    assert {segment["path"] for segment in manifest["segments"]} == paths(scope)
    assert [entry.version for entry in history(scope, limit=3, before_version=11)] == [10, 9, 8]
    with pytest.raises(NotFound, match="the newest is 11"):
        table_of(scope, 12)


def test_of_two_flushes_in_a_bucket_one_wins(scope: ScopeTarget) -> None:
    first, second = opened(scope), opened(scope)
    alone(first.commit(hot(PEOPLE, people(1)), 0))
    with pytest.raises(Conflict):
        alone(second.commit(hot(PEOPLE, people(1)), 0))
    first, second = opened(scope), opened(scope)
    alone(first.commit(hot(PEOPLE, people(1, name="new"), 1), 1))
    with pytest.raises(Conflict):
        alone(second.commit(hot(PEOPLE, people(2), 1), 1))
    assert rows_of(scope) == people(1, name="new")


def test_a_fence_in_a_bucket(scope: ScopeTarget) -> None:
    flush(scope, people(1))
    stale = opened(scope)
    assert alone(fence(scope, by("CL-1"))) == 1
    assert rows_of(scope) == []
    assert all(name.startswith("_delta_log/") for name in keys_of(open_store(scope.location)))
    with pytest.raises(Conflict):
        alone(stale.commit(hot(PEOPLE, people(2), 1), 1))


def test_a_missing_object_and_an_unknown_bucket_are_said(scope: ScopeTarget, minio: MinioServer) -> None:
    flush(scope, people(1))
    (path,) = paths(scope)
    open_store(scope.location).delete([path])
    with pytest.raises(Corrupt, match=path):
        rows_of(scope)
    with pytest.raises(Missing):
        open_store(scope.location).get("nothing")
    with pytest.raises(LakewardenError):
        flush(replace(scope, location=Location(scope.uri.replace(f"//{minio.bucket}/", "//no-such-bucket/"))), people(1))
