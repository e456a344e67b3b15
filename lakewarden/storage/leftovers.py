"""Removes what is left on a disk alone: bytes that never got a name, and directories that became empty.

A killed process or a stopped machine leaves such bytes in `.tmp`. They may hold rows, so they are removed once no process can
still be writing them. Removing one too early does no harm beyond that write: a writer whose file is gone fails, and has named
nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

from lakewarden.base.clock import Clock, system_clock
from lakewarden.storage.location import local_path
from lakewarden.storage.posix import TEMPORARY

AGE = timedelta(days=1)
"""No write takes this long. A writer that was paused for longer finds its file gone, and fails."""

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def machine_start(now: Clock = system_clock) -> datetime:
    """Returns when this machine started: no process still writes a file last written before then. If unknown, long ago."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return _LONG_AGO if clock is None else now() - timedelta(seconds=time.clock_gettime(clock))


def remove_all_leftovers(place: str) -> None:
    """Removes the files whatever their age: where a table is given up, no writer may name anything any more."""
    remove_leftovers(place, started=lambda: datetime.max.replace(tzinfo=UTC))


def remove_leftovers(place: str, clock: Clock = system_clock, started: Clock = machine_start) -> int:
    """Removes files last written a day ago, or before the machine started, and returns how many.

    Args:
        place: the root of a store, as a URI. Object stores have no leftovers: an object exists whole or not at all.
        clock: the clock that dates files: the machine's own.
        started: when the machine started, by that clock.
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


def remove_empty_directories(place: str) -> None:
    """Removes the place's directories in which nothing is, and the place itself: their names may be the id of an erased user, or
    values of partition columns.
    """
    root = local_path(place)
    for folder, _, _ in () if root is None else os.walk(root, topdown=False):
        with suppress(OSError):  # not empty, or used again just now
            os.rmdir(folder)


def remove_emptied_directories(place: str, keys: Iterable[str]) -> None:
    """Removes the directories below the place that held these keys and hold nothing any more."""
    root = local_path(place)
    if root is None:
        return
    folders = {parent for key in keys for parent in PurePosixPath(key).parents if parent.name}
    for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
        with suppress(OSError):  # as above
            os.rmdir(root / folder)
