"""Numbered folders: a put needs no listing, and none lists a whole scope."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.storage.folders import Folders
from lakewarden.storage.local import LocalObjects
from lakewarden.storage.objects import StoredObject

_MOST = 3


class _Counted(LocalObjects):
    """Counts the objects that listings gave."""

    listed = 0
    listings = 0

    def list(self, prefix: str) -> list[StoredObject]:
        found = super().list(prefix)
        self.listed += len(found)
        self.listings += 1
        return found


@pytest.fixture
def store(tmp_path: Path) -> _Counted:
    return _Counted(str(tmp_path))


def _put(folders: Folders, store: LocalObjects, number: int) -> str:
    folder = folders.take(store, "_files", _MOST)
    store.create(f"_files/{folder}/{number}", b"")
    return folder


def test_one_after_another_is_filled(store: _Counted) -> None:
    folders = Folders()
    assert [_put(folders, store, number) for number in range(7)] == ["f0001"] * 3 + ["f0002"] * 3 + ["f0003"]


def test_a_put_lists_nothing_while_its_folder_has_room(store: _Counted) -> None:
    folders = Folders()
    _put(folders, store, 0)
    store.listings = 0
    _put(folders, store, 1)
    _put(folders, store, 2)
    assert store.listings == 0


def test_a_new_process_finds_the_open_folder_without_listing_all(store: _Counted) -> None:
    folders = Folders()
    for number in range(100):
        _put(folders, store, number)
    store.listed = store.listings = 0
    assert Folders().take(store, "_files", _MOST) == "f0034"
    assert store.listings <= 14
    assert store.listed <= store.listings * _MOST


def test_a_folder_that_was_emptied_is_filled_again(store: _Counted) -> None:
    for number in range(6):
        _put(Folders(), store, number)
    store.delete(["_files/f0001/0", "_files/f0001/1"])
    assert Folders().take(store, "_files", _MOST) == "f0001"
