"""Floors: notes are joined in any order, objects stay few, and looks are monotone."""

from __future__ import annotations

import hashlib
import random
from functools import reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some

from lakewarden.base.clock import random_id
from lakewarden.base.connection import Location
from lakewarden.base.scope import NOTHING
from lakewarden.catalog.state.floor import Floor, floor_at
from lakewarden.catalog.state.floor_entries import (
    SCHEMA,
    DistinctScopes,
    FloorLocation,
    KnownScopes,
    KnownState,
    scope_hashes,
)
from lakewarden.errors import Corrupt, StorageRefused
from lakewarden.storage.local import LocalObjects
from lakewarden.storage.meter import metered
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store
from tests.fixtures.gate import in_the_gate

PREFIX = "known/t"


@pytest.fixture(params=["disk", "remote"])
def objects(tmp_path: Path, request: pytest.FixtureRequest) -> ObjectStore:
    return open_store(Location(str(tmp_path))) if request.param == "disk" else bucket()


def bucket() -> ObjectStore:
    return open_store(Location(f"memory://{random_id()}-floors"))


def mark(name: object) -> str:
    return hashlib.sha256(str(name).encode()).hexdigest()[:32]


def test_an_unknown_table_has_no_floor(objects: ObjectStore) -> None:
    floor = Floor(objects, PREFIX)
    assert floor.position() == NOTHING
    assert (floor.look().position, floor.look().known(mark("u"))) == (NOTHING, None)


def test_what_was_added_is_known_to_others(objects: ObjectStore) -> None:
    Floor(objects, PREFIX).add(7, {mark("u"): KnownState(3, 700, 10), mark("v"): KnownState(1, 600, 1, 500)}, {"cold": 6})
    other = Floor(objects, PREFIX)
    assert other.position() == 7
    look = other.look()
    assert (look.position, dict(look.storages)) == (7, {"cold": 6})
    assert (look.known(mark("u")), look.known(mark("v"))) == (KnownState(3, 700, 10), KnownState(1, 600, 1, 500))
    assert look.known(mark("w")) is None


HALVES = some.sampled_from([bytes(8), b"\0" * 7 + b"\1", b"\x7f" + b"\xff" * 7, b"\x80" + bytes(7), b"\xff" * 8])
HASHES = some.lists(some.builds(bytes.__add__, HALVES, HALVES), max_size=40)
"""Of which many share a half, and some stand twice: of random ones none would."""


@given(some.lists(HASHES, max_size=3), HASHES)
def test_registered_scopes_without_a_note_are_found_each_once(blocks: list[list[bytes]], noted: list[bytes]) -> None:
    registered = DistinctScopes.of(scope_hashes(b"".join(block)) for block in blocks)
    every = {one for block in blocks for one in block}
    known = KnownScopes.of({one.hex(): KnownState(1, 1, 1) for one in noted})
    assert (len(registered), registered.hexadecimal()) == (len(every), [one.hex() for one in sorted(every)])
    assert registered.besides(known).hexadecimal() == [one.hex() for one in sorted(every.difference(noted))]


def test_what_is_known_is_never_kept_behind_a_newer_listing(objects: ObjectStore) -> None:
    """Within the time of a look, too: a listing for whatever reason shows what others have added."""
    floor, other, one = Floor(objects, PREFIX), Floor(objects, PREFIX), mark("u")
    other.add(3, {one: KnownState(1, 2, 3)})
    assert floor.known([one], within=60)[one].version == 1
    other.add(7, {one: KnownState(2, 4, 3)})
    assert floor.known([one], within=60)[one].version == 1, "the listing is reused"
    assert floor.position() == 7
    assert (floor.known([one], within=60)[one].version, floor.look(within=60).position) == (2, 7)


