"""Keys that a listing shows newest first: they begin with the moment, counted backwards."""

from __future__ import annotations

from datetime import datetime

from lakewarden.base.clock import to_millis

_LAST_MILLIS = 10**14
"""From which milliseconds are counted: the year 5138."""


def backwards(moment: datetime) -> str:
    return f"{_LAST_MILLIS - to_millis(moment):014d}"
