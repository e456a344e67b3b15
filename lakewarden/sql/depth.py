"""Room for text that is nested deep: sqlglot makes some twenty calls within each other for every bracket."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_CALLS = 8_000
"""Enough for more than 300 brackets. Calls of Python alone take little of a thread's stack: a megabyte does for these."""

_lock = threading.Lock()
_users: list[int] = []
"""The limit that each user found."""


@contextmanager
def deeper() -> Iterator[None]:
    """Within it, Python's calls may go as deep as that, in every thread: the limit is one of the process."""
    with _lock:
        _users.append(sys.getrecursionlimit())
        sys.setrecursionlimit(max(_CALLS, *_users))
    try:
        yield
    finally:
        with _lock:
            found = _users[0]
            _users.pop()
            if not _users:
                sys.setrecursionlimit(found)
