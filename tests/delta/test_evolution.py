"""A scope whose files are of an older schema version: read by column id, rewritten by its next flush."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakewarden.catalog.model import TableSchema
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.errors import Unsupported
from lakewarden.storage.steps import alone
from tests.delta.scopes import PEOPLE, at, column, flush, hot, opened, paths, people, rows_of, schema, table_of, target

# `name` became `label`, a new column took the name `name`
RENAMED = TableSchema(2, (column(1, "id BIGINT NOT NULL"), column(3, "name INT"), column(2, "label TEXT")), ("id",))


def test_old_files_are_read_by_column_id(tmp_path: Path) -> None:
    flush(target(tmp_path / "t"), people(1))
    assert rows_of(target(tmp_path / "t", PEOPLE, RENAMED)) == [{"id": 1, "name": None, "label": "n1"}]


def test_the_next_flush_rewrites_every_file_and_changes_the_columns_in_one_commit(tmp_path: Path) -> None:
    flush(target(tmp_path / "t"), people(1))
    flush(target(tmp_path / "t"), people(100), first_seq=1)
    scope = target(tmp_path / "t", PEOPLE, RENAMED)
    before = paths(scope)
    applied = flush(scope, [{"id": 100, "name": 5, "label": "new"}, {"id": 7, "name": 6, "label": "x"}], first_seq=2).applied
    assert applied is not None
    assert applied.version == table_of(scope).version == 2
    assert not before & paths(scope)
    assert [field.name for field in DeltaTable(scope.uri).schema().fields] == ["id", "name", "label", "_seq"]
    assert rows_of(scope) == [
        {"id": 1, "name": None, "label": "n1"},
        {"id": 7, "name": 6, "label": "x"},
        {"id": 100, "name": 5, "label": "new"},
    ]
    assert rows_of(scope, 1) == [{"id": 1, "name": None, "label": "n1"}, {"id": 100, "name": None, "label": "n100"}]
    manifest = json.loads((tmp_path / "t" / "manifest.json").read_text())
    assert {segment["schema_version"] for segment in manifest["segments"]} == {2}


def test_a_large_file_that_the_batch_does_not_touch_is_written_again_too(tmp_path: Path) -> None:
    wider = schema("id BIGINT NOT NULL", "name TEXT", "more DOUBLE", version=2)
    before, after = target(tmp_path / "t", compression="none"), target(tmp_path / "t", PEOPLE, wider, compression="none")
    flush(before, [{"id": 1, "name": "n" * (1 << 20)}])
    flush(after, [{"id": 2, "name": "n2", "more": 0.5}], first_seq=1)
    assert [(row["id"], len(row["name"]), row["more"]) for row in rows_of(after)] == [(1, 1 << 20, None), (2, 2, 0.5)]


def test_files_that_others_rewrote_lose_their_ids_and_are_read_by_the_columns_of_their_version(tmp_path: Path) -> None:
    flush(target(tmp_path / "t"), people(1))
    flush(target(tmp_path / "t"), people(2), first_seq=1)
    DeltaTable(tmp_path / "t").optimize.compact()
    scope = target(tmp_path / "t", PEOPLE, RENAMED)
    assert rows_of(scope) == [{"id": 1, "name": None, "label": "n1"}, {"id": 2, "name": None, "label": "n2"}]


def test_only_a_rewrite_of_everything_may_change_the_columns(tmp_path: Path) -> None:
    flush(target(tmp_path / "t"), people(1))
    with pytest.raises(Unsupported, match="rewrite of all"):
        alone(table_of(target(tmp_path / "t")).commit([], [], schema=RENAMED, stamp=CommitStamp("J", "OPTIMIZE"), **at()))


def test_an_unknown_shape_is_refused(tmp_path: Path) -> None:
    flush(target(tmp_path / "t"), people(1))
    other = target(tmp_path / "t", schema("id BIGINT NOT NULL", "name INT"))
    with pytest.raises(Unsupported, match="no schema version"):
        alone(opened(other).commit(hot(other.schema, [{"id": 2, "name": 1}], 1), 1))
