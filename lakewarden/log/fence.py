"""The fence of a table with one streaming writer: each stream that takes the place over raises it, and writes of earlier ones are
refused where they would be appended or committed (tables/dynamic/place).

What a thread writes on behalf of a stream carries the token of its lease, as a keyed write carries its key (`write_key`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lakewarden.errors import LostPlace

_TOKEN: ContextVar[int | None] = ContextVar("stream_token", default=None)


@contextmanager
def fenced(token: int) -> Iterator[None]:
    """What this thread writes in the block is refused with `LostPlace` once the table's fence is higher than the token."""
    before = _TOKEN.set(token)
    try:
        yield
    finally:
        _TOKEN.reset(before)


def carried_token() -> int | None:
    """The token that a write of this thread carries; None where it is no stream's."""
    return _TOKEN.get()


def check_fence(fence: int, token: int | None) -> None:
    """Raises:
    LostPlace: the write carries a token below the fence.
    """
    if token is not None and token < fence:
        raise LostPlace("another stream has taken over the place of the table's streaming writer: nothing was written")
