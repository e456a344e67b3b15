"""Checkpoints made on a copy: the same as delta-rs's own, enough without the commits, and none of what was fenced."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.checkpoint import is_due, write_checkpoint
from lakewarden.delta.lifecycle.fence import fence
from lakewarden.delta.replay.log_objects import LAST_CHECKPOINT, checkpoint_name, commit_name
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import alone
from tests.delta.scopes import APP, by, flush, people, rows_of, table_of, target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.disk


def _flushed(scope: ScopeTarget, versions: range) -> None:
    """Appends and replaces in turn."""
    for number in versions:
        flush(scope, people(number % 3, 10 + number, name=f"v{number}-"), first_seq=2 * number)


def _checkpointed(at: Path) -> ScopeTarget:
    """Two checkpoints, the later one made from the first."""
    scope = target(at)
    _flushed(scope, range(4))
    write_checkpoint(scope.location, 3)
    _flushed(scope, range(4, 8))
    write_checkpoint(scope.location, 7)
    return scope


def _columns(at: Path, version: int) -> list[str]:
    return pq.read_schema(at / checkpoint_name(version)).names


def _actions(at: Path, version: int) -> list[dict[str, Any]]:
    rows = pq.read_table(at / checkpoint_name(version)).to_pylist()
    return sorted(({name: said for name, said in row.items() if said is not None} for row in rows), key=repr)


def _without_commits(at: Path, versions: range) -> None:
    for version in versions:
        (at / commit_name(version)).unlink()


def test_they_say_what_delta_rs_says(tmp_path: Path) -> None:
    _checkpointed(tmp_path / "t")
    shutil.copytree(tmp_path / "t", tmp_path / "theirs", ignore=shutil.ignore_patterns("*checkpoint*"))
    DeltaTable(tmp_path / "theirs").create_checkpoint()
    assert _actions(tmp_path / "t", 7) == _actions(tmp_path / "theirs", 7)
    assert {*_columns(tmp_path / "theirs", 7)} - {*_columns(tmp_path / "t", 7)} == {"sidecar"}


def test_they_are_all_that_a_reader_needs(tmp_path: Path) -> None:
    scope = _checkpointed(tmp_path / "t")
    rows, state = rows_of(scope), table_of(scope).state(APP)
    _without_commits(tmp_path / "t", range(8))
    assert (rows_of(scope), table_of(scope).state(APP), table_of(scope).next_batch()) == (rows, state, 8)
    hint = json.loads(open_store(scope.location).get(LAST_CHECKPOINT))
    assert [field["name"] for field in hint["checkpointSchema"]["fields"]] == _columns(tmp_path / "t", 7)
    assert (hint["version"], hint["sizeInBytes"]) == (7, (tmp_path / "t" / checkpoint_name(7)).stat().st_size)


def test_spark_reads_them(tmp_path: Path, spark: SparkSession) -> None:
    scope = _checkpointed(tmp_path / "t")
    rows = rows_of(scope)
    _without_commits(tmp_path / "t", range(7))  # Spark asks for the commit of the checkpoint itself
    found = spark.read.format("delta").load(scope.uri).select("id", "name").orderBy("id").collect()
    assert [row.asDict() for row in found] == rows


def test_a_fenced_table_gets_none(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    _flushed(scope, range(4))
    (tmp_path / "t" / commit_name(2)).write_bytes(b"")
    (tmp_path / "t" / commit_name(3)).write_bytes(b"")
    write_checkpoint(scope.location, 3)
    assert not (tmp_path / "t" / LAST_CHECKPOINT).exists()


def test_a_later_checkpoint_stays(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    _flushed(scope, range(4))
    assert alone(fence(scope, by("CL-1"))) == 4
    names = open_store(scope.location).keys()
    write_checkpoint(scope.location, 3)
    assert open_store(scope.location).keys() == names


def test_one_that_came_behind_a_fence_is_removed_again(tmp_path: Path) -> None:
    scope = _checkpointed(tmp_path / "t")
    store = open_store(scope.location)

    def fenced_before_its_checkpoint(step: str) -> None:
        if step == "after-commit":
            alone(fence(scope, by("CL-1")))
            store.replace(checkpoint_name(8), b"secret")
            store.replace(LAST_CHECKPOINT, b'{"version": 8, "size": 1}')

    flush(scope, people(1, name="secret"), first_seq=16, reach=fenced_before_its_checkpoint)
    assert (rows_of(scope), table_of(scope).version) == ([], 9)
    assert not any(b"secret" in store.get(name) for name in store.keys(""))


@pytest.mark.parametrize("lacking", ["room", "checkpoint"])
def test_delta_rs_makes_what_cannot_be_made_here(tmp_path: Path, lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scope = _checkpointed(tmp_path / "t")
    _flushed(scope, range(8, 9))
    if lacking == "room":
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    else:
        open_store(scope.location).replace(LAST_CHECKPOINT, b'{"version": 5, "size": 1}')
    write_checkpoint(scope.location, 8)
    assert "sidecar" in _columns(tmp_path / "t", 8)
    assert len(rows_of(scope)) == 12


def test_due_as_delta_rs_counts() -> None:
    assert [version for version in range(12) if is_due(version, "4")] == [3, 7, 11]
    assert [version for version in range(250) if is_due(version, "")] == [99, 199]
    assert [version for version in range(250) if is_due(version, "0") or is_due(version, "soon")] == [99, 199]
