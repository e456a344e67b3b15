"""The same room on an object store: tables, races, manifests, history and fences in a bucket."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lakewarden.base.connection import Location
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.lifecycle.fence import fence
from lakewarden.delta.reading.history import history
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, Corrupt, LakewardenError, NotFound
from lakewarden.storage.meter import metered
from lakewarden.storage.objects import Missing
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


def test_opening_costs_what_is_behind_the_checkpoint(scope: ScopeTarget) -> None:
    """Over a cycle of ten commits: a listing, the checkpoint, and each commit behind it; its own commit tells its digest."""
    requests = []
    for number in range(20):
        flush(scope, people(number), first_seq=number)
        if number < 10:
            continue
        with metered() as account:
            table = table_of(scope)
            assert (table.version, table.watermark(APP), len(table.files()), bool(table.digest)) == (
                number,
                number,
                number + 1,
                True,
            )
        requests.append(sum(many for kind, many in account.total().items() if kind.isupper()))
    behind = [*range(1, 10), 0]  # a checkpoint is written with every tenth commit
    assert all(made <= 3 + commits for made, commits in zip(requests, behind, strict=True)), requests
    assert sum(requests) <= 70


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
    assert all(name.startswith("_delta_log/") for name in open_store(scope.location).keys(""))
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
