"""Renews a lease while its holder lives, from a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lakewarden.errors import Conflict, StorageUnavailable


@contextmanager
def renewing(name: str, seconds: float, renew: Callable[[], object]) -> Iterator[None]:
    """Calls `renew` three times in a lease's period, until the block ends or it raises `Conflict`: the lease is lost, which the
    next change under it then reports."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(seconds / 3):
            try:
                renew()
            except Conflict:
                return
            except StorageUnavailable:
                continue

    thread = threading.Thread(target=beat, name=f"lease-{name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
