"""The look that kept knowledge of a scope needs before it is used: is the commit that it is of still there?

That version v + 1 does not exist proves neither that v does nor that it is the same: the log may have expired below a
checkpoint, a dropped table may have been swept away and started again, a backup may have been restored. So commit v is read
and its digest compared; no two commits are equal. If it is there and young, nothing above it can have been removed, and a
commit that is created as v + 1 can only follow it. If it is old, one listing shows whether something is above it
(docs/decisions/0033-snapshots-without-opening.md).
"""

from __future__ import annotations

import re
from datetime import timedelta
from hashlib import sha256

from lakewarden.base.clock import HELD_AT_MOST, Clock, system_clock
from lakewarden.base.connection import Location
from lakewarden.delta.commit_log.commits import LOG, commit_name
from lakewarden.delta.snapshot import Snapshot
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import Missing, ObjectStore, keys_of
from lakewarden.storage.open import open_store

YOUNG = HELD_AT_MOST / 2
"""A commit that is younger, by the store's time, has nothing above it that is old enough to be removed within
`HELD_AT_MOST` of the look: fences stay for twice that time, log entries longer. The other half is for clocks that differ."""

_LOG_STAYS = "delta.logRetentionDuration"
_HOURS = re.compile(r"interval (\d+) hours")

_VERSION = re.compile(rf"{LOG}/(\d{{20}})\.")


def is_current(location: Location, kept: Snapshot, *, newest: bool, clock: Clock = system_clock) -> bool:
    """Returns whether a commit that follows this version may be tried: its own commit is there.

    Args:
        newest: also whether it is the newest version. On a disk that is always looked at.
        clock: compared with the store's times.
    """
    store, version = open_store(location), kept.version
    if (newest or local_path(location.uri) is not None) and store.has(commit_name(version + 1)):
        return False
    try:
        text, modified = store.get_dated(commit_name(version))
    except Missing:
        return False
    if sha256(text).hexdigest() != kept.digest:
        return False
    young = abs(clock() - modified) < YOUNG
    return (young and _keeps_its_log(kept)) or _is_last(store, version)


def _keeps_its_log(kept: Snapshot) -> bool:
    """Whether no program removes young entries of its log. Our tables say so in hours, Delta's default is 30 days; where another
    program has set it in other words, that is not known."""
    said = kept.head.configuration.get(_LOG_STAYS)
    if said is None:
        return True
    hours = _HOURS.fullmatch(said)
    return hours is not None and timedelta(hours=int(hours[1])) >= 2 * HELD_AT_MOST


def _is_last(store: ObjectStore, version: int) -> bool:
    """Whether one listing shows that version as the last. What removes a log leaves a checkpoint above it until the end."""
    names = keys_of(store, LOG)
    above = any(int(found[1]) > version for name in names if (found := _VERSION.match(name)))
    return commit_name(version) in names and not above
