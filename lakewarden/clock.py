"""Time and randomness are parameters: production passes the system's, tests pass their own."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Clock = Callable[[], datetime]
"""Returns the current moment, timezone-aware, in UTC."""

NewId = Callable[[], str]
"""Returns a new unique id: 32 hexadecimal digits."""


Pause = Callable[[float], None]
"""Waits for so many seconds."""

wait: Pause = time.sleep

HELD_AT_MOST = timedelta(hours=24)
"""Between a look at the store and what is committed because of it. Who slept for longer looks again: fences and seals, which
tell that a place was given up, stay for twice that at least."""


def system_clock() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class CarriedClock:
    """A clock that goes on in another process from a moment that was read in this one, as fast as the machines' clocks do."""

    moment: datetime
    began: datetime
    """The same moment, as this machine said."""

    @classmethod
    def of(cls, clock: Clock) -> CarriedClock:
        return cls(clock(), system_clock())

    def __call__(self) -> datetime:
        return self.moment + (system_clock() - self.began)


def random_id() -> str:
    return uuid.uuid4().hex


def to_millis(moment: datetime) -> int:
    """Milliseconds since the epoch, the unit of Delta's own timestamps."""
    return int(moment.timestamp() * 1000)


def to_micros(moment: datetime) -> int:
    """Microseconds since the epoch, exactly: what the write log dates by."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_millis(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC)
