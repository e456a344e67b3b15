"""Commits that we write by ourselves: whole or not there, one writer a version, and readable by everybody."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, TableFeatures
from deltalake.transaction import AddAction

from lakewarden.base.clock import random_id
from lakewarden.base.connection import Location
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log import publish as publishing
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.commit_log.committing import TooLate
from lakewarden.delta.commit_log.publish import publish, unnamed_commit, version_of_unnamed
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.lifecycle.fence import fence
from lakewarden.delta.reading.history import history
from lakewarden.delta.replay.log_objects import commit_name
from lakewarden.errors import Conflict, StorageUnavailable
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import alone
from tests.delta.scopes import APP, PEOPLE, at, by, flush, people, rows_of, schema, table_of, target
from tests.delta.test_foreign import delete_row_by_vector


def _held() -> None:
    """Nobody else has gone on."""


def _commit(path: Path, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / commit_name(version)).read_text().splitlines()]


def _info(path: Path, version: int) -> dict[str, Any]:
    info: dict[str, Any] = next(action["commitInfo"] for action in _commit(path, version) if "commitInfo" in action)
    return info


def _hidden(path: Path) -> list[str]:
    return [found.name for found in (path / "_delta_log").iterdir() if found.name.startswith(".")]


def test_every_commit_of_a_plain_table_is_ours_and_delta_rs_reads_it(tmp_path: Path) -> None:
    wider = schema("id BIGINT NOT NULL", "name TEXT", "more DOUBLE", version=2)
    scope, evolved = target(tmp_path / "t"), target(tmp_path / "t", PEOPLE, wider)
    flush(scope, people(1, 2))
    flush(scope, people(2, name="new"), first_seq=2)
    flush(evolved, [{"id": 3, "name": "n3", "more": 0.5}], first_seq=3)
    alone(table_of(evolved).commit(CommitChange(CommitStamp("J", "MOVE")), properties={"lakewarden.a": "b c"}, **at()))
    theirs = DeltaTable(scope.uri)
    assert (theirs.version(), theirs.transaction_version(APP)) == (3, 3)
    assert sorted(theirs.to_pyarrow_table().select(["id", "name", "more"]).to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "name": "n1", "more": None},
        {"id": 2, "name": "new2", "more": None},
        {"id": 3, "name": "n3", "more": 0.5},
    ]
    assert theirs.metadata().configuration["lakewarden.a"] == "b c"
    alone(table_of(evolved).empty(stamp=CommitStamp("J", "DROP"), **at()))
    assert table_of(evolved).version == 4
    assert DeltaTable(scope.uri).file_uris() == []
    engines = [_info(tmp_path / "t", version)["engineInfo"] for version in range(5)]
    assert all(engine.startswith("Lakewarden/") for engine in engines), engines
    assert [entry.operation for entry in history(scope)] == ["DROP", "MOVE", "WRITE", "MERGE", "WRITE"]
    assert [entry.read_version for entry in history(scope)] == [3, 2, 1, 0, 0]


def test_delta_rs_goes_on_with_what_we_wrote_and_we_with_what_it_wrote(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    for number in range(12):  # a checkpoint among them
        flush(scope, people(number, 1), first_seq=2 * number)
    DeltaTable(scope.uri).delete("id = 5")
    DeltaTable(scope.uri).optimize.compact()
    flush(scope, people(7, name="new"), first_seq=24)
    assert _info(tmp_path / "t", table_of(scope).version)["engineInfo"].startswith("Lakewarden/")
    expected = {**{row["id"]: row["name"] for row in people(*range(12))}, 7: "new7"}
    expected.pop(5)
    assert {row["id"]: row["name"] for row in rows_of(scope)} == expected


@pytest.mark.parametrize("name", ["delta.appendOnly", "delta.dataSkippingNumIndexedCols"])
def test_a_commit_to_a_table_that_asks_something_of_writers_is_ours_and_keeps_it(tmp_path: Path, name: str) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    value = "3" if name.endswith("Cols") else "true"
    DeltaTable(scope.uri).alter.set_table_properties({name: value})
    flush(scope, people(2), first_seq=1)
    alone(table_of(scope).commit(CommitChange(CommitStamp("J", "MOVE")), properties={"lakewarden.a": "b"}, **at()))
    assert _info(tmp_path / "t", 2)["engineInfo"].startswith("Lakewarden/")
    assert DeltaTable(scope.uri).metadata().configuration[name] == value
    assert rows_of(scope) == people(1, 2)


def test_a_constraint_and_features_of_theirs_stay(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    DeltaTable(scope.uri).alter.add_constraint({"positive": "id > 0"})
    DeltaTable(scope.uri).alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    before = DeltaTable(scope.uri).protocol()
    assert before.writer_features
    flush(scope, people(2), first_seq=1)
    alone(
        table_of(scope).commit(CommitChange(CommitStamp("J", "MOVE")), properties={"delta.enableChangeDataFeed": "true"}, **at())
    )
    after = DeltaTable(scope.uri)
    assert (after.protocol().min_reader_version, after.protocol().min_writer_version) == (3, 7)
    assert {*(after.protocol().writer_features or ())} == {*before.writer_features, "changeDataFeed"}
    assert after.metadata().configuration["delta.constraints.positive"] == "id > 0"
    flush(scope, people(2, name="new"), first_seq=2)
    assert _info(tmp_path / "t", table_of(scope).version)["engineInfo"].startswith("Lakewarden/")
    assert {row["_change_type"] for row in _changes(scope)} == {"update_preimage", "update_postimage"}


def _changes(scope: ScopeTarget) -> list[dict[str, Any]]:
    """What the newest commit's change files say."""
    found = (action["cdc"]["path"] for action in _commit(Path(scope.uri), table_of(scope).version) if "cdc" in action)
    return [row for path in found for row in pq.read_table(Path(scope.uri) / path).to_pylist()]


