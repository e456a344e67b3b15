"""The warehouse of sensors and schedules: open in the code server for as long as it ticks, without a resource of Dagster's.

To make a resource, Dagster opens its own storage in each tick, which costs more than most ticks do; and a warehouse that is
opened in each tick reads again what the one before had read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from lakewarden.base.settings import load_settings
from lakewarden.client import Lakehouse
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.resources.lakehouse import LAKE, HasResources


def lake_of_tick(context: HasResources, mount: Mount) -> Lakehouse:
    """The warehouse in a sensor or a schedule: a resource that was passed to it, or the one that this process's ticks share."""
    return getattr(context.resources, mount.named(LAKE), None) or lakehouse_of_ticks(mount.uri)


_OPENED_EACH = 300.0
"""Seconds: so late is a warehouse noticed that another one has replaced."""
_SHARED = 16


@dataclass(frozen=True)
class _Opened:
    lake: Lakehouse
    at: float


_opened: dict[str, _Opened] = {}


def lakehouse_of_ticks(uri: str, monotonic: Callable[[], float] = time.monotonic) -> Lakehouse:
    """The warehouse that ticks of this process share: what one has read, the next does not read again.

    It is opened anew each five minutes, and where the settings changed. The one before is not closed: another thread's tick may
    still use it, and ticks start neither Spark nor worker processes, which alone would have to end.
    """
    settings, now = load_settings(os.environ), monotonic()
    found = _opened.get(uri)
    if found is None or now - found.at > _OPENED_EACH or found.lake.warehouse.settings != settings:
        found = _Opened(Lakehouse.open(uri, settings=settings), now)
        _opened.pop(uri, None)
        _opened[uri] = found
        for oldest in list(_opened)[:-_SHARED]:
            _opened.pop(oldest, None)
    return found.lake
