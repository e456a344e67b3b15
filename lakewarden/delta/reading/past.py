"""Opens a version of a scope's past, and says which versions are left where that one is not."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import accumulate

from lakewarden.base.clock import from_millis, to_millis
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import DataFile, NewFile
from lakewarden.delta.past import AsOf
from lakewarden.delta.replay.actions import read_commit
from lakewarden.delta.replay.log_objects import LOG, MOST_COMMIT, commit_name, read_object
from lakewarden.delta.scope import existing_table
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import DatedLog, LogEntry, Timeline, entry_of, read_timeline, walk
from lakewarden.errors import Corrupt, LakewardenError, NotFound
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store

_AT_ONCE = 16
"""Commits that are read at once from an object store: of a table that is flushed each minute there are ten thousand a week."""


def open_past(target: ScopeTarget, as_of: AsOf, now: datetime) -> ScopeTable:
    """Opens that version, or the one that was the newest at that moment.

    A moment up to now has a version even if the newest one is older: scopes are quiet for days. A later one has none.

    Raises:
        NotFound: the version does not exist or can no longer be read; or no version existed at the moment, or it is still to
            come. The message names the versions that can be read.
        Corrupt, Unsupported: as `open_scope`.
    """
    if as_of.moment is None:
        assert as_of.version is not None  # one of the two is given
        return open_numbered(target, as_of.version)
    newest = existing_table(target)
    store = open_store(target.location)
    at_once = 1 if target.on_disk else _AT_ONCE
    log = DatedLog(store.list(LOG))
    timeline = timeline_about(store, newest.version, log, as_of.moment, at_once)
    timeline = timeline or read_timeline(store, newest.version, log, at_once)
    if as_of.moment > now and timeline.entries and to_millis(as_of.moment) > (last := timeline.entries[-1].at):
        raise NotFound(
            f"{target.scope} as of {as_of}: that is still to come, and more may be written until then; its newest version"
            f" {newest.version} is of {from_millis(last).isoformat()}"
        )
    version = timeline.at(as_of.moment)
    if version is None or not timeline.has(version):
        raise gone(target, newest, f"no version from {as_of} is left")
    return newest if version == newest.version else open_numbered(target, version)


def open_numbered(target: ScopeTarget, version: int) -> ScopeTable:
    """Opens that version. Raises as `open_past`."""
    try:
        table = existing_table(target, version)
    except (NotFound, Corrupt) as error:
        raise _reason(target, version, error) from error
    _check_not_erased(target, table)
    return table


def _check_not_erased(target: ScopeTarget, table: ScopeTable) -> None:
    """Raises:
    NotFound: the version is below a fence, whose erasure has not emptied it yet. There the newest version has no files.
    """
    newest = existing_table(target)
    if table.version == newest.version or newest.files():
        return
    if not timeline_of(newest).has(table.version):
        raise gone(target, newest, f"version {table.version} was removed")


def _reason(target: ScopeTarget, version: int, error: LakewardenError) -> LakewardenError:
    newest = existing_table(target)
    if version > newest.version:
        return gone(target, newest, f"there is no version {version}")
    if timeline_of(newest).has(version):
        return error
    return gone(target, newest, f"version {version} was removed by a vacuum, or is no longer in the log")


def timeline_of(newest: ScopeTable) -> Timeline:
    """The versions of a table of which that is the newest."""
    store = open_store(newest.location)
    return read_timeline(store, newest.version, DatedLog(store.list(LOG)))


def check_files(target: ScopeTarget, table: ScopeTable) -> None:
    """Call this where a version's files could not be read.

    Raises:
        NotFound: some of them are no longer there, and newer versions have replaced them.
    """
    newest = existing_table(target)
    lost = missing(table.files(), frozenset(open_store(target.location).keys()))
    if lost and table.version < newest.version:
        raise gone(target, newest, f"{len(lost)} of the files of version {table.version} are missing")


def missing(files: Iterable[DataFile | NewFile], present: frozenset[str]) -> list[str]:
    """The paths of the files that are not there."""
    return [file.path for file in files if file.path not in present]


def gone(target: ScopeTarget, newest: ScopeTable, what: str) -> NotFound:
    """Returns the refusal, with the versions that can be read."""
    store = open_store(target.location)
    listing = store.list("")
    timeline = read_timeline(store, newest.version, DatedLog(listing))
    return NotFound(f"{target.scope}: {what}; {versions_left(newest, timeline, frozenset(found.key for found in listing))}")


def versions_left(newest: ScopeTable, timeline: Timeline, present: frozenset[str]) -> str:
    """Says from which version on all files exist. `present` are the keys of the table's objects."""
    oldest = timeline.oldest_whole((file.path for file in newest.files()), present)
    if oldest is None:
        return "no version still works"
    kept = f", and version {', '.join(map(str, sorted(timeline.kept)))}" if timeline.kept else ""
    return f"versions {oldest} to {timeline.newest} still work{kept}"


# Finds the versions about a moment in a long log by a search, in place of reading all of its commits.
#
# The search takes the times of commits to ascend with their versions, but for clocks that differ by `SKEW`. Where those that it
# reads do not, the whole log has to be read: only then are all clocks known.

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
            commit = read_commit(version, read_object(store, commit_name(version), MOST_COMMIT))
            looked[version] = entry_of(commit, store.uri, log)
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
    entries = tuple(walk(store, near.stop - 1, at_once, log, above=near.start - 1))[::-1] if near else ()
    return Timeline(entries, newest, log.readable_from(newest), frozenset())


def _ascend(entries: Sequence[LogEntry]) -> bool:
    """Whether the times ascend with the versions, and none is ahead of the store's."""
    highest = accumulate((entry.at for entry in entries), max)
    slow = any(entry.at < high - SKEW for entry, high in zip(entries, highest, strict=True))
    return not slow and all(entry.at <= entry.stored + SKEW for entry in entries)
