"""Says whether another daemon works on this instance: two of them would start every run and every tick twice.

A program, which `lakewarden ui` starts before Dagster where the storage may be shared. Dagster's daemons beat in their storage
every 30 seconds. Whether a beat *advances* is seen without comparing the clocks of two machines.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping

import dagster as dg

from lakewarden.base.clock import Clock, system_clock

OTHER_DAEMON = 3
"""The exit status when there is one."""

_BEATS_WITHIN = 40.0
_LONG_AGO = 600.0
"""Seconds after which a beat is not waited for: no clocks differ by that much."""


def other_daemon(instance: dg.DagsterInstance, sleep: Callable[[float], None], now: float) -> str | None:
    """The id of a daemon that beats while this looks; None if none does within the time that two beats take."""
    before = _beats(instance)
    if all(beat < now - _LONG_AGO for beat in before.values()):
        return None
    for _ in range(int(_BEATS_WITHIN)):
        sleep(1.0)
        found = next((daemon for daemon, beat in _beats(instance).items() if beat > before.get(daemon, 0.0)), None)
        if found is not None:
            return found
    return None


def _beats(instance: dg.DagsterInstance) -> Mapping[str, float]:
    """The newest beat of each daemon process, by its id."""
    beats: dict[str, float] = {}
    for beat in instance.get_daemon_heartbeats().values():
        daemon = beat.daemon_id or beat.daemon_type
        beats[daemon] = max(beat.timestamp, beats.get(daemon, 0.0))
    return beats


def main(clock: Clock = system_clock) -> int:
    with dg.DagsterInstance.get() as instance:
        found = other_daemon(instance, time.sleep, clock().timestamp())
    if found is None:
        return 0
    sys.stdout.write(
        f"another Dagster daemon ({found}) works on the storage that {instance.root_directory} names: two daemons would start"
        " every run twice; stop it, or give this one a storage of its own"
    )
    return OTHER_DAEMON


if __name__ == "__main__":
    sys.exit(main())
