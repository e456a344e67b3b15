"""One thread after the other, by name; a name without a waiting thread leaves nothing behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from lakewarden.log.objects.log import NamedLocks
from tests.fixtures.patience import PATIENCE


def test_one_after_the_other_of_a_name_and_all_at_once_of_different_names() -> None:
    turns, first, others = NamedLocks(), Event(), []

    def take(name: str) -> None:
        with turns.of(name):
            others.append(name)
            assert first.wait(PATIENCE) or name != "a"

    with ThreadPoolExecutor(3) as pool:
        took = pool.submit(take, "a")
        while others != ["a"]:
            assert not took.done()
        again = pool.submit(take, "a")
        while turns._held["a"][1] < 2:
            assert not again.done()
        with turns.of("b"):
            assert others == ["a"], "the second waits, and who has another name does not"
        first.set()
        took.result(PATIENCE)
        again.result(PATIENCE)
    assert others == ["a", "a"]
    assert turns._held == {}


def test_who_has_the_turn_may_take_it_again_and_an_error_ends_it() -> None:
    turns = NamedLocks()
    with turns.of("a"), turns.of("a"):
        pass
    with pytest.raises(ZeroDivisionError), turns.of("a"):
        raise ZeroDivisionError
    assert turns._held == {}