class Ranged(LocalObjects):
    """Counts what is read, whole objects and ranges."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.whole = 0
        self.ranges: list[tuple[int, int]] = []

    def get(self, key: str) -> bytes:
        self.whole += 1
        return super().get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.ranges.append((start, length))
        return super().get_range(key, start, length)


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ranged:
    """A floor with one object in blocks of four scopes; four hashes begin alike, and stand in two blocks."""
    monkeypatch.setattr("lakewarden.catalog.state.floor._SMALL", 0)
    monkeypatch.setattr("lakewarden.catalog.state.floor_objects.SCOPES", 4)
    alike = {f"{'7f' * 4}{number:024x}": KnownState(1, number, number) for number in range(4)}
    others = {mark(number): KnownState(2, number, number) for number in range(62)}
    Floor(LocalObjects(str(tmp_path)), PREFIX).add(9, alike | others)
    assert sum(each < "7f" * 4 for each in others) % 4, "they would stand in one block"
    return Ranged(tmp_path)


def test_of_a_large_object_the_blocks_of_few_scopes_are_read(large: Ranged) -> None:
    everything = Floor(large, PREFIX).look().all()
    large.whole = 0
    for row in range(len(everything)):
        floor, one = Floor(large, PREFIX), everything.mark(row)
        assert floor.known([one]) == {one: everything.get(one)}
        large.ranges.clear()
        assert floor.known([one], within=60) == {one: everything.get(one)}
        assert large.ranges == [], "what was read is remembered"
    assert Floor(large, PREFIX).known([mark("nobody"), "0" * 32, "f" * 32]) == {}
    assert large.whole == 0


def test_of_many_scopes_it_is_read_whole(large: Ranged) -> None:
    floor = Floor(large, PREFIX)
    assert len(floor.known([mark(number) for number in range(62)])) == 62
    assert large.whole == 1


def test_what_came_since_is_known_beside_the_blocks(large: Ranged) -> None:
    floor = Floor(large, PREFIX)
    assert floor.known([mark(1)])[mark(1)].version == 2
    floor.add(10, {mark(1): KnownState(3, 500, 7)})
    Floor(large, PREFIX).add(11, {mark(2): KnownState(4, 600, 7)})
    assert floor.known([mark(1), mark(2)], within=60)[mark(1)].version == 3
    assert floor.known([mark(2)])[mark(2)].version == 4


def test_a_block_that_is_damaged_is_corrupt(large: Ranged) -> None:
    (stored,) = large.list(PREFIX)
    data = bytearray(large.get(stored.key))
    at = data.index(bytes.fromhex(f"{'7f' * 4}{0:024x}"))
    data[at : at + 16] = bytes(16)
    large.put(stored.key, bytes(data))
    first = min(mark(number) for number in range(62))
    assert Floor(large, PREFIX).known([first])
    large.put(stored.key, bytes(data[: at - 200]))
    with pytest.raises(Corrupt, match="cannot be read"):
        Floor(large, PREFIX).known([f"{'7f' * 4}{3:024x}"])


def test_objects_go_when_the_one_that_has_them_all_is_there(tmp_path: Path) -> None:
    class Full(LocalObjects):
        full = False

        def create(self, key: str, data: bytes) -> None:
            if self.full:
                raise StorageRefused("the disk is full")
            super().create(key, data)

    store = Full(str(tmp_path))
    floor = Floor(store, PREFIX)
    for number in range(3):
        floor.add(number, {mark(number): KnownState(0, number, 1)})
    while len(store.list(PREFIX)) < 4:
        number += 1
        floor.add(number, {mark(number): KnownState(0, number, 1)})
    floor.look()
    store.full = True
    with pytest.raises(StorageRefused):
        floor.add(99, {mark(99): KnownState(0, 99, 1)})
    look = Floor(store, PREFIX).look()
    assert [each for each in range(number + 1) if look.known(mark(each)) is None] == []


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        (KnownState(9, 100, 5), KnownState(2, 200, 1), KnownState(2, 200, 1)),
        (KnownState(9, 100, 5), KnownState(3, 100, 0, forgotten=True), KnownState(3, 100, 0, forgotten=True)),
        (KnownState(9, 100, 5, forgotten=True), KnownState(0, 300, 1), KnownState(0, 300, 1)),
        (KnownState(9, 100, 5), KnownState(8, 100, 7), KnownState(9, 100, 5)),
        (KnownState(9, 100, 5, 80), KnownState(9, 200, 5, 50), KnownState(9, 200, 5, 80)),
    ],
    ids=["higher watermark", "forgotten", "a new start", "higher version", "deleted"],
)
def test_which_note_holds(one: KnownState, other: KnownState, joined: KnownState) -> None:
    assert one.joined(other) == other.joined(one) == joined
    for parts in ([one, other], [other, one]):
        assert KnownScopes.union([KnownScopes.of({mark("u"): part}) for part in parts]).get(mark("u")) == joined


_SMALL = some.integers(-1, 3)
_KNOWN = some.builds(
    KnownState, version=_SMALL, watermark=_SMALL, rows=some.just(1), deleted_upto=_SMALL, forgotten=some.booleans()
)


@given(some.lists(some.dictionaries(some.sampled_from([mark(n) for n in range(5)]), _KNOWN), max_size=6))
def test_a_union_of_parts_is_what_each_scope_joins_to(parts: list[dict[str, KnownState]]) -> None:
    union = KnownScopes.union([KnownScopes.of(part) for part in parts])
    everyone = {scope for part in parts for scope in part}
    assert len(union) == len(everyone)
    for scope in everyone:
        assert union.get(scope) == reduce(KnownState.joined, [part[scope] for part in parts if scope in part])


@pytest.mark.slow
def test_objects_stay_few_and_each_row_is_copied_seldom(objects: ObjectStore) -> None:
    floor, written, rows = Floor(objects, PREFIX), 0, 300
    at_hand = 0 if isinstance(objects, LocalObjects) else 64 << 10
    floor.look()
    for number in range(rows):
        before = {stored.key for stored in objects.list(PREFIX)}
        floor.add(number, {mark(number): KnownState(number, number, 1)})
        (made,) = (stored for stored in objects.list(PREFIX) if stored.key not in before)
        written += len(Floor(objects, PREFIX)._part(made.key).scopes) if made.size > at_hand + 4096 or not at_hand else 0
    assert len(objects.list(PREFIX)) <= 12 + (32 if at_hand else 0)
    assert len(Floor(objects, PREFIX).scan().heads) <= 12
    assert written <= rows * 10
    look = Floor(objects, PREFIX).look()
    assert look.position == rows - 1
    assert all(look.known(mark(number)) == KnownState(number, number, 1) for number in range(rows))
    assert len(look.all()) == rows


def test_of_what_another_object_has_nothing_is_read_and_it_goes_by_the_dozen() -> None:
    store = bucket()
    floor = Floor(store, PREFIX)
    floor.position()
    with metered() as account:
        for number in range(100):
            floor.add(number, {mark(number % 7): KnownState(number, number, 1)}, {"cold": number})
    requests = account.total()
    assert (requests["CREATE"], requests["DELETE"], requests.get("GET")) == (100, 3 * 32, None), "a bucket takes 32 at once"
    assert len(store.list(PREFIX)) <= 33
    for whole in (True, False):
        other, one = Floor(store, PREFIX), mark(99 % 7)
        with metered() as account:
            assert (other.look().known(one) if whole else other.known([one])[one]) == KnownState(99, 99, 1)
        assert (account.total()["LIST"], account.total()["GET"]) == (1, 1)
        assert (other.look().position, dict(other.storages()), len(other.look().all())) == (99, {"cold": 99}, 7)
    scan = Floor(store, PREFIX).scan()
    assert (scan.position, len(scan.heads)) == (99, 1)
    assert {stored.key.rpartition("/")[2] for stored in store.list(PREFIX)} <= scan.names.union(
        *[one.absorbed for one in scan.heads.values()]
    )


@pytest.mark.slow
def test_each_of_many_processes_reads_one_object_of_a_copy_that_it_only_lists() -> None:
    store = bucket()
    read = 0
    for number in range(100):
        floor = Floor(store, PREFIX)
        assert floor.position() == number - 1
        with metered() as account:
            floor.add(number, {mark(number): KnownState(number, number, 1)})
        assert account.total().get("GET", 0) <= 4
        read += account.total().get("GET", 0)
        look = Floor(store, PREFIX).look()
        assert all(look.known(mark(each)) == KnownState(each, each, 1) for each in range(number + 1))
    assert read <= 105
    assert len(store.list(PREFIX)) <= 36


@pytest.mark.slow
@pytest.mark.parametrize("seed", in_the_gate(range(40), *range(12)))
def test_whatever_several_processes_read_and_add_no_note_is_lost(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some sleep between a listing and what they add; bounds are low, so that all of them are met."""
    monkeypatch.setattr("lakewarden.catalog.state.floor._SPENT", 3)
    monkeypatch.setattr("lakewarden.catalog.state.floor._AT_HAND", 3 << 10)
    chance, store, added = random.Random(seed), bucket(), dict[str, KnownState]()
    floors = [Floor(store, PREFIX) for _ in range(3)]
    for number in range(60):
        floor = chance.choice(floors)
        match chance.randrange(6):
            case 0:
                floors[floors.index(floor)] = Floor(store, PREFIX)
            case 1:
                floor.position()
            case 2:
                floor.look()
            case 3:
                one = mark(chance.randrange(9))
                assert floor.known([one]).get(one) == added.get(one)
            case _:
                news = {mark(chance.randrange(9)): KnownState(number, number, 1) for _ in range(chance.randrange(1, 4))}
                floor.add(number, news, {"cold": number})
                added |= news
                last = number
        look = Floor(store, PREFIX).look()
        assert {one: look.known(one) for one in added} == added
        assert not added or (look.position, dict(look.storages)) == (last, {"cold": last})


