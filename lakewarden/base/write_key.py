"""The key of a write that its client may send again, on its way to what is written: the log and Delta's commits carry it.

So whoever finds a write without an answer can look whether it was done (`serve.idempotency`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf

from lakewarden.base.threads import within

PARAMETER = "idempotency"
"""Under which the commit of a direct write has the key, among its parameters."""


@dataclass(frozen=True)
class Trace:
    """What a log shows of a write: how many of its rows it has, and whether that is all of them."""

    rows: int = 0
    found: bool = False
    whole: bool = True
    certain: bool = True
    """Whether the log would show it if it were there: of many such writes, it remembers the last ones."""


WITHIN_SECONDS = 300.0
"""From its request on, a keyed write begins no put later than this: who looks after twice the time, and takes the places
where a put may still come, knows that it was not done."""


@dataclass
class WriteKey:
    """A keyed request. `statement` counts from 0: those before it are done."""

    name: str
    until: float
    """By the monotonic clock, as `WITHIN_SECONDS` says."""
    statement: int = 0

    @property
    def text(self) -> str:
        return f"{self.name}.{self.statement}"


_CURRENT: ContextVar[WriteKey | None] = ContextVar("write_key", default=None)


def carrying(key: WriteKey) -> AbstractContextManager[None]:
    """What this thread writes in the block carries the key."""
    return within(_CURRENT, key)


def carried() -> str:
    """What a write of this thread carries; empty where its request has no key."""
    key = _CURRENT.get()
    return "" if key is None else key.text


def carried_until() -> float:
    """Until when a write of this thread may begin a put, by the monotonic clock."""
    key = _CURRENT.get()
    return inf if key is None else key.until


def begin_statement(number: int) -> None:
    """The statements before this one are done."""
    key = _CURRENT.get()
    if key is not None:
        key.statement = number


def part_of(key: str, number: int, parts: int) -> str:
    """What one of several segments of a call carries."""
    return key if parts == 1 else f"{key}/{number}/{parts}"


def trace_of(key: str, carried_rows: dict[str, int], *, certain: bool) -> Trace:
    """What these say of the write."""
    mine = {text: rows for text, rows in carried_rows.items() if text == key or text.startswith(f"{key}/")}
    parts = next((int(text.rpartition("/")[2]) for text in mine if "/" in text), 1)
    return Trace(sum(mine.values()), bool(mine), len(mine) == parts, certain)
