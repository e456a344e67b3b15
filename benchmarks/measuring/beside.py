"""Keeps something going beside what is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event


@contextmanager
def always(call: Callable[[], object]) -> Iterator[None]:
    """Makes the call again and again in a thread, while the block runs."""
    over, begun = Event(), Event()

    def go_on() -> None:
        while not over.is_set():
            begun.set()
            call()

    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(go_on)
        begun.wait()
        try:
            yield
        finally:
            over.set()
            going.result()
