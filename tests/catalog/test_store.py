"""Versions of the catalog: what was acknowledged is there, whoever races, pauses or loses an answer."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.clock import random_id
from lakewarden.base.connection import Location
from lakewarden.catalog.changes import objects as changes
from lakewarden.catalog.changes.leases import grant, under
from lakewarden.catalog.model import Catalog, FlushPolicy, Lease, Table, TableOptions
from lakewarden.catalog.store import CatalogStore, CatalogVersion, decode, encode
from lakewarden.errors import AlreadyExists, Conflict, Corrupt, StorageUnavailable
from lakewarden.storage.local import LocalObjects
from lakewarden.storage.objects import AlreadyThere, ObjectStore
from lakewarden.storage.open import open_store
from tests.catalog.build import NOW, base_of, storage, table
from tests.fixtures.children import exit_statuses
from tests.fixtures.forwarding import ForwardingStore


@pytest.fixture(params=["disk", "memory", pytest.param("minio", marks=pytest.mark.minio)])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "minio":
        return open_store(Location(request.getfixturevalue("s3_warehouse_uri")))
    return open_store(Location(str(tmp_path) if request.param == "disk" else f"memory://{random_id()}"))


def open_catalog(objects: ObjectStore) -> CatalogStore:
    return CatalogStore(objects, lambda: NOW)


def adding(name: str) -> Callable[[Catalog], Catalog]:
    return lambda catalog: changes.add_namespace(catalog, name, NOW)


class Wrapped(ForwardingStore):
    """A real store with something happening around its creations."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None

    def create(self, key: str, data: bytes) -> None:
        before, self.before = self.before, lambda: None
        before()
        self._store.create(key, data)
        after, self.after = self.after, lambda: None
        after()


def test_a_new_warehouse_has_the_first_catalog(objects: ObjectStore) -> None:
    assert open_catalog(objects).read() == changes.first_catalog()
    assert objects.list("") == []


def test_a_catalog_that_is_gone_is_no_empty_one(tmp_path: Path) -> None:
    uri = str(tmp_path / "lake")
    with Lakehouse.open(uri) as lake:
        lake.create_namespace("chat")
    shutil.rmtree(tmp_path / "lake" / "_lakewarden" / "catalog")
    with Lakehouse.open(uri) as lake:
        for call in (lake.fleet, lake.status, lambda: lake.create_namespace("chat"), lambda: lake.sql("SHOW TABLES")):
            with pytest.raises(Corrupt, match="is gone: put catalog/ back"):
                call()
    assert not [*(tmp_path / "lake" / "_lakewarden").glob("catalog/*")]


def test_a_change_is_read_by_everybody(objects: ObjectStore) -> None:
    changed = open_catalog(objects).change(adding("chat"))
    assert changed.version == 1
    assert open_catalog(objects).read() == changed
    assert list(changed.namespaces) == ["chat"]


def test_a_version_of_another_process_is_read(objects: ObjectStore) -> None:
    mine, other = open_catalog(objects), open_catalog(objects)
    mine.change(adding("chat"))
    other.change(adding("mail"))
    assert list(mine.read().namespaces) == ["chat", "mail"]


def test_a_catalog_that_has_vanished_is_not_an_empty_one(objects: ObjectStore) -> None:
    catalog = open_catalog(objects)
    catalog.change(adding("chat"))
    objects.delete([stored.key for stored in objects.list("")])
    for attempt in (catalog.read, lambda: catalog.change(adding("mail"))):
        with pytest.raises(StorageUnavailable, match="was there before"):
            attempt()
    assert objects.list("") == []


def test_a_change_that_changes_nothing_makes_no_version(objects: ObjectStore) -> None:
    catalog = open_catalog(objects)
    catalog.change(adding("chat"))
    assert catalog.change(lambda same: same).version == 1


def test_a_change_that_raises_changes_nothing(objects: ObjectStore) -> None:
    catalog = open_catalog(objects)
    catalog.change(adding("chat"))
    with pytest.raises(AlreadyExists):
        catalog.change(adding("chat"))
    assert catalog.read().version == 1


def test_names_sort_newest_first_and_old_versions_go(objects: ObjectStore) -> None:
    catalog = open_catalog(objects)
    for number in range(70):
        catalog.change(adding(f"n{number}"))
    keys = [stored.key for stored in objects.list("catalog")]
    assert keys[0] == "catalog/99999999999999999929.json"
    assert len(keys) <= 40
    assert len(open_catalog(objects).read().namespaces) == 70


def test_whoever_loses_a_race_starts_over(objects: ObjectStore) -> None:
    wrapped = Wrapped(objects)
    wrapped.before = lambda: void(open_catalog(objects).change(adding("first")))
    assert list(open_catalog(wrapped).change(adding("second")).namespaces) == ["first", "second"]


def test_whoever_is_overtaken_right_after_has_won_all_the_same(objects: ObjectStore) -> None:
    wrapped = Wrapped(objects)
    wrapped.after = lambda: void([open_catalog(objects).change(adding(f"later{number}")) for number in range(40)])
    changed = open_catalog(wrapped).change(adding("mine"))
    assert list(changed.namespaces) == ["mine"]
    assert list(open_catalog(objects).read().namespaces) == ["mine", *(f"later{number}" for number in range(40))]


def test_a_pruned_number_that_is_free_again_does_not_count(objects: ObjectStore) -> None:
    wrapped = Wrapped(objects)
    wrapped.before = lambda: void([open_catalog(objects).change(adding(f"later{number}")) for number in range(50)])
    changed = open_catalog(wrapped).change(adding("mine"))
    assert len(changed.namespaces) == 51
    assert open_catalog(objects).read() == changed


