"""Delta's change data feed of a scope's table: what its readers find in each commit is what the commit did."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.lifecycle.fence import fence
from lakewarden.delta.replay.log_objects import commit_name
from lakewarden.errors import Conflict
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import alone
from tests.delta.scopes import PEOPLE, Row, by, flush, hot_of, opened, people, schema, table_of, target
from tests.fixtures.change_data import applied, counted, fed, rows_at
from tests.fixtures.examples import examples

_PLACED = schema("id BIGINT NOT NULL", "name TEXT", "part TEXT", by=("part",))
_WIDER = schema("id BIGINT NOT NULL", "name TEXT", "part TEXT", "more DOUBLE", version=2, by=("part",))
_FEED = "delta.enableChangeDataFeed"

_ID = st.integers(0, 7)
_STEP = st.tuples(_ID, st.sampled_from(["a", "b", None]), st.sampled_from(["x", "y", ""]), st.booleans())
_BATCHES = st.lists(st.lists(_STEP, min_size=1, max_size=6), min_size=1, max_size=5)


def _fed_target(path: Path, *schemas: Any) -> ScopeTarget:
    return replace(target(path, *schemas), change_data_feed=True)


def _actions(scope: ScopeTarget, version: int, kind: str) -> list[dict[str, Any]]:
    text = open_store(scope.location).get(commit_name(version)).splitlines()
    return [action[kind] for action in map(json.loads, text) if kind in action]


def _change_files(scope: ScopeTarget) -> list[str]:
    return [key for key in open_store(scope.location).keys("") if key.startswith("_change_data/")]


@pytest.mark.slow
@pytest.mark.disk
@settings(max_examples=examples(30))
@given(batches=_BATCHES, evolves=st.integers(1, 5))
def test_the_changes_of_each_version_make_it_from_the_one_before(
    batches: list[list[tuple[int, str | None, str, bool]]], evolves: int
) -> None:
    """A model says what each version holds; rows move between partitions, and the columns change once."""
    with tempfile.TemporaryDirectory() as place:
        model: dict[int, tuple[Any, ...]] = {}
        seq = 0
        for version, batch in enumerate(batches):
            wider = version >= evolves
            scope = _fed_target(Path(place) / "t", _PLACED, *([_WIDER] if wider else []))
            rows: list[tuple[Row, bool]] = [
                ({"id": key, "name": name, "part": part, "more": 0.5}, gone) for key, name, part, gone in batch
            ]
            before = dict(model)
            for offset, (row, gone) in enumerate(rows):
                model.pop(row["id"], None)
                if not gone:
                    model[row["id"]] = (row["id"], row["name"], row["part"] or None, seq + offset)
            cold = opened(scope)
            alone(cold.commit(hot_of(scope.schema, rows, seq), seq + len(rows) - 1))
            seq += len(rows)
            changes = fed(scope.uri, version, ("id", "name", "part", "_seq"))
            assert applied(Counter(before.values()), changes) == Counter(model.values())
            touched = {row["id"] for row, _ in rows}
            assert counted(changes) == {
                kind: count
                for kind, count in {
                    "insert": len(touched & (model.keys() - before.keys())),
                    "update_preimage": len(touched & model.keys() & before.keys()),
                    "update_postimage": len(touched & model.keys() & before.keys()),
                    "delete": len(before.keys() - model.keys()),
                }.items()
                if count
            }


def test_the_table_says_that_it_has_a_feed_and_appends_write_nothing_for_it(tmp_path: Path) -> None:
    scope = _fed_target(tmp_path / "t")
    flush(scope, people(1, 2))
    flush(scope, people(3), first_seq=2)
    assert _actions(scope, 0, "protocol") == [{"minReaderVersion": 1, "minWriterVersion": 4}]
    assert _actions(scope, 0, "metaData")[0]["configuration"][_FEED] == "true"
    assert _change_files(scope) == []
    assert counted(fed(scope.uri, 1, ["id"])) == {"insert": 1}
    flush(scope, people(3, name="x"), first_seq=3)
    (file,) = _change_files(scope)
    assert [action["path"] for action in _actions(scope, 2, "cdc")] == [file]
    assert table_of(scope).can_be_kept


def test_without_the_option_nothing_is_written_for_a_feed(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1, 2))
    flush(scope, people(2, name="x"), first_seq=2, deletes=[{"id": 1}])
    assert _change_files(scope) == []
    assert _actions(scope, 0, "protocol") == [{"minReaderVersion": 1, "minWriterVersion": 2}]
    assert _actions(scope, 1, "protocol") == _actions(scope, 1, "metaData") == _actions(scope, 1, "cdc") == []
    assert b"hange" not in open_store(scope.location).get(commit_name(0)).replace(b"dataChange", b"")


def test_it_begins_and_ends_with_the_next_commit(tmp_path: Path) -> None:
    plain, on = target(tmp_path / "t"), _fed_target(tmp_path / "t")
    flush(plain, people(1))
    flush(on, people(1, name="x"), first_seq=1)
    assert _actions(on, 1, "protocol") == [{"minReaderVersion": 1, "minWriterVersion": 4}]
    assert fed(on.uri, 1, ["name"]) == [("update_preimage", ("n1",)), ("update_postimage", ("x1",))]
    flush(plain, people(1, name="y"), first_seq=2)  # the option says nothing: the table's own property does
    assert fed(on.uri, 2, ["name"]) == [("update_preimage", ("x1",)), ("update_postimage", ("y1",))]
    flush(replace(plain, change_data_feed=False), people(1, name="z"), first_seq=3)
    assert DeltaTable(on.uri).metadata().configuration[_FEED] == "false"
    assert len(_change_files(on)) == 2


def test_what_another_writer_asked_for_is_kept_up(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1, 2))
    DeltaTable(scope.uri).alter.set_table_properties({_FEED: "true"})
    flush(scope, people(2, name="x"), first_seq=2)
    assert counted(fed(scope.uri, 2, ["id"])) == {"update_preimage": 1, "update_postimage": 1}
    DeltaTable(scope.uri).update(updates={"name": "'z'"}, predicate="id = 1")  # theirs, on top of ours
    flush(scope, (), first_seq=3, deletes=[{"id": 1}])
    assert fed(scope.uri, 4, ["id", "name"]) == [("delete", (1, "z"))]
    columns = ("id", "name", "_seq")
    for version in range(2, 5):
        found = fed(scope.uri, version, columns)
        assert applied(rows_at(scope.uri, version - 1, columns), found) == rows_at(scope.uri, version, columns)


def test_new_columns_alone_change_no_row(tmp_path: Path) -> None:
    wider = schema("id BIGINT NOT NULL", "name TEXT", "more DOUBLE", version=2)
    flush(_fed_target(tmp_path / "t"), people(1))
    scope = _fed_target(tmp_path / "t", PEOPLE, wider)
    flush(scope, (), first_seq=1, deletes=[{"id": 9}])
    assert fed(scope.uri, 1, ["id"]) == []
    assert rows_at(scope.uri, 1, ("id", "more")) == Counter([(1, None)])


def test_a_feed_and_a_rule_of_another_writer_are_both_kept(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    DeltaTable(scope.uri).alter.set_table_properties({_FEED: "true"})
    DeltaTable(scope.uri).alter.add_constraint({"positive": "id > 0"})
    flush(scope, people(1, name="x"), first_seq=1)
    flush(scope, people(2), first_seq=2)
    assert counted(fed(scope.uri, 3, ["id"])) == {"update_preimage": 1, "update_postimage": 1}
    assert counted(fed(scope.uri, 4, ["id"])) == {"insert": 1}


def test_a_table_that_another_writer_gave_a_rule_gets_a_feed(tmp_path: Path) -> None:
    flush(target(tmp_path / "t"), people(1))
    DeltaTable(tmp_path / "t").alter.add_constraint({"positive": "id > 0"})
    flush(_fed_target(tmp_path / "t"), people(2), first_seq=1)
    there = DeltaTable(tmp_path / "t")
    assert there.metadata().configuration[_FEED] == "true"
    assert (there.protocol().min_writer_version, there.metadata().configuration["delta.constraints.positive"]) == (4, "id > 0")


def test_a_refused_commit_leaves_no_change_file(tmp_path: Path) -> None:
    scope = _fed_target(tmp_path / "t")
    flush(scope, people(1))

    def other(step: str) -> None:
        if step == "after-data-file":
            flush(scope, people(5), first_seq=1)

    with pytest.raises(Conflict):
        flush(scope, people(1, name="x"), first_seq=1, reach=other)
    assert _change_files(scope) == []


def test_a_table_that_begins_where_a_dropped_one_was_does_not_inherit_its_feed(tmp_path: Path) -> None:
    dropped = replace(_fed_target(tmp_path / "t"), mark="theirs")
    flush(dropped, people(1))
    alone(fence(dropped, by("J")))
    begun = replace(target(tmp_path / "t"), mark="ours", app_id="lakewarden/w/other")
    flush(begun, people(1, 2))
    flush(begun, people(1, name="x"), first_seq=2)
    assert DeltaTable(begun.uri).metadata().configuration[_FEED] == "false"
    assert _change_files(begun) == []
