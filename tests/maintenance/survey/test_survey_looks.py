"""Looks in the state: whoever dies, sleeps or races leaves a whole one."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from lakewarden.errors import StorageUnavailable
from lakewarden.maintenance.survey.survey_store import ROOT, keep_look, kept_look, remove_naming
from lakewarden.storage.local import LocalObjects

_IDS = count(1)


def _new_id() -> str:
    return f"{next(_IDS):032x}"


@pytest.fixture
def state(tmp_path: Path) -> LocalObjects:
    return LocalObjects(str(tmp_path / "state"))


class _Dies(LocalObjects):
    """Creates so many objects, then fails, or behaves as `then` says."""

    def __init__(self, root: str, creations: int) -> None:
        super().__init__(root)
        self.left = creations

    def create(self, key: str, data: bytes) -> None:
        if not self.left:
            raise StorageUnavailable("the store went away")
        self.left -= 1
        super().create(key, data)


def test_the_newest_look_counts_and_the_others_go(state: LocalObjects) -> None:
    assert kept_look(state, "p") == []
    keep_look(state, "p", [b"1", b"2"], 2, _new_id)
    keep_look(state, "other", [b"9"], 1, _new_id)
    keys = keep_look(state, "p", [b"3", b"4", b"5"], 3, _new_id)
    assert kept_look(state, "p") == [b"3", b"4", b"5"]
    assert list(state.keys("surveys/p")) == sorted(keys)
    assert kept_look(state, "other") == [b"9"]


def test_objects_are_in_the_order_of_their_numbers(state: LocalObjects) -> None:
    parts = [str(number).encode() for number in range(12)]
    keep_look(state, "p", parts, len(parts), _new_id)
    assert kept_look(state, "p") == parts


@pytest.mark.parametrize("creations", [0, 1, 2])
def test_one_that_died_in_the_middle_leaves_the_look_before(state: LocalObjects, creations: int) -> None:
    keep_look(state, "p", [b"1", b"2"], 2, _new_id)
    with pytest.raises(StorageUnavailable):
        keep_look(_Dies(str(state.uri), creations), "p", [b"3", b"4", b"5"], 3, _new_id)
    assert kept_look(state, "p") == [b"1", b"2"]
    keep_look(state, "p", [b"6"], 1, _new_id)
    assert kept_look(state, "p") == [b"6"]
    assert len(state.keys("surveys/p")) == 1


def test_one_that_died_before_it_removed_the_older_ones_counts(state: LocalObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_look(state, "p", [b"1"], 1, _new_id)
    with monkeypatch.context() as broken:
        broken.setattr(LocalObjects, "delete", lambda self, keys: (_ for _ in ()).throw(StorageUnavailable("away")))
        with pytest.raises(StorageUnavailable):
            keep_look(state, "p", [b"2"], 1, _new_id)
    assert kept_look(state, "p") == [b"2"]


@pytest.mark.parametrize("first_parts", [1, 2])
def test_two_at_once_leave_a_whole_look_of_one(state: LocalObjects, first_parts: int) -> None:
    """The second begins and ends while the first has created a part of its own."""
    inner = LocalObjects(str(state.uri))

    class Slow(LocalObjects):
        done = 0

        def create(self, key: str, data: bytes) -> None:
            self.done += 1
            if self.done == first_parts:
                keep_look(inner, "p", [b"x", b"y"], 2, _new_id)
            super().create(key, data)

    keep_look(state, "p", [b"0"], 1, _new_id)
    keep_look(Slow(str(state.uri)), "p", [b"a", b"b"], 2, _new_id)
    assert kept_look(state, "p") in ([b"x", b"y"], [b"a", b"b"])
    keep_look(state, "p", [b"z"], 1, _new_id)
    assert kept_look(state, "p") == [b"z"]
    assert len(state.keys("surveys/p")) == 1


def test_a_reader_begins_again_where_the_look_was_replaced(state: LocalObjects) -> None:
    keep_look(state, "p", [b"1", b"2"], 2, _new_id)
    writer = LocalObjects(str(state.uri))

    class Replaced(LocalObjects):
        replaced = False

        def get(self, key: str) -> bytes:
            if not self.replaced:
                self.replaced = True
                keep_look(writer, "p", [b"3", b"4"], 2, _new_id)
            return super().get(key)

    assert kept_look(Replaced(str(state.uri)), "p") == [b"3", b"4"]


def test_two_erasures_at_once_bring_nobody_back(state: LocalObjects) -> None:
    """The second reads what the first has read, and acts behind it."""
    for place, data in (("p", b"ann and bob"), ("q", b"bob"), ("r", b"eve")):
        keep_look(state, place, [data], 1, _new_id)
    other = LocalObjects(str(state.uri))

    def names_ann(data: bytes) -> bool:
        remove_naming(other, other.keys(ROOT), lambda found: b"bob" in found)
        return b"ann" in data

    remove_naming(state, state.keys(ROOT), names_ann)
    assert [kept_look(state, place) for place in "pqr"] == [[], [], [b"eve"]]


def test_a_look_that_is_kept_meanwhile_stays(state: LocalObjects) -> None:
    """An erasure reads an object, and sleeps while it is replaced."""
    keep_look(state, "p", [b"ann"], 1, _new_id)
    writer = LocalObjects(str(state.uri))

    def named(data: bytes) -> bool:
        keep_look(writer, "p", [b"2"], 1, _new_id)
        return data == b"ann"

    remove_naming(state, state.keys(ROOT), named)
    assert kept_look(state, "p") == [b"2"]


def test_what_is_no_look_is_left_alone(state: LocalObjects) -> None:
    state.put("surveys/p/notes.txt", b"?")
    state.put("surveys/p/000000000009-ab/1-of-2", b"half")
    assert kept_look(state, "p") == []
    keep_look(state, "p", [b"1"], 1, _new_id)
    assert kept_look(state, "p") == [b"1"]
