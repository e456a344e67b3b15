"""What creations on a disk leave in `.tmp` when their process is killed, or their machine stops: bytes that never got a name.

They may hold rows, so they go as soon as no process can still be writing them. To remove one too early would do no harm
beyond that write: who finds its file gone fails, and has named nothing.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from lakewarden.clock import Clock, system_clock
from lakewarden.storage.location import local_path
from lakewarden.storage.posix import TEMPORARY

AGE = timedelta(days=1)
"""No write takes that long; a writer that was paused longer finds its file gone, and fails."""

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def machine_start() -> datetime:
    """When this machine was started: no process writes a file that was last written before. Long ago where that is not known."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return _LONG_AGO if clock is None else system_clock() - timedelta(seconds=time.clock_gettime(clock))


def remove_leftovers(place: str, clock: Clock = system_clock, started: Clock = machine_start) -> int:
    """Removes what was last written a day ago, or before the machine was started, and returns how many files that were.

    Args:
        place: the root of a store, as a URI. Object stores have no leftovers: an object is there whole, or not at all.
        clock: by which the file system dates files: the machine's own.
        started: when the machine was started, by that clock.
    """
    root = local_path(place)
    if root is None:
        return 0
    before, removed = max(clock() - AGE, started()).timestamp(), 0
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError), os.scandir(root / TEMPORARY) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # its writer is alive, and done with it
                if entry.stat(follow_symlinks=False).st_mtime < before:
                    os.unlink(entry.path)
                    removed += 1
    return removed
