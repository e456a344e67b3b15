from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from lakewarden.catalog.heartbeat import BeatThread
from lakewarden.errors import StorageUnavailable


def counting(most: int, reached: threading.Event, error: Exception | None = None) -> tuple[list[int], Callable[[], bool]]:
    """Beats that are counted; the last one of `most` sets the event, and says that it was the last."""
    beats: list[int] = []

    def beat() -> bool:
        beats.append(len(beats))
        if len(beats) == most:
            reached.set()
            return False
        if error is not None:
            raise error
        return True

    return beats, beat


@pytest.mark.parametrize("error", [None, StorageUnavailable("it is away")])
def test_it_beats_until_a_beat_is_the_last_also_while_a_store_is_away(error: Exception | None) -> None:
    reached = threading.Event()
    beats, beat = counting(5, reached, error)
    with BeatThread("x", beat, 0.001) as thread:
        assert reached.wait(60)
        thread.join(60)
        assert not thread.is_alive()
    assert len(beats) == 5


def test_behind_its_end_no_beat_comes() -> None:
    reached = threading.Event()
    beats, beat = counting(3, reached)
    with BeatThread("x", beat, 3600, first=0):
        pass
    assert beats == [0]
    with BeatThread("x", beat, 3600):
        pass
    assert beats == [0]
