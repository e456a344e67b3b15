"""How often the flush sensor looks and requests: at once where little goes on, and no more than before where much does.

A row that is due should not wait for the next tick, so ticks are short apart. But the start of a run costs seconds of the
processor, and so does adding up a long log.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

APART = timedelta(seconds=15)
"""Between two requests of runs: what becomes due meanwhile shares one."""

_SHORT = timedelta(seconds=1)
_RESTS = 3
"""A look that takes longer than a second is followed by a rest of so many times as long."""


class Pace(msgspec.Struct, frozen=True):
    """The cursor of the flush sensor."""

    requested: datetime | None = None
    """When it last requested runs for all that was due."""
    rests_until: datetime | None = None

    def rests(self, now: datetime) -> bool:
        return self.rests_until is not None and now < self.rests_until

    def gathers(self, now: datetime) -> bool:
        """Whether what is due waits for what becomes due within the next seconds."""
        return self.requested is not None and self.requested <= now < self.requested + APART

    def with_request(self, now: datetime) -> Pace:
        return msgspec.structs.replace(self, requested=now)

    def looked(self, began: datetime, ended: datetime) -> Pace:
        """Behind a look."""
        took = ended - began
        return msgspec.structs.replace(self, rests_until=ended + _RESTS * took if took > _SHORT else None)


def read_pace(cursor: str | None) -> Pace:
    """One that cannot be read is as none: the sensor looks and requests at once."""
    try:
        return msgspec.json.decode(cursor or "{}", type=Pace)
    except msgspec.DecodeError:
        return Pace()


def cursor_of(pace: Pace) -> str:
    return msgspec.json.encode(pace).decode()
