"""What the commits between two versions did, as a commit that lost sees it: whoever made them, and however they say it."""

from __future__ import annotations

import json

import pytest

from lakewarden.base.clock import random_id
from lakewarden.base.connection import Location
from lakewarden.delta.commit_log.commits import Between, between
from lakewarden.delta.replay.log_objects import commit_name
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store


@pytest.fixture
def store() -> ObjectStore:
    return open_store(Location(f"memory://{random_id()}-between"))


def since_the_first(store: ObjectStore, *commits: list[dict[str, object]]) -> Between:
    """Of these commits, the first one is known."""
    for version, actions in enumerate(commits):
        store.create(commit_name(version), "\n".join(map(json.dumps, actions)).encode())
    return between(store, 0, len(commits) - 1)


def test_files_are_named_as_the_table_names_them(store: ObjectStore) -> None:
    """A log has their paths encoded, as URIs."""
    found = since_the_first(
        store,
        [{"remove": {"path": "known.parquet", "dataChange": True}}],
        [
            {"remove": {"path": "day=a%2520b/x%20y.parquet", "dataChange": False}},
            {"add": {"path": "z.parquet", "dataChange": False}},
        ],
    )
    assert found == Between(frozenset({"day=a%20b/x y.parquet"}), ())


@pytest.mark.parametrize("action", ["add", "remove"])
@pytest.mark.parametrize(("said", "changed"), [({"dataChange": True}, True), ({}, True), ({"dataChange": False}, False)])
def test_a_partition_is_changed_unless_a_commit_says_that_it_is_not(
    store: ObjectStore, action: str, said: dict[str, bool], changed: bool
) -> None:
    file = {"path": "x", "partitionValues": {"day": "2"}, **said}
    found = since_the_first(store, [], [{"commitInfo": {"operation": "WRITE"}}, {action: file}])
    assert found.partitions == (((("day", "2"),),) if changed else ())


def test_a_file_without_values_is_in_the_one_partition_that_there_is(store: ObjectStore) -> None:
    assert since_the_first(store, [], [{"add": {"path": "x", "dataChange": True, "partitionValues": None}}]).partitions == ((),)


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ({"metaData": {}}, "columns or properties"),
        ({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, "columns or properties"),
        ({"commitInfo": {"operation": "VACUUM START"}}, "vacuum"),
    ],
)
def test_what_a_commit_may_not_follow(store: ObjectStore, action: dict[str, object], why: str) -> None:
    assert why in since_the_first(store, [], [action], [{"add": {"path": "x"}}]).bar


def test_what_is_no_longer_in_the_log_may_not_be_followed(store: ObjectStore) -> None:
    store.create(commit_name(2), b"")
    assert "version 1 is no longer in the log" in between(store, 0, 2).bar
