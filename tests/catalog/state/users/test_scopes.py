from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from lakewarden.base.clock import random_id
from lakewarden.catalog.state import user_lists
from lakewarden.catalog.state.scope_registry import ScopeRegistry
from lakewarden.errors import Corrupt
from lakewarden.storage.local import LocalObjects
from lakewarden.storage.objects import ObjectStore, StoredObject


@pytest.fixture(params=[4096, 1], ids=["short", "long"])
def store(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """Whose lists are short, or of one user a block."""
    monkeypatch.setattr(user_lists, "BLOCK", request.param)
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


def test_all_users_come_in_blocks_whatever_their_list(store: ObjectStore) -> None:
    registry = ScopeRegistry(store, random_id)
    registry.add("t", ["a", "b", "c"])
    registry.discard("t", "b")  # folds
    registry.add("t", ["a", "é"])
    blocks, objects = registry.each_block("t", list)
    assert sorted(user for block in blocks for user in block) == ["a", "a", "c", "é"]
    assert max(map(len, blocks)) <= max(user_lists.BLOCK, 2)
    assert objects == registry.everything("t").objects
    blocks, objects = registry.each_block("nothing", list)
    assert (any(blocks), objects) == (False, frozenset())


def test_what_was_added_since_is_read_from_the_new_objects_alone(store: ObjectStore) -> None:
    registry = ScopeRegistry(store, random_id)
    registry.add("t", ["a", "b"])
    registry.discard("t", "b")
    registry.add("t", ["c"])
    before = registry.everything("t")
    assert (set(before.users), before.counted) == ({"a", "c"}, 2)
    registry.add("t", ["a", "d"])
    registry.add("t", ["d", "e"])
    added = registry.added("t", before.objects)
    assert added is not None
    assert (set(added.users), added.counted) == ({"d", "e"}, None)
    again = registry.added("t", added.objects)
    assert again is not None
    assert (set(again.users), again.objects, again.counted) == (set(), added.objects, None)


def test_a_fold_of_what_was_there_adds_nothing_and_is_counted_again(store: ObjectStore) -> None:
    registry = ScopeRegistry(store, random_id)
    registry.add("t", ["a", "b", "c"])
    before = registry.everything("t")
    registry.discard("t", "b")
    registry.add("t", ["d"])
    added = registry.added("t", before.objects)
    assert added is not None
    assert (set(added.users), added.counted) == ({"d"}, 3)


@pytest.mark.parametrize("discarded", [("b",), ("a", "b")], ids=["a fold of an unseen entry", "two folds"])
def test_what_was_folded_unseen_is_not_said_to_be_nothing(store: ObjectStore, discarded: tuple[str, ...]) -> None:
    registry = ScopeRegistry(store, random_id)
    registry.add("t", ["a", "b"])
    before = registry.everything("t")
    if len(discarded) == 1:
        registry.add("t", ["c"])
    for user in discarded:
        registry.discard("t", user)
    assert registry.added("t", before.objects) is None


def test_who_is_found_is_found_by_one_listing_and_who_is_not_by_two(tmp_path: Path) -> None:
    class Torn(LocalObjects):
        """The first listing misses what the fold was just made of, and the fold."""

        listings = 0

        def list(self, prefix: str) -> list[StoredObject]:
            self.listings += 1
            found = super().list(prefix)
            return [stored for stored in found if "fold-" not in stored.key] if self.listings == 1 else found

    other = ScopeRegistry(LocalObjects(str(tmp_path)), random_id)
    other.add("t", ["a", "b", "c"])
    other.discard("t", "b")
    other.add("t", ["d"])
    for users, listings in (({"d"}, 1), ({"a"}, 5), ({"a", "d"}, 5), ({"e"}, 5)):
        store = Torn(str(tmp_path))
        assert ScopeRegistry(store, random_id).known("t", users) == users - {"e"}
        assert store.listings <= listings
        assert (store.listings == 1) is (listings == 1)


class Between:
    """Something happens once, right before the next object is created."""

    def __init__(self, store: ObjectStore, act: Callable[[], object]) -> None:
        self._store = store
        self._acts = [act]

    def create(self, key: str, data: bytes) -> None:
        while self._acts:
            self._acts.pop()()
        self._store.create(key, data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


@pytest.mark.parametrize("fold", [False, True], ids=["entries", "a fold"])
def test_two_who_are_forgotten_at_once_stay_forgotten(store: ObjectStore, fold: bool) -> None:
    registry = ScopeRegistry(store, random_id)
    registry.add("t", ["a", "b", "c", "d"])
    if fold:
        registry.discard("t", "d")
    slow = cast("ObjectStore", Between(store, lambda: registry.discard("t", "a")))
    assert ScopeRegistry(slow, random_id).discard("t", "b")
    assert registry.users("t") == {"c"} | (set() if fold else {"d"})
    assert len(store.list("scopes")) == 1


def test_who_is_added_during_a_fold_stays(store: ObjectStore) -> None:
    registry = ScopeRegistry(store, random_id)
    registry.add("t", ["a", "b"])
    slow = cast("ObjectStore", Between(store, lambda: registry.add("t", ["late"])))
    ScopeRegistry(slow, random_id).discard("t", "b")
    assert registry.users("t") == {"a", "late"}


def test_a_fold_whose_number_was_pruned_and_is_free_again_does_not_count(store: ObjectStore) -> None:
    registry = ScopeRegistry(store, random_id)
    registry.add("t", ["a", "b", "c", "d"])
    slow = cast("ObjectStore", Between(store, lambda: (registry.discard("t", "a"), registry.discard("t", "c"))))
    ScopeRegistry(slow, random_id).discard("t", "b")
    assert registry.users("t") == {"d"}


def test_a_listing_that_passes_over_a_fold_and_what_it_took_in_is_not_believed(store: ObjectStore) -> None:
    class Torn(LocalObjects):
        """Its first listing shows neither the entries, which go meanwhile, nor the fold, which comes."""

        torn = True

        def list(self, prefix: str) -> list[StoredObject]:
            torn, self.torn = self.torn, False
            return [] if torn else super().list(prefix)

    registry = ScopeRegistry(store, random_id)
    registry.add("t", ["a", "b"])
    registry.discard("t", "b")
    assert ScopeRegistry(Torn(store.uri), random_id).users("t") == {"a"}


def test_whom_nobody_knows_any_more_no_object_names(store: ObjectStore) -> None:
    registry = ScopeRegistry(store, random_id)
    registry.add("t", ["a", "b"])
    registry.discard("t", "b")
    store.create("scopes/t/fold-000000000000", b'{"users": ["a"], "entries": []}')  # made by somebody who was killed
    assert registry.discard("t", "a")
    assert not registry.discard("t", "a")
    assert [b'"a"' in store.get(found.key) for found in store.list("scopes")] == [False]


@pytest.mark.parametrize("folded", [False, True])
def test_what_was_noted_is_taken_back_and_what_others_noted_stays(store: ObjectStore, folded: bool) -> None:
    registry = ScopeRegistry(store, random_id)
    registry.add("t", ["a"])
    noted = registry.add("t", ["b", "c"])
    if folded:
        registry.discard("t", "nobody")
        registry.add("t", ["d"])
        registry.discard("t", "d")
    else:
        registry.add("t", ["b"])
    registry.withdraw("t", noted, ["b"])
    assert registry.users("t") == ({"a", "c"} if folded else {"a", "b", "c"})


def test_a_dropped_table_is_forgotten(store: ObjectStore) -> None:
    registry = ScopeRegistry(store, random_id)
    registry.add("t", ["u"])
    registry.remove("t")
    assert registry.users("t") == frozenset()


def test_an_unreadable_object_is_corrupt(store: ObjectStore) -> None:
    store.create("scopes/t/1", b"{")
    with pytest.raises(Corrupt, match="scopes/t/1 is not a list of users"):
        ScopeRegistry(store, random_id).users("t")


def _add_many(root: str, process: int) -> None:
    registry = ScopeRegistry(LocalObjects(root), random_id)
    for number in range(150):
        user = f"p{process}u{number}"
        registry.add("t", [user])
        assert user in registry.users("t")


@pytest.mark.slow
def test_processes_that_add_and_fold_lose_nobody(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add_many, args=(str(tmp_path), number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 3
    assert len(ScopeRegistry(LocalObjects(str(tmp_path)), random_id).users("t")) == 450
