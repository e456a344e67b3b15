"""Reads the tables of any writer: at their newest version, or at one of their past.

Nothing is written, and nothing outside of the table's own directory is read (`delta.replay.paths`).
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime
from functools import cache, partial
from itertools import accumulate

from lakewarden.base.clock import from_millis, to_millis
from lakewarden.base.connection import Location
from lakewarden.delta.features import check_readable
from lakewarden.delta.past import AsOf
from lakewarden.delta.replay.actions import read_commit
from lakewarden.delta.replay.log_objects import LOG, MOST_COMMIT, LogFiles, LogObjects, commit_name
from lakewarden.delta.replay.log_state import LogState, replay
from lakewarden.errors import Corrupt, NotFound
from lakewarden.storage.open import open_store


def open_foreign(location: Location, as_of: AsOf | None = None) -> LogState:
    """Opens the newest version, or that of the past; `delta.replay.columns` reads its rows.

    Raises:
        NotFound: there is no Delta table, or no such version.
        Corrupt: its log is damaged.
        Unsupported: it has a feature or a type of column that is not read, or its log is larger than is read.
        OutsideTable: its log leads out of the table's own directory.
    """
    version = None if as_of is None else as_of.version
    if as_of is not None and as_of.moment is not None:
        version = version_at(location, as_of.moment)
    state = replay(location, version)
    if state is None and LogObjects(location).files().newest is not None:
        raise Corrupt(f"torn-commit: {location.uri} has no whole commit, which is one JSON object a line")
    if state is None:
        raise NotFound(f"there is no Delta table at {location.uri}")
    check_readable(state)
    return state


def version_at(location: Location, moment: datetime) -> int:
    """The version that was the newest at that moment: by the commits' own times from where the table keeps them on, which ascend,
    before that by when their objects were written ("In-Commit Timestamps"). As for our own tables (`delta.timeline`), a version
    counts from when it and all before it were there.

    Raises:
        NotFound: there was none, or it has left the log.
    """
    listing, limit, reader = open_store(location).list(LOG), to_millis(moment), LogObjects(location)
    written = {found.key: to_millis(found.modified) for found in listing}
    versions = sorted(LogFiles.of(written).commits)
    if not versions:
        raise NotFound(f"there is no Delta table at {location.uri}")
    oldest, own = versions[0], cache(partial(_own_time, reader))
    if own(versions[-1]) is not None:  # else they are kept no more
        versions = versions[: bisect_left(versions, True, key=lambda version: (own(version) or limit) > limit)]
        if versions and own(versions[-1]) is not None:
            return versions[-1]
    since = accumulate((written[commit_name(version)] for version in versions), max)
    if there := [version for version, time in zip(versions, since, strict=True) if time <= limit]:
        return there[-1]
    first = from_millis(own(oldest) or written[commit_name(oldest)])
    raise NotFound(f"{location.uri} had no version at {moment.isoformat()}: the oldest in its log is of {first.isoformat()}")


def _own_time(log: LogObjects, version: int) -> int | None:
    """In milliseconds since the epoch; None where the commit has none."""
    info = read_commit(version, log.read(commit_name(version), MOST_COMMIT)).info
    said = info.get("inCommitTimestamp")
    return said if isinstance(said, int) else None
