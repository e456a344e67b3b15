"""Finds the versions about a moment in a long log by a search, in place of reading all of its commits.

The search takes the times of commits to ascend with their versions, but for clocks that differ by `SKEW`. Where those that it
reads do not, the whole log has to be read: only then are all clocks known.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate, takewhile

from lakewarden.base.clock import to_millis
from lakewarden.delta.replay.segment import commit_name
from lakewarden.delta.timeline import DatedLog, LogEntry, Timeline, entry_of, walk
from lakewarden.storage.objects import Missing, ObjectStore

SHORT = 256
"""Commits of a log that is read as a whole: a search would save little, and whatever the clocks were, it is right."""

SKEW = 10 * 60 * 1000
"""Milliseconds by which clocks of writers and of the store may differ. All commits so close to the moment are read."""


def timeline_about(store: ObjectStore, newest: int, log: DatedLog, moment: datetime, at_once: int = 1) -> Timeline | None:
    """Returns what `Timeline.at` needs for that moment; None where the whole log has to be read.

    Which versions a vacuum has given up is unknown to it: their files may be missing.
    """
    versions = log.readable_commits(newest)
    if len(versions) <= SHORT:
        return None
    looked: dict[int, LogEntry] = {}

    def time(version: int) -> int:
        if version not in looked:
            looked[version] = entry_of(version, store.get(commit_name(version)), store.uri, log)
        return looked[version].at

    at = to_millis(moment)
    try:
        time(versions[0])
        time(versions[-1])
        first = bisect_left(versions, True, key=lambda version: time(version) > at - SKEW)
        end = bisect_left(versions, True, key=lambda version: time(version) > at + SKEW)
    except Missing:  # removed since the listing
        return None
    if not _ascend([looked[version] for version in sorted(looked)]):
        return None
    near = versions[max(0, first - 1) : end]
    back = takewhile(lambda entry: entry.version >= near.start, walk(store, near.stop - 1, at_once, log))
    entries = tuple(back)[::-1] if near else ()
    return Timeline(entries, newest, log.readable_from(newest), frozenset())


def _ascend(entries: Sequence[LogEntry]) -> bool:
    """Whether the times ascend with the versions, and none is ahead of the store's."""
    highest = accumulate((entry.at for entry in entries), max)
    slow = any(entry.at < high - SKEW for entry, high in zip(entries, highest, strict=True))
    return not slow and all(entry.at <= entry.stored + SKEW for entry in entries)
