"""Raises Python's recursion limit for deeply nested text: sqlglot nests about twenty calls for every bracket."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_CALLS = 8_000
"""Enough for more than 300 brackets. Pure Python calls take little stack: one megabyte is enough for these."""

_lock = threading.Lock()
_users: list[int] = []
"""The limit that each caller found."""


@contextmanager
def deeper() -> Iterator[None]:
    """Allows calls of this depth inside the block, in every thread: the limit belongs to the process."""
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
