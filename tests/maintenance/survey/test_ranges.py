"""Listings side by side find what one listing finds."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings

from lakewarden.maintenance.survey import listing
from lakewarden.maintenance.survey.listing import FoundTable
from lakewarden.storage.sources import SourceObject
from tests.maintenance.survey.test_listing import KEYS, Listed, expected, walked


class Seeking(Listed):
    """A source that lists from behind a key, as S3 does, and counts its listings."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(keys)
        object.__setattr__(self, "begun", [])

    begun: list[str]

    def uploads(self, after: str = "", *, below: str = "") -> Iterator[SourceObject]:
        self.begun.append(after)
        return super().uploads(after.rstrip("/"), below=below)  # clients drop the slash

    def folders(self, below: str = "") -> Sequence[str]:
        place = f"{below}/" if below else ""
        inner = (each.key.removeprefix(place) for each in self.found if each.key.startswith(place))
        return sorted({f"{place}{key.partition('/')[0]}/" for key in inner if "/" in key})


def side_by_side(source: Seeking) -> tuple[int, list[FoundTable]]:
    made: list[FoundTable] = []
    lock = threading.Lock()

    def take(found: FoundTable) -> None:
        with lock:
            made.append(found)

    return listing.list_tables(source, take), made


@pytest.fixture
def small_pages() -> Iterator[None]:
    """Small pages stand for large places."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("PAGE", 2), ("_FIRST_PAGES", 1), ("_PAGES_EACH", 1)):
            patch.setattr(listing, name, value)
        yield


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(KEYS)
def test_side_by_side_finds_what_one_walk_finds(keys: list[str]) -> None:
    keys = [key for key in keys if not any(other.startswith(f"{key}/") for other in set(keys))]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("PAGE", 2), ("_FIRST_PAGES", 1), ("_PAGES_EACH", 1)):
            patch.setattr(listing, name, value)
        count, made = side_by_side(Seeking(keys))
    assert count == len(keys)
    assert {each.path: {*each.listing.keys} for each in made} == expected(keys)
    assert sorted(each.path for each in made) == sorted(each.path for each in walked(Listed(keys)))


@pytest.mark.usefixtures("small_pages")
def test_no_table_is_cut() -> None:
    """Neither one at the top nor one below a few directories, however many directories it has."""
    for place in ("", "lake/", "lake/crm/"):
        keys = [f"{place}t/{part}" for part in ("_delta_log/0.json", *(f"day={n}/x.parquet" for n in range(30)))]
        source = Seeking([f"{place}a.csv", *keys])
        _, made = side_by_side(source)
        assert [(each.path, len(each.listing.keys)) for each in made] == [(f"{place}t", 31)]
        assert {after for after in source.begun if "/day=" in after} == set()


@pytest.mark.usefixtures("small_pages")
def test_a_large_place_is_cut_into_ranges_of_many_pages() -> None:
    keys = [f"lake/t{n:03}/_delta_log/{version}.json" for n in range(100) for version in range(4)]
    source = Seeking(keys)
    count, made = side_by_side(source)
    assert (count, len(made)) == (400, 100)
    assert len(source.begun) == listing.SIDE_BY_SIDE + 1


def test_a_small_place_is_listed_once() -> None:
    source = Seeking([f"t{n:03}/_delta_log/0.json" for n in range(500)])
    assert side_by_side(source)[0] == 500
    assert source.begun == [""]
