"""A scope whose files are of an older schema version: read by column id, and written again by its next flush only where other
readers, who go by names, would see something else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.reading.bounds import Bound, files_within
from lakewarden.delta.reading.rows import read_rows
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.storage.steps import alone
from tests.delta.scopes import PEOPLE, Row, at, column, flush, hot, opened, paths, people, rows_of, schema, table_of, target
from tests.fixtures.bucket import AnyPath

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
    before, after = target(tmp_path / "t", compression="none"), target(tmp_path / "t", PEOPLE, RENAMED, compression="none")
    flush(before, [{"id": 1, "name": "n" * (1 << 20)}])
    flush(after, [{"id": 2, "label": "n2", "name": 5}], first_seq=1)
    assert [(row["id"], len(row["label"]), row["name"]) for row in rows_of(after)] == [(1, 1 << 20, None), (2, 2, 5)]


WIDER = TableSchema(2, (*PEOPLE.columns, column(3, "age INT")), ("id",))


def _by_name(scope: ScopeTarget) -> list[Row]:
    """As a reader sees it who goes by names."""
    rows = DeltaTable(scope.uri).to_pyarrow_table().drop_columns(["_seq"]).to_pylist()
    return sorted(rows, key=lambda row: int(row["id"]))


def _grown(path: AnyPath, *newer: TableSchema) -> tuple[ScopeTarget, set[str]]:
    """Two files of the first version, and a row of the second, which replaced one of them; with the path of the other."""
    flush(target(path), people(1, 2))
    flush(target(path), people(100, 101), first_seq=2)
    (kept,) = (file.path for file in table_of(target(path)).files() if file.min_seq == 0)
    scope = target(path, PEOPLE, WIDER)
    flush(scope, [{"id": 100, "name": "x", "age": 5}], first_seq=4)
    return target(path, PEOPLE, WIDER, *newer), {kept}


def test_an_added_column_comes_with_the_next_flush_and_leaves_what_that_does_not_touch(tmp_path: Path) -> None:
    scope, kept = _grown(tmp_path / "t")
    assert kept < paths(scope)
    manifest = json.loads((tmp_path / "t" / "manifest.json").read_text())
    assert sorted(segment["schema_version"] for segment in manifest["segments"]) == [1, 2]
    assert rows_of(scope) == _by_name(scope) == [
        {"id": 1, "name": "n1", "age": None},
        {"id": 2, "name": "n2", "age": None},
        {"id": 100, "name": "x", "age": 5},
        {"id": 101, "name": "n101", "age": None},
    ]  # fmt: skip
    assert rows_of(target(tmp_path / "t"), 1) == people(1, 2, 100, 101), "an older version has its own columns"
    flush(scope, [{"id": 2, "name": "y", "age": 7}], first_seq=5)
    assert not kept & paths(scope)
    assert [row["age"] for row in _by_name(scope)] == [None, 7, 5, None]


def test_a_flush_of_deletes_alone_brings_the_columns_too(tmp_path: Path) -> None:
    flush(target(tmp_path / "t"), people(1))
    flush(target(tmp_path / "t"), people(100), first_seq=1)
    scope = target(tmp_path / "t", PEOPLE, WIDER)
    flush(scope, deletes=[{"id": 100}, {"id": 50}], first_seq=2)
    assert rows_of(scope) == _by_name(scope) == [{"id": 1, "name": "n1", "age": None}]


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        (["name TEXT", "years INT"], {"name": "x", "years": 5}),
        (["name TEXT", "4 age TEXT"], {"name": "x", "age": None}),
        (["name TEXT", "age BIGINT"], {"name": "x", "age": 5}),
        (["years INT", "name INT"], None),
    ],
    ids=["renamed", "dropped, and its name taken again", "wider", "two changed"],
)
def test_a_file_that_lacks_the_column_is_right_after_what_becomes_of_it(
    tmp_path: Path, columns: list[str], row: Row | None
) -> None:
    """Each of these changes means something else to readers who go by names, so every file is written again."""
    ids = {"name TEXT": 2, "years INT": 3, "age BIGINT": 3, "4 age TEXT": 4, "name INT": 5}
    made = tuple(column(ids[text], text.removeprefix("4 ")) for text in columns)
    newest = TableSchema(3, (PEOPLE.columns[0], *made), ("id",))
    scope, kept = _grown(tmp_path / "t", newest)
    asked = rows_of(scope)
    assert row is None or {"id": 100, **row} in asked
    flush(scope, [dict.fromkeys(newest.names) | {"id": 9}], first_seq=9)
    assert not kept & paths(scope)
    expected = sorted([*asked, dict.fromkeys(newest.names) | {"id": 9}], key=lambda row: int(row["id"]))
    assert rows_of(scope) == _by_name(scope) == expected


def test_a_column_with_a_value_for_older_rows_is_written_into_every_file(tmp_path: Path) -> None:
    valued = replace(column(4, "kind TEXT NOT NULL"), default="'k'", initial="'k'", null_before=True)
    scope, kept = _grown(tmp_path / "t", TableSchema(3, (*WIDER.columns, valued), ("id",)))
    flush(scope, [{"id": 9, "name": "n9", "age": 1, "kind": "z"}], first_seq=9)
    assert not kept & paths(scope)
    assert [row["kind"] for row in _by_name(scope)] == ["k", "k", "z", "k", "k"]


def test_files_stay_where_others_set_a_property(tmp_path: Path) -> None:
    flush(target(tmp_path / "t"), people(1))
    flush(target(tmp_path / "t"), people(100), first_seq=1)
    DeltaTable(tmp_path / "t").alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 30 days"})
    scope = target(tmp_path / "t", PEOPLE, WIDER)
    before = paths(scope)
    flush(scope, [{"id": 100, "name": "x", "age": 5}], first_seq=4)
    assert len(before & paths(scope)) == 1, "only the file of the key that changed is another"
    assert rows_of(scope) == _by_name(scope) == [{"id": 1, "name": "n1", "age": None}, {"id": 100, "name": "x", "age": 5}]


def test_a_file_without_bounds_for_a_column_is_passed_over_by_none(tmp_path: Path) -> None:
    scope, kept = _grown(tmp_path / "t")
    table = table_of(scope)
    for bound in (Bound("age"), Bound("age", 5, 5), Bound("age", high=-1)):
        assert kept <= {file.path for file in files_within(table, [bound])}
    for rows in (read_rows(table, scope.schemas, None, [Bound("age", 7, 7)]), read_rows(table, scope.schemas, ["age"])):
        assert None in rows.column("age").to_pylist()


def test_files_are_passed_over_by_their_bounds_before_the_column_comes(tmp_path: Path) -> None:
    flush(target(tmp_path / "t"), people(1))
    flush(target(tmp_path / "t"), people(100), first_seq=1)
    scope = target(tmp_path / "t", PEOPLE, WIDER)
    found = read_rows(table_of(scope), scope.schemas, None, [Bound("id", 100, 100), Bound("age", high=3)])
    assert found.column("id").to_pylist() == [100]


def test_files_that_others_rewrote_lose_their_ids_and_are_read_by_the_columns_of_their_version(tmp_path: Path) -> None:
    flush(target(tmp_path / "t"), people(1))
    flush(target(tmp_path / "t"), people(2), first_seq=1)
    DeltaTable(tmp_path / "t").optimize.compact()
    scope = target(tmp_path / "t", PEOPLE, RENAMED)
    assert rows_of(scope) == [{"id": 1, "name": None, "label": "n1"}, {"id": 2, "name": None, "label": "n2"}]


def test_only_a_rewrite_of_everything_may_change_the_columns(tmp_path: Path) -> None:
    flush(target(tmp_path / "t"), people(1))
    table = table_of(target(tmp_path / "t"))
    with pytest.raises(Unsupported, match="rewrite of all"):
        alone(table.commit(CommitChange(CommitStamp("J", "OPTIMIZE")), schemas=(PEOPLE, RENAMED), **at()))


def test_an_unknown_shape_is_refused(tmp_path: Path) -> None:
    flush(target(tmp_path / "t"), people(1))
    other = target(tmp_path / "t", schema("id BIGINT NOT NULL", "name INT"))
    with pytest.raises(Corrupt, match=r"younger than the warehouse's state.*it has name TEXT"):
        alone(opened(other).commit(hot(other.schema, [{"id": 2, "name": 1}], 1), 1))
