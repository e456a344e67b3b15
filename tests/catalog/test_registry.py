from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from lakewarden.catalog.registry import ScopeRegistry
from lakewarden.clock import random_id
from lakewarden.errors import Corrupt
from lakewarden.storage.local import LocalObjects
from lakewarden.storage.objects import ObjectStore


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return LocalObjects(str(tmp_path))


def test_users_are_added_and_read_by_table(store: ObjectStore) -> None:
    registry = ScopeRegistry(store, random_id)
    assert registry.users("t1") == frozenset()
    registry.add("t1", ["a/b", "é", "a/b"])
    registry.add("t1", ["c"])
    registry.add("t2", ["other"])
    assert registry.users("t1") == {"a/b", "é", "c"}
    assert ScopeRegistry(store, random_id).users("t1") == {"a/b", "é", "c"}
    assert len(store.list("scopes/t1")) == 2


def test_ten_thousand_users_are_one_object(store: ObjectStore) -> None:
    users = [f"u{number}" for number in range(10_000)]
    ScopeRegistry(store, random_id).add("t", users)
    assert len(store.list("scopes")) == 1
    assert ScopeRegistry(store, random_id).users("t") == set(users)


def test_many_objects_are_folded(store: ObjectStore) -> None:
    registry = ScopeRegistry(store, random_id)
    for number in range(300):
        registry.add("t", [f"u{number}"])
    assert len(store.list("scopes/t")) <= 65
    assert registry.users("t") == {f"u{number}" for number in range(300)}


def test_a_dropped_table_is_forgotten(store: ObjectStore) -> None:
    registry = ScopeRegistry(store, random_id)
    registry.add("t", ["u"])
    registry.remove("t")
    assert registry.users("t") == frozenset()


def test_an_unreadable_object_is_corrupt(store: ObjectStore) -> None:
    store.create("scopes/t/1", b"{")
    with pytest.raises(Corrupt, match="scopes/t/1 is no list of users"):
        ScopeRegistry(store, random_id).users("t")


def _add_many(root: str, process: int) -> None:
    registry = ScopeRegistry(LocalObjects(root), random_id)
    for number in range(150):
        user = f"p{process}u{number}"
        registry.add("t", [user])
        assert user in registry.users("t")


def test_processes_that_add_and_fold_lose_nobody(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add_many, args=(str(tmp_path), number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 3
    assert len(ScopeRegistry(LocalObjects(str(tmp_path)), random_id).users("t")) == 450