def test_two_that_join_the_same_objects_do_no_harm(objects: ObjectStore) -> None:
    one, other = Floor(objects, PREFIX), Floor(objects, PREFIX)
    for number in range(3):
        one.add(number, {mark(number): KnownState(1, number, 1)})
    one.add(3, {mark("gone"): KnownState(1, 3, 1)})
    other.look()
    one.look()
    one.add(4, {mark("gone"): KnownState(2, 4, 0, forgotten=True)})
    other.add(5, {mark("new"): KnownState(0, 5, 1)})
    look = Floor(objects, PREFIX).look()
    assert look.known(mark("gone")) == KnownState(2, 4, 0, forgotten=True), "a late copy of an older note does not bring it back"
    assert look.position == 5
    assert len(look.all()) == 5


def test_a_look_may_be_as_old_as_is_said(objects: ObjectStore) -> None:
    floor = Floor(objects, PREFIX)
    assert floor.look(60, lambda: 100.0).position == NOTHING
    Floor(objects, PREFIX).add(1, {})
    assert floor.look(60, lambda: 160.0).position == NOTHING
    assert floor.look(60, lambda: 160.1).position == 1
    floor.add(2, {mark("u"): KnownState(1, 2, 3)})
    assert floor.look(60, lambda: 161.0).known(mark("u")) == KnownState(1, 2, 3), "what it added itself it knows at once"


