"""Works in steps: all that one waits for is durable before it goes on, and a sync serves as many as wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest

from lakewarden.errors import LakewardenError, StorageUnavailable
from lakewarden.storage import steps
from lakewarden.storage.steps import AT_ONCE, Steps, alone, in_one_step, together

_BAD = "/bad"


class _Disk:
    """What was synced, round by round, and what had been done until then."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.rounds: list[tuple[int, set[str]]] = []

    def sync(self, uris: Iterable[str]) -> dict[str, LakewardenError]:
        places = set(uris)
        if places:
            self.rounds.append((len(self.done), places))
        return {place: StorageUnavailable("the disk is broken") for place in places if place == _BAD}

    def work(self, name: str, *places: str) -> Steps[str]:
        for place in places:
            self.done.append(f"{name} wrote to {place}")
            yield place
        self.done.append(f"{name} ended")
        return name


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> _Disk:
    disk = _Disk()
    monkeypatch.setattr(steps, "sync_each", disk.sync)
    return disk


def test_one_sync_serves_all_that_wait(disk: _Disk) -> None:
    works = [disk.work("a", "/one", "/two"), disk.work("b", "/one"), disk.work("c"), disk.work("d", "/two", "/one", "/one")]
    assert together(works) == ["a", "b", "c", "d"]
    assert disk.rounds == [(4, {"/one", "/two"}), (7, {"/one", "/two"}), (9, {"/one"})]


def test_results_keep_their_order_whoever_advances_them(disk: _Disk) -> None:
    with ThreadPoolExecutor(4) as pool:
        works = [disk.work(str(number), *["/one"] * (number % 3)) for number in range(50)]
        assert together(works, pool.map) == [str(number) for number in range(50)]
    assert len(disk.rounds) == 2


def test_no_more_than_some_are_under_way(disk: _Disk) -> None:
    begun = []

    def works() -> Iterator[Steps[int]]:
        for number in range(AT_ONCE + 1):
            begun.append(len(disk.rounds))
            yield one(number)

    def one(number: int) -> Steps[int]:
        yield "/one"
        return number

    assert together(works()) == list(range(AT_ONCE + 1))
    assert begun == [0] * AT_ONCE + [1]


def test_a_sync_that_fails_is_raised_in_those_that_wait_for_it_and_in_no_other(disk: _Disk) -> None:
    works = [_told(disk.work("a", _BAD)), _told(disk.work("b", "/one")), _told(disk.work("c", "/one", _BAD, "/one"))]
    assert together(works) == ["the disk is broken", "b", "the disk is broken"]
    assert disk.done == ["a wrote to /bad", "b wrote to /one", "c wrote to /one", "b ended", "c wrote to /bad"]


def _told(work: Steps[str]) -> Steps[str]:
    try:
        return (yield from work)
    except StorageUnavailable as error:
        return error.message


def test_what_one_raises_ends_them_all_and_they_clean_up(disk: _Disk) -> None:
    cleaned = []

    @contextmanager
    def cleaning() -> Iterator[None]:
        try:
            yield
        finally:
            cleaned.append("cleaned")

    def waits() -> Steps[None]:
        with cleaning():
            yield "/one"
            yield "/one"

    def fails() -> Steps[None]:
        yield "/one"
        raise ValueError("odd")

    with pytest.raises(ValueError, match="odd"):
        together([waits(), fails()])
    assert cleaned == ["cleaned"]
    assert len(disk.rounds) == 1


def test_one_step_is_no_sync(disk: _Disk) -> None:
    assert alone(in_one_step(partial(int, base=16), "ff")) == 255
    assert disk.rounds == []
