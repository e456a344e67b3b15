"""Time and randomness are parameters: production passes the system's, tests pass their own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Clock = Callable[[], datetime]
"""Returns the current moment, timezone-aware, in UTC."""

NewId = Callable[[], str]
"""Returns a new unique id: 32 hexadecimal digits."""


Pause = Callable[[float], None]
"""Waits for the given number of seconds."""

wait: Pause = time.sleep

HELD_AT_MOST = timedelta(hours=24)
"""The longest time between reading the store and committing what follows from it. After a longer sleep, a process reads again.
Fences and seals, which mark an abandoned place, stay for at least twice as long."""


CLOCKS_DIFFER = timedelta(minutes=10)
"""By how much clocks of machines may differ. A moment further ahead is of a wrong clock: it does not say when something was."""

system_clock: Clock = partial(datetime.now, UTC)


@dataclass(frozen=True)
class CarriedClock:
    """A clock that continues in another process from a moment read in this one, at the speed of the machine's clock."""

    moment: datetime
    began: datetime
    """The same moment, by this machine's clock."""

    @classmethod
    def of(cls, clock: Clock) -> CarriedClock:
        return cls(clock(), system_clock())

    def __call__(self) -> datetime:
        return self.moment + (system_clock() - self.began)


def random_id() -> str:
    return os.urandom(16).hex()


def to_millis(moment: datetime) -> int:
    """Milliseconds since the epoch, the unit of Delta's own timestamps."""
    return int(moment.timestamp() * 1000)


def to_micros(moment: datetime) -> int:
    """Microseconds since the epoch, exactly: the unit of the write log."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def is_ahead(moment: datetime, now: datetime) -> bool:
    """Whether only a wrong clock can have said so by `now`."""
    return moment > now + CLOCKS_DIFFER


def behind(before: datetime, now: datetime) -> datetime:
    """When something changes again: the milliseconds of its changes ascend, whatever the clocks say."""
    return max(now, before + timedelta(milliseconds=1))


def from_millis(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC)
