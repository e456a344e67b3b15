from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.base.connection import Location, StorageRoot
from lakewarden.errors import Corrupt, InUse, StorageUnavailable
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.storage.owner import MARKER, StorageOwner, check_same, claim_for, confirm, owner_of


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(Location(str(tmp_path)))


def test_a_place_has_one_owner(store: ObjectStore) -> None:
    assert claim_for(store, StorageOwner("one", "first")) == "first"
    assert claim_for(store, StorageOwner("one", "second")) == "first", "another storage of the warehouse at the same place"
    with pytest.raises(InUse, match="belongs to warehouse one"):
        claim_for(store, StorageOwner("two", "third"))
    check_same(store, StorageOwner("one", "first"))
    with pytest.raises(InUse, match="belongs to warehouse one"):
        check_same(store, StorageOwner("one", "second"))


def test_a_marker_of_format_1_is_text_and_gets_an_identity_once(store: ObjectStore) -> None:
    assert claim_for(store, StorageOwner("one")) == ""
    assert store.get(MARKER) == b"one"
    assert claim_for(store, StorageOwner("one")) == ""
    assert claim_for(store, StorageOwner("one", "first")) == "first"
    assert owner_of(store) == StorageOwner("one", "first")


def test_a_broken_marker_is_corrupt(store: ObjectStore) -> None:
    store.put(MARKER, b"{")
    with pytest.raises(Corrupt, match="does not name an owner"):
        owner_of(store)


def test_a_storage_is_confirmed_by_its_marker(store: ObjectStore) -> None:
    root = StorageRoot("cold", Location(store.uri), "first")
    with pytest.raises(StorageUnavailable, match=r"'cold' at .* is not the one .*no marker.*is it mounted"):
        confirm(root)
    claim_for(store, StorageOwner("one", "second"))
    with pytest.raises(StorageUnavailable, match="marker of another one"):
        confirm(root)
    confirm(StorageRoot("cold", Location(store.uri)))


def test_a_confirmation_is_good_for_as_long_as_is_said(store: ObjectStore) -> None:
    root = StorageRoot("cold", Location(store.uri), "first")
    claim_for(store, StorageOwner("one", "first"))
    confirm(root, 60, lambda: 100.0)
    store.delete([MARKER])
    confirm(root, 60, lambda: 160.0)
    with pytest.raises(StorageUnavailable):
        confirm(root, 60, lambda: 160.1)
    with pytest.raises(StorageUnavailable):
        confirm(root, 0, lambda: 100.0)
