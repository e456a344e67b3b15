"""What a worker process does beside its work: it ends in time, and with the process that started it."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST = 1e8
"""Seconds that a timer takes."""


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Has the kernel end this process after some time, whatever holds the interpreter."""
    signal.setitimer(signal.ITIMER_REAL, min(seconds, LONGEST))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def end_with(connection: socket.socket) -> None:
    """Ends this process when the other side of the connection is closed, in the middle of a call too."""
    threading.Thread(target=_wait, args=(connection,), daemon=True).start()


def _wait(connection: socket.socket) -> None:
    poll = select.poll()
    poll.register(connection, select.POLLHUP)
    poll.poll()
    os._exit(0)
