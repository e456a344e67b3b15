"""A walk over a listing finds each table once, with the objects that are its own, whatever order the names come in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.errors import Unsupported
from lakewarden.maintenance.survey import listing
from lakewarden.maintenance.survey.listing import FoundTable, Room, Walk
from lakewarden.storage.sources import LocalSource, SourceObject

AT = datetime(2026, 11, 27, tzinfo=UTC)


class Listed(LocalSource):
    """A source with these keys."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__("/nowhere")
        object.__setattr__(self, "found", [SourceObject(key, len(key), f"e-{key}", AT) for key in sorted(keys, key=str.encode)])
        object.__setattr__(self, "asked", [])

    found: list[SourceObject]
    asked: list[str]

    def uploads(self, after: str = "", *, below: str = "") -> Iterator[SourceObject]:
        if below:
            self.asked.append(below)
        return (each for each in self.found if each.key > after and (not below or each.key.startswith(f"{below}/")))


def walked(source: Listed, room: Room | None = None) -> list[FoundTable]:
    made: list[FoundTable] = []
    walk = Walk(source, made.append, room or Room())
    for each in source.found:
        walk.add(each)
    walk.end()
    return made


def tables(keys: Sequence[str]) -> dict[str, set[str]]:
    made = walked(Listed(keys))
    assert len({each.path for each in made}) == len(made)
    return {each.path: set(each.listing.keys) for each in made}


def expected(keys: Sequence[str]) -> dict[str, set[str]]:
    """Each object belongs to the innermost table around it, and whatever is in a log to that log's table."""
    parts = {key: key.split("/") for key in keys}
    logs = {key: found.index("_delta_log") for key, found in parts.items() if "_delta_log" in found[:-1]}
    roots = {"/".join(parts[key][:at]) for key, at in logs.items()}
    made: dict[str, set[str]] = {root: set() for root in roots}
    for key, found in parts.items():
        if key in logs:
            root = "/".join(found[: logs[key]])
        else:
            around = ["/".join(found[:at]) for at in range(len(found))]
            owners = [one for one in around if one in roots]
            if not owners or found[-1] == "_delta_log":
                continue
            root = owners[-1]
        made[root].add(key[len(root) + 1 :] if root else key)
    return made


KEYS = st.lists(
    st.lists(st.sampled_from(["a", "b", "Day=1", "_delta_log", "_x", "z", "0.json", "a-b", "a b"]), min_size=1, max_size=5).map(
        "/".join
    ),
    unique=True,
    max_size=30,
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(KEYS)
def test_an_object_belongs_to_the_innermost_table(keys: list[str]) -> None:
    keys = [key for key in keys if not any(other.startswith(f"{key}/") for other in set(keys))]  # no file is a directory
    assert tables(keys) == expected(keys)


def test_nested_tables_are_parted() -> None:
    keys = ["t/A=1/x.parquet", "t/_delta_log/0.json", "t/in/_delta_log/0.json", "t/in/y.parquet", "t/z.parquet", "other.csv"]
    assert tables(keys) == {"t/in": {"_delta_log/0.json", "y.parquet"}, "t": {"A=1/x.parquet", "_delta_log/0.json", "z.parquet"}}
    assert tables(["_delta_log/0.json", "x.parquet"]) == {"": {"_delta_log/0.json", "x.parquet"}}


def test_a_log_comes_first_with_its_etags() -> None:
    (found,) = walked(Listed(["t/A/x", "t/_delta_log/0.json", "t/z"]))
    assert [*found.log] == [("_delta_log/0.json", "e-t/_delta_log/0.json")]
    assert [*found.data] == [("A/x", 5), ("z", 3)]


def test_marks_of_directories_are_no_files() -> None:
    source = Listed([])
    made: list[FoundTable] = []
    walk = Walk(source, made.append, Room())
    for key in ("t", "t/A", "t/A/x", "t/_delta_log", "t/_delta_log/0.json"):
        walk.add(SourceObject(key, 0, "", AT))
    walk.end()
    assert [each.listing.keys for each in made] == [["_delta_log/0.json", "A/x"]]


def test_what_is_in_no_table_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_PRUNED", 4)
    monkeypatch.setattr(listing, "_UNKNOWN", 16)
    source = Listed([*(f"raw/2026/{n:04}" for n in range(100)), *(f"raw/x/{n:04}" for n in range(100)), "t/_delta_log/0.json"])
    walk = Walk(source, lambda _found: None, Room())
    for each in source.found:
        walk.add(each)
        assert len(walk._waiting) <= 24  # behind the log's place they are dropped; before it, it is asked whether there is one
    assert source.asked == ["raw/_delta_log", "raw/2026/_delta_log", "raw/x/_delta_log"]


def test_a_table_with_more_objects_than_there_is_room_for_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_PRUNED", 4)
    monkeypatch.setattr(listing, "_OWN", 8)
    keys = [*(f"big/_delta_log/{n:04}.json" for n in range(100)), *(f"big/{n:04}" for n in range(100))]
    keys += ["big/in/_delta_log/0.json", "big/in/x", "after/_delta_log/0.json", "then/_delta_log/0.json", "then/x"]
    room = Room(8)
    made = {each.path: each for each in walked(Listed(keys), room)}
    assert made["big"].left_out == 200
    assert made["big"].listing.keys == []
    assert {path: len(found.listing.keys) for path, found in made.items() if path != "big"} == {
        "big/in": 2,
        "after": 1,
        "then": 2,
    }
    assert room.take(8)


@pytest.mark.night
def test_a_log_of_ten_million_objects_is_left_out_and_the_rest_is_found() -> None:
    """With the bounds as they are: a minute of the processor, and a third of a gigabyte."""
    made: list[FoundTable] = []
    walk, most = Walk(Listed([]), made.append, Room()), 0
    for number in range(10_000_000):
        walk.add(SourceObject(f"big/_delta_log/{number:020}.json", 1, "e", AT))
        most = max(most, walk._logs)
    for key in ("then/_delta_log/0.json", "then/x"):
        walk.add(SourceObject(key, 1, "e", AT))
    walk.end()
    assert [(each.path, each.left_out, len(each.listing.keys)) for each in made] == [("big", 10_000_000, 0), ("then", 0, 2)]
    assert most <= listing.MOST_OBJECTS + listing._OWN + listing._PRUNED


def test_a_store_that_lists_in_another_order_is_refused() -> None:
    walk = Walk(Listed([]), lambda _found: None, Room())
    walk.add(SourceObject("b/x", 1, "", AT))
    with pytest.raises(Unsupported, match="order of its keys"):
        walk.add(SourceObject("a/x", 1, "", AT))
    by_parts = Walk(Listed([]), lambda _found: None, Room())
    for key in ("a/x", "a-b/x"):  # as stores with directories sort
        by_parts.add(SourceObject(key, 1, "", AT))


def test_files_before_a_log_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_PRUNED", 2)
    monkeypatch.setattr(listing, "_UNKNOWN", 4)
    keys = [f"t/Day={n}/x.parquet" for n in range(9)]
    assert tables([*keys, "t/_delta_log/0.json"]) == {"t": {*(key[2:] for key in keys), "_delta_log/0.json"}}