def test_an_object_that_is_cut_off_is_corrupt(objects: ObjectStore) -> None:
    Floor(objects, PREFIX).add(1, {mark("u"): KnownState(1, 2, 3)})
    (stored,) = objects.list(PREFIX)
    objects.put(stored.key, objects.get(stored.key)[:40])
    with pytest.raises(Corrupt, match="cannot be read"):
        Floor(objects, PREFIX).look()


def test_what_can_be_read_beside_it_is_found_and_it_can_be_replaced(objects: ObjectStore) -> None:
    floor = Floor(objects, PREFIX)
    floor.add(1, {mark("u"): KnownState(1, 2, 3)}, {"cold": 1})
    floor.add(5, {mark("v"): KnownState(4, 5, 6)}, {"cold": 5})
    (first, last) = objects.list(PREFIX)
    objects.put(last.key, objects.get(last.key)[:40])
    other = Floor(objects, PREFIX)
    found = other.examine()
    assert (found.position, found.unreadable, found.storages) == (5, (last.key,), {"cold": 1})
    assert (found.known(mark("u")), found.known(mark("v"))) == (KnownState(1, 2, 3), None)
    other.mend(found.unreadable, KnownScopes.of({mark("v"): KnownState(4, 5, 6)}), {"cold": 5})
    for look in (other.look(60), Floor(objects, PREFIX).look()):
        assert (look.position, look.storages) == (5, {"cold": 5})
        assert (look.known(mark("u")), look.known(mark("v"))) == (KnownState(1, 2, 3), KnownState(4, 5, 6))
    assert first.key in [stored.key for stored in objects.list(PREFIX)]
    assert Floor(objects, PREFIX).examine().unreadable == ()


def test_a_removed_floor_is_none(objects: ObjectStore) -> None:
    floor = Floor(objects, PREFIX)
    floor.add(1, {mark("u"): KnownState(1, 2, 3)})
    floor.remove()
    assert objects.list(PREFIX) == []
    assert floor.look().known(mark("u")) is None


@pytest.mark.slow
def test_one_of_a_million_scopes_is_found_by_bisection() -> None:
    count = 1_000_000
    hashes = np.sort(np.frombuffer(random.Random(1).randbytes(16 * count), "S16"))
    scope = pa.Array.from_buffers(pa.binary(16), count, [None, pa.py_buffer(hashes.tobytes())])
    columns = [scope, *[pa.array(np.arange(count))] * 4, pa.array(np.zeros(count, bool))]
    known = KnownScopes(pa.table(columns, names=SCHEMA.names[: len(columns)]))
    for row in (0, 1, 499_999, count - 1):
        assert known.get(hashes[row].tobytes().hex()) == KnownState(row, row, row, row)
    assert known.get("00" * 16) is None


def test_floors_are_shared_by_the_process(tmp_path: Path) -> None:
    place = FloorLocation.on_storage(Location(str(tmp_path)), "t")
    assert floor_at(place) is floor_at(FloorLocation.on_storage(Location(str(tmp_path)), "t"))
    assert floor_at(place) is not floor_at(FloorLocation.in_state(Location(str(tmp_path)), "t"))
