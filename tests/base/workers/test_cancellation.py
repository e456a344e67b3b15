"""What is cancelled ends in its block, before it, and never behind it."""

from __future__ import annotations

import pickle

import pytest

from lakewarden.base.cancellation import Cancellation
from lakewarden.errors import Canceled


def test_every_open_block_is_ended_once() -> None:
    cancellation, ended = Cancellation(), list[str]()
    with cancellation.ending(lambda: ended.append("outer")), cancellation.ending(lambda: ended.append("inner")):
        assert not ended
        cancellation.check()
        cancellation.cancel()
        cancellation.cancel()
    assert sorted(ended) == ["inner", "outer"]


def test_a_block_that_has_ended_is_left_alone_and_none_begins_afterwards() -> None:
    cancellation, ended = Cancellation(), list[str]()
    with cancellation.ending(lambda: ended.append("before")):
        pass
    cancellation.cancel()
    with pytest.raises(Canceled), cancellation.ending(lambda: ended.append("behind")):
        ended.append("begun")
    assert not ended


def test_a_copy_in_another_process_is_one_of_its_own() -> None:
    cancellation = Cancellation()
    copy = pickle.loads(pickle.dumps(cancellation))
    cancellation.cancel()
    copy.check()
    with copy.ending(lambda: None):
        copy.cancel()
    with pytest.raises(Canceled):
        copy.check()
