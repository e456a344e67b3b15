"""How a tick of an upload sensor goes through a source: in bounded parts, and all of it in the end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from lakewarden.dagster.orchestration.uploads import LISTED_PER_TICK, Cursor, Sums, look
from lakewarden.storage.sources import SourceObject
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

NOW = datetime(2026, 11, 22, tzinfo=UTC)


class Bucket:
    """Objects by their keys, and how many of them were listed."""

    def __init__(self, *keys: str) -> None:
        self.keys = set(keys)
        self.listed = 0

    def __call__(self, after: str) -> Iterator[SourceObject]:
        for position, key in enumerate(sorted(self.keys)):
            if key > after:
                self.listed += 1
                yield SourceObject(key, 10, "e", NOW + timedelta(seconds=position))


def keys(objects: tuple[SourceObject, ...]) -> list[str]:
    return [one.key for one in objects]


def test_a_small_source_is_seen_whole_each_time() -> None:
    bucket, cursor = Bucket("a", "b"), Cursor()
    for _ in range(2):
        seen = look(bucket, cursor, 10)
        assert (keys(seen.objects), seen.is_whole) == (["a", "b"], True)
        cursor = Cursor.read(seen.cursor.text)
        assert cursor.whole == Sums(2, 20, (NOW + timedelta(seconds=1)).timestamp())


def test_a_large_one_is_seen_in_parts_in_the_order_of_its_names() -> None:
    bucket, cursor = Bucket(*(f"{number:02}" for number in range(9))), Cursor()
    found: list[str] = []
    for _ in range(3):
        bucket.listed = 0
        seen = look(bucket, cursor, 8)
        assert bucket.listed <= 8
        found += keys(seen.objects)
        cursor = seen.cursor
    assert found == sorted(bucket.keys)
    assert (cursor.after, cursor.greatest, cursor.whole.objects) == ("", "08", 9)


def test_a_tick_over_many_objects_costs_as_over_a_few() -> None:
    count, listed = 100_000, 0

    def listing(after: str) -> Iterator[SourceObject]:
        nonlocal listed
        for number in range(int(after) + 1 if after else 0, count):
            listed += 1
            yield SourceObject(f"{number:06}", 10, "e", NOW)

    cursor, seen = Cursor(), set[str]()
    for _ in range(20):
        listed = 0
        found = look(listing, cursor)
        assert listed <= LISTED_PER_TICK
        assert len(found.cursor.text) < 300
        seen.update(keys(found.objects))
        cursor = found.cursor
    assert (len(seen), cursor.after, cursor.greatest) == (count, "099999", "099999")
    assert look(listing, cursor).cursor.whole.objects == count


def test_a_name_behind_all_others_does_not_wait_for_the_round() -> None:
    bucket, cursor = Bucket(*(f"{number:02}" for number in range(9))), Cursor(greatest="08")
    bucket.keys |= {"00b", "99"}
    seen = look(bucket, cursor, 6)
    assert keys(seen.objects) == ["00", "00b", "01", "99"]
    assert seen.cursor.greatest == "99"
    assert keys(look(bucket, seen.cursor, 6).objects) == ["02", "03", "04"]


def test_a_cursor_of_another_release_begins_anew() -> None:
    assert Cursor.read("t1:7:3") == Cursor.read(None) == Cursor()
