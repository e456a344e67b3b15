"""Every store keeps the same promises: on disk, in memory, on a real S3 server, and on an emulator of Azure."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakewarden.base.clock import random_id
from lakewarden.base.connection import Location
from lakewarden.errors import InvalidArgument
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore
from lakewarden.storage.open import open_store

Open = Callable[[str], ObjectStore]
"""Opens a place below the test's own one."""


_MINIO = pytest.param("minio", marks=pytest.mark.minio)
_AZURITE = pytest.param("azurite", marks=pytest.mark.azurite)


@pytest.fixture(params=["disk", "memory", _MINIO, _AZURITE])
def open_below(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    if request.param in ("minio", "azurite"):
        base: str = request.getfixturevalue(request.param).prefix_for(request.node.nodeid)
    else:
        base = str(tmp_path) if request.param == "disk" else f"memory://{random_id()}"
    return lambda place: open_store(Location(f"{base}/{place}"))


@pytest.fixture
def store(open_below: Open) -> ObjectStore:
    return open_below("root")


def keys(store: ObjectStore, prefix: str) -> list[str]:
    return [*store.keys(prefix)]


def test_a_created_object_is_read_and_listed(store: ObjectStore) -> None:
    store.create("a/b/1", b"one")
    assert store.get("a/b/1") == b"one"
    (stored,) = store.list("a")
    assert (stored.key, stored.size) == ("a/b/1", 3)
    assert stored.modified.tzinfo is not None


def test_a_key_is_created_once(store: ObjectStore) -> None:
    store.create("a/1", b"first")
    with pytest.raises(AlreadyThere):
        store.create("a/1", b"second")
    assert store.get("a/1") == b"first"
    assert keys(store, "") == ["a/1"]


def test_the_keys_after_one_are_listed_in_order(store: ObjectStore) -> None:
    assert [*store.keys_after("a", "a/1")] == []
    for key in ("a/3", "a/1", "a/2", "a/22/deeper", "b/4"):
        store.create(key, b"x")
    assert [*store.keys_after("a", "a/1")] == ["a/2", "a/3"]
    assert [*store.keys_after("a", "a/15")] == ["a/2", "a/3"], "of which there is none"
    assert [*store.keys_after("a", "a/1", ("a/2", "a/3", "a/4"))] == ["a/2", "a/3"]
    assert [*store.keys_after("a", "a/3", ("a/4", "a/5"))] == []
    assert [*store.keys_after("a", "a/1", ("a/15", "a/2", "a/3"))] == ["a/2", "a/3"], "also where one is missing before others"
    assert [*store.keys_after("a", "a/3")] == []


def test_of_many_creators_one_wins(store: ObjectStore) -> None:
    def create(number: int) -> bool:
        try:
            store.create("race/1", str(number).encode())
        except AlreadyThere:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = [number for number, first in enumerate(pool.map(create, range(40))) if first]
    assert [store.get("race/1")] == [str(number).encode() for number in won]


def test_who_saw_no_name_replaces_none(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one who looked just before another created it: on a disk, a look comes first to save a sync."""
    store.create("race/1", b"first")
    monkeypatch.setattr(os, "access", lambda *_args, **_options: False)
    with pytest.raises(AlreadyThere):
        store.create("race/1", b"second")
    assert store.get("race/1") == b"first"


def test_put_replaces(store: ObjectStore) -> None:
    store.put("manifest.json", b"old and long")
    store.put("manifest.json", b"new")
    assert store.get("manifest.json") == b"new"
    assert keys(store, "") == ["manifest.json"]


def test_files_are_written_and_replaced_without_a_sync(store: ObjectStore) -> None:
    store.write("day=1/part.parquet", memoryview(b"rows"))
    store.replace("manifest.json", b"old and long")
    store.replace("manifest.json", b"new")
    assert {key: store.get(key) for key in keys(store, "")} == {"day=1/part.parquet": b"rows", "manifest.json": b"new"}


def test_a_source_opens_without_a_copy_or_is_the_bytes(store: ObjectStore) -> None:
    store.write("part.parquet", b"rows")
    source = store.source("part.parquet")
    assert (Path(source).read_bytes() if isinstance(source, str) else source) == b"rows"
    with pytest.raises(Missing):
        store.source("absent")


def test_what_is_there_and_whole(store: ObjectStore) -> None:
    store.write("a/part", b"rows")
    assert [store.has(key) for key in ("a/part", "a/par", "b")] == [True, False, False]
    assert [store.is_whole("a/part", size) for size in (3, 4, 5)] == [False, True, False]
    assert not store.is_whole("a/absent", 4)


def test_what_is_absent_is_missing(store: ObjectStore) -> None:
    store.create("a/1", b"x")
    for absent in ("a/2", "b/1", "a/1/below"):
        with pytest.raises(Missing):
            store.get(absent)
        with pytest.raises(Missing):
            store.get_range(absent, 0, 4)


@pytest.mark.parametrize(
    ("start", "length", "expected"), [(0, 3, b"abc"), (2, 2, b"cd"), (4, 10, b"e"), (5, 1, b""), (9, 1, b""), (1, 0, b"")]
)
def test_a_range_ends_with_the_object(store: ObjectStore, start: int, length: int, expected: bytes) -> None:
    store.create("a", b"abcde")
    assert store.get_range("a", start, length) == expected


def test_a_listing_is_recursive_sorted_and_by_whole_parts(store: ObjectStore) -> None:
    for key in ("log/x/2", "log/x/10", "log/a/1", "logs/1", "log.1", "other/log/1"):
        store.create(key, b"")
    assert keys(store, "log") == ["log/a/1", "log/x/10", "log/x/2"]
    assert keys(store, "log/x") == ["log/x/10", "log/x/2"]
    assert keys(store, "nothing/here") == []
    assert keys(store, "") == sorted(["log/x/2", "log/x/10", "log/a/1", "logs/1", "log.1", "other/log/1"])


def test_stores_below_each_other_see_their_own_part(open_below: Open) -> None:
    open_below("root/inner").create("a/1", b"x")
    assert keys(open_below("root"), "") == ["inner/a/1"]
    assert open_below("root").get("inner/a/1") == b"x"
    assert keys(open_below("roo"), "") == []


def test_deleting_takes_what_is_there(store: ObjectStore) -> None:
    for number in range(5):
        store.create(f"a/{number}", b"x")
    store.delete([f"a/{number}" for number in (0, 3, 7)])
    store.delete([])
    assert keys(store, "a") == ["a/1", "a/2", "a/4"]
    store.create("a/0", b"again")
    assert store.get("a/0") == b"again"


def test_odd_characters_stand_for_themselves(store: ObjectStore) -> None:
    odd = ["a!2fb", "a@b.c", "%2e%2e", "a b", "x=1", "ü", "a+b", "a&b"]
    for name in odd:
        store.create(f"odd/{name}", name.encode())
    assert keys(store, "odd") == sorted(f"odd/{name}" for name in odd)
    assert [store.get(f"odd/{name}") for name in odd] == [name.encode() for name in odd]


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/../b", "a/.", "a\0b"])
def test_a_key_cannot_leave_the_root(store: ObjectStore, key: str) -> None:
    for call in (lambda: store.create(key, b"x"), lambda: store.get(key), lambda: store.delete([key])):
        with pytest.raises(InvalidArgument):
            call()


def test_a_store_travels_to_another_process_by_its_uri(store: ObjectStore) -> None:
    store.create("a", b"x")
    travelled: ObjectStore = pickle.loads(pickle.dumps(store))
    assert travelled.uri == store.uri
    assert travelled.get("a") == b"x"