@pytest.mark.slow
def test_after_too_many_versions_the_outcome_is_a_conflict(objects: ObjectStore) -> None:
    wrapped = Wrapped(objects)
    wrapped.before = lambda: void([open_catalog(objects).change(adding(f"later{number}")) for number in range(90)])
    with pytest.raises(Conflict, match="is not known"):
        open_catalog(wrapped).change(adding("mine"))
    assert "mine" not in open_catalog(objects).read().namespaces


def test_a_change_returns_its_own_version_behind_a_pause(objects: ObjectStore) -> None:
    """A process stops behind its creation, and another one takes its lease over meanwhile."""
    wrapped = Wrapped(objects)
    wrapped.after = lambda: void(open_catalog(objects).change(grant("chat.x", "another", 5.0, seen())))

    def seen() -> Lease:
        return open_catalog(objects).read().leases["chat.x"]

    mine = open_catalog(wrapped).change(grant("chat.x", "me", 5.0, None))
    assert (mine.version, mine.leases["chat.x"].owner) == (1, "me")
    assert seen().owner == "another"
    with pytest.raises(Conflict, match="taken over by another"):
        open_catalog(wrapped).change(under(mine.leases["chat.x"], adding("late")))


def test_an_answer_that_was_lost_is_found_out(objects: ObjectStore) -> None:
    wrapped = Wrapped(objects)
    wrapped.after = lambda: fail(StorageUnavailable("timed out"))
    assert list(open_catalog(wrapped).change(adding("mine")).namespaces) == ["mine"]
    wrapped.before = lambda: fail(StorageUnavailable("timed out"))
    with pytest.raises(StorageUnavailable):
        open_catalog(wrapped).change(adding("other"))
    wrapped.after = lambda: fail(AlreadyThere("repeated below us"))
    assert list(open_catalog(wrapped).change(adding("third")).namespaces) == ["mine", "third"]


def test_endless_races_end_in_a_conflict(objects: ObjectStore) -> None:
    wrapped = Wrapped(objects)

    def overtake() -> None:
        open_catalog(objects).change(adding(f"n{random_id()}"))
        wrapped.before = overtake

    wrapped.before = overtake
    with pytest.raises(Conflict, match="changed 40 times"):
        CatalogStore(wrapped, lambda: NOW, pause=lambda _: None).change(adding("mine"))


def test_an_unreadable_version_is_corrupt(objects: ObjectStore) -> None:
    open_catalog(objects).change(adding("chat"))
    objects.create("catalog/99999999999999999990.json", b"{")
    with pytest.raises(Corrupt, match=r"99999999999999999990\.json is not a catalog"):
        open_catalog(objects).read()


def test_a_version_under_another_name_is_corrupt(objects: ObjectStore) -> None:
    objects.create("catalog/99999999999999999990.json", encode(CatalogVersion(changes.first_catalog(), ("x",), NOW)))
    with pytest.raises(Corrupt, match="not its name"):
        open_catalog(objects).read()


def _change_many(root: str, process: int) -> None:
    catalog = CatalogStore(LocalObjects(root), lambda: NOW)
    acknowledged = LocalObjects(f"{root}/acknowledged")
    for number in range(50):
        name = f"p{process}n{number}"
        catalog.change(adding(name))
        acknowledged.put(name, b"")


@pytest.mark.slow
def test_four_processes_lose_no_change(tmp_path: Path) -> None:
    assert exit_statuses([(_change_many, str(tmp_path), number) for number in range(4)]) == [0] * 4
    acknowledged = {stored.key for stored in LocalObjects(str(tmp_path / "acknowledged")).list("")}
    catalog = CatalogStore(LocalObjects(str(tmp_path)), lambda: NOW).read()
    assert len(acknowledged) == 200
    assert set(catalog.namespaces) == acknowledged
    assert catalog.version == 200


def full_catalog() -> Catalog:
    catalog = changes.add_namespace(changes.first_catalog(), "chat", NOW)
    catalog = changes.add_storage(catalog, storage("cold", "s3://cold/x", folds_case=True))
    options = TableOptions("cold", FlushPolicy(1000, None), "zstd", 1 << 20, 0)
    made: Table = replace(table("chat.messages", "SHARED"), options=options)
    return changes.add_table(changes.add_table(catalog, made, base_of), table("chat.rooms"), base_of)


def test_every_field_survives_the_codec() -> None:
    written = CatalogVersion(replace(full_catalog(), version=7), ("a", "b"), NOW)
    assert decode(encode(written), "x") == written
    assert list(decode(encode(written), "x").catalog.tables) == list(written.catalog.tables)


def test_absent_fields_have_their_defaults_and_unknown_ones_are_left_out() -> None:
    data = b'{"format": 1, "catalog": {"version": 3, "colour": "red"}, "writes": [], "at": null}'
    assert decode(data, "x") == CatalogVersion(Catalog(version=3), (), None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"format": 4, "catalog": {}, "writes": [], "at": null}',
        b'{"format": 1, "catalog": {"version": "3"}, "writes": [], "at": null}',
        b'{"format": 1, "catalog": {"tables": {"chat.x": {}}}, "writes": [], "at": null}',
        b'{"format": 1, "catalog": [], "writes": [], "at": null}',
        b"\xff",
    ],
)
def test_what_is_no_catalog_is_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        decode(data, "x")


def void(_: object) -> None:
    """Calls for its effect, inside a lambda."""


def fail(error: Exception) -> None:
    raise error
