"""A dropped scope: empty for every reader, closed to every old snapshot, open to a new start."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakewarden.delta.commit_log.damage import LogDamage, damage_of
from lakewarden.delta.lifecycle.fence import fence, fence_settled
from lakewarden.delta.reading.history import history
from lakewarden.delta.replay.log_objects import LAST_CHECKPOINT
from lakewarden.errors import Conflict
from lakewarden.storage.disk import TEMPORARY
from lakewarden.storage.steps import alone
from tests.delta.scopes import APP, PEOPLE, by, flush, hot, opened, people, rows_of, table_of, target


def test_nothing_of_the_rows_is_left(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    for number in range(13):
        flush(scope, people(number, name="secret"), first_seq=number)
    version = alone(fence(scope, by("CL-1")))
    assert version == 13
    assert (rows_of(scope), table_of(scope).watermark(APP), table_of(scope).version) == ([], 12, 13)
    left = [path for path in (tmp_path / "t").rglob("*") if path.is_file()]
    assert all(path.parent.name == "_delta_log" for path in left)
    assert not any(b"secret0" in path.read_bytes() for path in left)
    assert [entry.operation for entry in history(scope, limit=1)] == ["DROP"]


def test_what_a_killed_writer_left_goes_whatever_its_age(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    left = tmp_path / "t" / TEMPORARY / "left"
    left.parent.mkdir()
    left.write_bytes(b"secret")
    alone(fence(scope, by("CL-1")))
    assert not left.exists()


def test_old_snapshots_are_refused_and_a_new_start_is_taken(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    stale = opened(scope)
    alone(fence(scope, by("CL-1")))
    with pytest.raises(Conflict):
        alone(stale.commit(hot(PEOPLE, people(2), 1), 1))
    flush(scope, people(3), first_seq=5)
    assert rows_of(scope) == people(3)
    assert table_of(scope).version == 2


def test_it_may_be_repeated_and_needs_no_table(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    assert alone(fence(scope, by("CL-1"))) is None
    flush(scope, people(1))
    assert alone(fence(scope, by("CL-1"))) == 1
    again = alone(fence(scope, by("CL-1")))
    assert again is not None
    assert rows_of(scope) == []
    assert DeltaTable(scope.uri).version() == again


def test_an_erasures_fence_keeps_the_higher_watermark(tmp_path: Path) -> None:
    """A flush that began later may have come further than what the erasure saw."""
    scope = target(tmp_path / "t")
    flush(scope, people(1), end=9)
    for watermark, kept in ((5, 9), (12, 12)):
        alone(fence_settled(scope, watermark, by("ER-1"), lambda: None))
        assert table_of(scope).watermark(APP) == kept


def test_a_table_with_columns_of_others_is_fenced_too(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    write_deltalake(scope.uri, pa.table({"x": [1], "p": ["a"]}), mode="overwrite", schema_mode="overwrite", partition_by=["p"])
    assert alone(fence(scope, by("CL-1"))) == 2
    assert DeltaTable(scope.uri).file_uris() == []


def test_a_hint_of_a_late_drop_goes_with_the_checkpoint_that_another_drop_deleted(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    for _ in fence(scope, by("CL-1")):
        (tmp_path / "t" / LAST_CHECKPOINT).write_text('{"version": 0, "size": 1}')
    assert damage_of(scope.location) == LogDamage()