def test_what_others_named_is_removed_under_its_name_and_with_its_vector(tmp_path: Path) -> None:
    """The name as the log spells it, because readers compare spellings; the vector, because a file without it is another."""
    scope = target(tmp_path / "t")
    flush(scope, people(1, 2))
    pq.write_table(pa.table({"id": [500], "name": ["odd"]}), tmp_path / "t" / "odd name%.parquet")
    delta = DeltaTable(scope.uri)
    delta.create_write_transaction([AddAction("odd name%.parquet", 1, {}, 1, True, "{}")], "append", delta.schema())
    delete_row_by_vector(scope, row=0)
    adds = [action["add"] for version in (1, 2) for action in _commit(tmp_path / "t", version) if "add" in action]
    assert len(rows_of(scope)) == 2
    alone(table_of(scope).empty(stamp=CommitStamp("J", "DROP"), **at()))
    removes = [action["remove"] for action in _commit(tmp_path / "t", 3) if "remove" in action]
    named = [[(each["path"], each.get("deletionVector")) for each in several] for several in (adds, removes)]
    assert sorted(named[0], key=repr) == sorted(named[1], key=repr)
    assert (rows_of(scope), table_of(scope).files(), DeltaTable(scope.uri).file_uris()) == ([], (), [])


def test_of_many_writers_of_one_version_one_wins(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    barrier, won, lost = threading.Barrier(8), [], []

    def write(number: int) -> None:
        barrier.wait()
        try:
            alone(publish(scope.location, 1, b'{"commitInfo":{"n":%d}}\n' % number, _held))
            won.append(number)
        except Conflict:
            lost.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 7)
    assert _info(tmp_path / "t", 1) == {"n": won[0]}
    assert _hidden(tmp_path / "t") == []


def test_a_commit_that_never_got_its_name_is_none(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    left = tmp_path / "t" / unnamed_commit(1, random_id())
    left.write_bytes(b'{"add":{"path":"x.parquet","stats":"secret"}}\n{"cut')
    assert version_of_unnamed(f"_delta_log/{left.name}") == 1
    flush(scope, people(2), first_seq=1)
    assert (table_of(scope).version, rows_of(scope)) == (1, people(1, 2))
    assert DeltaTable(scope.uri).version() == 1
    later = tmp_path / "t" / unnamed_commit(4, random_id())
    later.write_bytes(b"of one who began anew on the fence")
    assert alone(fence(scope, by("CL-1"))) == 2
    assert _hidden(tmp_path / "t") == [later.name], "it holds values of columns"


def test_who_finds_the_directory_gone_makes_no_log_anew(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    with pytest.raises(Conflict, match="another commit came between"):
        alone(publish(scope.location, 3, b"{}\n", _held))
    assert not (tmp_path / "t").exists()


def test_who_slept_before_the_name_asks_whether_somebody_has_gone_on(tmp_path: Path) -> None:
    scope, gone_on = target(tmp_path / "t"), [False]

    def still() -> None:
        if gone_on[0]:
            raise TooLate("it was planned long ago")

    work = publish(scope.location, 0, b"{}\n", still)
    assert next(work) == scope.uri
    gone_on[0] = True
    with pytest.raises(TooLate):
        next(work)
    assert list((tmp_path / "t" / "_delta_log").iterdir()) == []


# An object store


class _Losing:
    """A store that loses the answer of a creation, before or behind which somebody else's happens."""

    def __init__(self, store: ObjectStore, *, arrives: bool, others: bytes | None) -> None:
        self._store, self._arrives, self._others = store, arrives, others

    def create(self, key: str, data: bytes) -> None:
        if self._others is not None:
            self._store.create(key, self._others)
        elif self._arrives:
            self._store.create(key, data)
        raise StorageUnavailable("the answer was lost")

    def get(self, key: str) -> bytes:
        return self._store.get(key)


@contextmanager
def _losing(patch: pytest.MonkeyPatch, *, arrives: bool = False, others: bytes | None = None) -> Iterator[None]:
    def open_losing(location: Location) -> ObjectStore:
        losing: Any = _Losing(open_store(location), arrives=arrives, others=others)
        return losing  # type: ignore[no-any-return]

    with patch.context() as here:
        here.setattr(publishing, "open_store", open_losing)
        yield


@pytest.fixture
def remote() -> ScopeTarget:
    return target(f"memory://publish/{random_id()}")  # type: ignore[arg-type]


def test_a_commit_whose_answer_was_lost_counts_if_it_is_there(remote: ScopeTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    with _losing(monkeypatch, arrives=True):
        alone(publish(remote.location, 0, b"ours", _held))
    assert open_store(remote.location).get(commit_name(0)) == b"ours"


def test_a_commit_whose_answer_was_lost_and_that_is_not_there_may_still_arrive(
    remote: ScopeTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _losing(monkeypatch), pytest.raises(StorageUnavailable, match="the answer was lost"):
        alone(publish(remote.location, 0, b"ours", _held))


def test_a_commit_whose_answer_was_lost_and_whose_name_is_taken_has_lost(
    remote: ScopeTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _losing(monkeypatch, others=b"theirs"), pytest.raises(Conflict):
        alone(publish(remote.location, 0, b"ours", _held))
    with pytest.raises(Conflict):
        alone(publish(remote.location, 0, b"ours", _held))
    assert open_store(remote.location).get(commit_name(0)) == b"theirs"
