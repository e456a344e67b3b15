"""A checkpoint on an object store is made of the commits that this process saw, and says what one made of the log says."""

from __future__ import annotations

import io
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakewarden.base.connection import Location
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta import table
from lakewarden.delta.commit_log import checkpoint, kept_versions
from lakewarden.delta.commit_log.checkpoint import write_checkpoint
from lakewarden.delta.commit_log.kept_versions import CommitChains
from lakewarden.delta.lifecycle import states
from lakewarden.delta.replay.log_objects import LAST_CHECKPOINT, checkpoint_name, commit_name
from lakewarden.storage.meter import metered
from lakewarden.storage.open import open_store
from tests.delta.scopes import flush, people, rows_of, target
from tests.fixtures.minio import MinioServer


@pytest.fixture
def scope(minio: MinioServer, request: pytest.FixtureRequest) -> ScopeTarget:
    return replace(target(Path("unused")), location=Location(f"{minio.prefix_for(request.node.name)}/chat/people/u_1"))


class Processes:
    """Which process goes on: each has chains of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._chains = {name: CommitChains() for name in "ab"}

    def __call__(self, name: str) -> None:
        for module in (states, table, checkpoint, kept_versions):
            self._monkeypatch.setattr(module, "CHAINS", self._chains[name])


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Processes:
    return Processes(monkeypatch)


def _flushed(scope: ScopeTarget, versions: range, name: str = "") -> None:
    for number in versions:
        flush(scope, people(number % 3, 10 + number, name=f"{name}{number}-"), first_seq=2 * number)


def _checkpointed(scope: ScopeTarget, version: int) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The actions, and the requests that were made for them."""
    with metered() as account:
        write_checkpoint(scope.location, version)
    store = open_store(scope.location)
    rows = pq.read_table(io.BytesIO(store.get(checkpoint_name(version)))).to_pylist()
    store.delete([checkpoint_name(version), LAST_CHECKPOINT])
    said = ({name: each for name, each in row.items() if each is not None} for row in rows)
    return sorted(said, key=repr), {kind: many for kind, many in account.total().items() if kind.isupper()}


def test_commits_that_were_seen_are_not_read_again(scope: ScopeTarget, process: Processes) -> None:
    process("a")
    _flushed(scope, range(8))
    actions, requests = _checkpointed(scope, 7)
    process("b")
    assert _checkpointed(scope, 7) == (actions, requests | {"GET": requests["GET"] + 8}), "another process reads each once"
    _flushed(scope, range(8, 9))
    process("a")
    assert _checkpointed(scope, 8)[1]["GET"] == 1 + 9, "the last commit is another's"
    assert requests["GET"] == 1, "where the last checkpoint is"


@pytest.mark.parametrize("later", [0, 1, 2])
def test_a_log_that_was_begun_again_has_none_of_the_commits_before(scope: ScopeTarget, process: Processes, later: int) -> None:
    """Wherever it was when this process saw the one before it."""
    process("a")
    _flushed(scope, range(4), "before")
    store = open_store(scope.location)
    store.delete(store.keys())
    process("b")
    _flushed(scope, range(3 + later), "after")
    process("a")
    _flushed(scope, range(3 + later, 5 + later), "after")
    mine, _ = _checkpointed(scope, 4 + later)
    process("b")
    assert _checkpointed(scope, 4 + later)[0] == mine
    assert all(str(row["name"]).startswith("after") for row in rows_of(scope))


def test_a_look_begins_a_chain_where_it_reads_another_commit() -> None:
    chains, at, texts = CommitChains(), Location("s3://lake/t"), [b"0", b"1", b"2"]
    digests = [sha256(text).hexdigest() for text in texts]
    names = [commit_name(number) for number in range(3)]
    chains.was_made(at, 0, texts[0], "")
    chains.was_read(at, 0, texts[0], digests[0])
    chains.was_made(at, 1, texts[1], digests[0])
    chains.was_read(at, 1, texts[1], digests[1])
    assert chains.upto(at, 1) == dict(zip(names[:2], texts[:2], strict=True))
    assert chains.upto(at, 0) == chains.upto(Location("s3://lake/other"), 1) == {}
    chains.was_read(at, 1, texts[2], digests[2])
    assert chains.upto(at, 1) == {names[1]: texts[2]}, "the log has another commit there by now"
    for number in range(2, 40):
        before = sha256(chains.upto(at, number - 1)[commit_name(number - 1)]).hexdigest()
        chains.was_made(at, number, str(number).encode(), before)
    assert len(chains.upto(at, 39)) == 20, "of more, a checkpoint is not made"
    chains.was_made(at, 40, bytes(3 << 20), "")
    assert chains.upto(at, 40) == {}, "too large to be kept"
    disk = Location("/lake/t")
    chains.was_made(disk, 0, texts[0], "")
    assert chains.upto(disk, 0) == {}
