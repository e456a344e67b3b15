"""A scope's versions in time: which exist, when each was the newest, and which a vacuum has given up.

Two clocks date each commit: its writer's, and that of the store which holds it. Both are ordered by version: a writer with a
slow clock does not come before those that it followed. Restore and vacuum both use this, so what one still promises the
other still has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import accumulate

from lakewarden.base.clock import to_millis
from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.replay.actions import CommitActions
from lakewarden.delta.replay.log_objects import LOG, LogFiles, commit_name, version_of
from lakewarden.delta.replay.paths import key_of, root_at
from lakewarden.storage.objects import ObjectStore, StoredObject

VACUUM_START = "VACUUM START"
VACUUM_END = "VACUUM END"
OLDEST = "oldest_version"
KEPT = "keep_versions"
"""Parameters of a VACUUM START: the oldest version that it left whole, and older ones that it left whole too."""

_NEVER = 1 << 62
"""Milliseconds; the time of a commit that came after the listing: nothing is known to be older."""


@dataclass(frozen=True)
class LogEntry:
    """One commit: what it did to the files, and when its writer's clock said so (`at`, milliseconds)."""

    version: int
    at: int
    operation: str
    stamp: CommitStamp | None
    adds: frozenset[str]
    removes: frozenset[str]
    changes: frozenset[str] = frozenset()
    """Its change files, for readers of Delta's change data feed: what became of the rows of the version before."""
    transactions: tuple[tuple[str, int], ...] = ()
    """By application id, up to where rows of a log are in the table or will never be, where the commit raised that."""
    stored: int = 0
    """When the store wrote the commit's object, by the store's clock, in milliseconds; 0 without a listing."""

    @property
    def fences(self) -> bool:
        """Whether nothing that was committed before it is there any more."""
        return self.stamp is not None and self.stamp.fences

    @property
    def since(self) -> int:
        """The later of the two times: the commit existed then, unless both clocks were slow."""
        return max(self.at, self.stored)


@dataclass(frozen=True)
class Timeline:
    """The versions of a table up to `newest`.

    `entries` ascend without a gap, end at `newest`, and reach back at least to the commit after `oldest`.
    """

    entries: tuple[LogEntry, ...]
    newest: int
    oldest: int
    """The oldest version that is still in the log and that no vacuum has given up."""
    kept: frozenset[int]
    """Older versions that the last vacuum had to keep."""

    def at(self, moment: datetime) -> int | None:
        """Returns the version that was the newest at that moment by the commits' times; None before the first known version.

        A version counts from when it and all before it existed, so under clock skew the order is still by version.
        """
        return self._newest((entry.at for entry in self.entries), moment)

    def needed_since(self, horizon: datetime) -> int:
        """Returns the oldest version that was the newest at some moment since `horizon` by either clock.

        Never above `at(moment)` of a moment since then, so a restore to that moment finds its version.
        """
        return max(self._newest((entry.since for entry in self.entries), horizon) or 0, self.oldest)

    def ahead(self, moment: datetime) -> bool:
        """Returns whether a commit has a time after that moment, and no newer vacuum has an earlier one.

        A clock that ran years ahead would keep the versions before it for years; a vacuum that saw them ends that.
        """
        late = [entry.version for entry in self.entries if entry.since > to_millis(moment)]
        return bool(late) and (self._seen(moment) or 0) < late[-1]

    def _newest(self, times: Iterable[int], moment: datetime) -> int | None:
        """Returns the newest version that existed at that moment with all before it, or that a vacuum had seen."""
        dated = zip(self.entries, accumulate(times, max), strict=True)
        there = (entry.version for entry, time in dated if time <= to_millis(moment))
        return max((version for version in (self._seen(moment), *there) if version is not None), default=None)

    def _seen(self, moment: datetime) -> int | None:
        """Returns the newest commit of a vacuum that existed at that moment, whatever the times before it."""
        marks = (entry for entry in self.entries if entry.operation in (VACUUM_START, VACUUM_END))
        return max((entry.version for entry in marks if entry.since <= to_millis(moment)), default=None)

    def has(self, version: int) -> bool:
        return self.oldest <= version <= self.newest or version in self.kept

    def added_after(self, version: int) -> frozenset[str]:
        """The files that later commits added, change files too."""
        return frozenset().union(*(entry.adds | entry.changes for entry in self.entries if entry.version > version))

    @cached_property
    def named(self) -> frozenset[str]:
        """Every file that a commit of `entries` names."""
        return frozenset().union(*(entry.adds | entry.removes | entry.changes for entry in self.entries))

    def oldest_whole(self, live: Iterable[str], present: frozenset[str]) -> int | None:
        """The lowest version from which on every version's files all exist; None when not even the newest's do.

        Args:
            live: the newest version's files.
        """
        files = frozenset(live)
        whole: int | None = None
        for entry in reversed(self.entries):
            if entry.version < self.oldest or not files <= present:
                return whole
            whole = entry.version
            files = (files - entry.adds) | entry.removes
        return self.oldest if files <= present else whole


class DatedLog:
    """The objects of a table's log as one listing shows them: which versions they make, and when the store wrote them."""

    def __init__(self, listing: Iterable[StoredObject]) -> None:
        """`listing`: of the table's directory, or of its log alone."""
        self._objects = {found.key: found for found in listing if found.key.startswith(f"{LOG}/")}
        self.files = LogFiles.of(self._objects)

    def written_at(self, version: int) -> int:
        """Returns when the store wrote a version's commit, in milliseconds; `_NEVER` of one that came after the listing."""
        found = self._objects.get(commit_name(version))
        return _NEVER if found is None else to_millis(found.modified)

    @cached_property
    def checkpoints(self) -> dict[int, datetime]:
        """The versions that have a complete checkpoint, and when it was written."""
        return {each.version: max(self._objects[name].modified for name in each.names) for each in self.files.checkpoints}

    @cached_property
    def _versions(self) -> dict[str, int]:
        """By name, the commits and the parts of checkpoints."""
        found = ((name, version_of(name)) for name in self._objects)
        return {name: version for name, version in found if version is not None}

    def superfluous_since(self, gone: Collection[str] = ()) -> datetime | None:
        """Returns when the first checkpoint was written that has older objects of the log below it, besides those that are
        `gone`; None without one."""
        oldest = min((version for name, version in self._versions.items() if name not in gone), default=0)
        return min((written for version, written in self.checkpoints.items() if version > oldest), default=None)

    def readable_commits(self, newest: int) -> range:
        """Returns the versions up to `newest` whose commits are there without a gap. One that a fence emptied is not."""
        first = newest + 1
        while (below := self._objects.get(commit_name(first - 1))) is not None and below.size:
            first -= 1
        return range(first, newest + 1)

    def readable_from(self, newest: int) -> int:
        """Returns the oldest version that a reader can construct: from the first commit, or from a checkpoint."""
        first = self.readable_commits(newest).start
        if first == 0:
            return 0
        return min((version for version in self.checkpoints if first - 1 <= version <= newest), default=newest)

    def expired(self, below: int, before: datetime, readable: Callable[[int], bool]) -> tuple[str, ...]:
        """Returns objects that only versions older than `below` need and that are older than that moment, oldest first.

        A checkpoint replaces them: it is itself older than `before`, so every version that becomes unreadable had been
        replaced by then.

        Args:
            readable: whether a version's checkpoint can be read; called only before removing something because of it.
        """
        old = sorted((version, name) for name, version in self._versions.items() if self._objects[name].modified <= before)
        ripe = (version for version, written in self.checkpoints.items() if version <= below and written <= before)
        for start in sorted(ripe, reverse=True):
            expired = tuple(name for version, name in old if version < start)
            if not expired or readable(start):
                return expired
        return ()


def read_timeline(store: ObjectStore, newest: int, log: DatedLog, at_once: int = 1) -> Timeline:
    """Reads the commits from `newest` back to the last finished vacuum's oldest version, or to the start of the log.

    Args:
        log: says when the store wrote each commit.
        at_once: how many commits are read at once, some of them in vain.
    """
    entries: list[LogEntry] = []
    vacuum: CommitStamp | None = None
    finished: set[str] = set()
    floor = 0
    for entry in walk(store, newest, at_once, log):
        entries.append(entry)
        if entry.stamp is not None and entry.operation == VACUUM_END:
            finished.add(entry.stamp.job_id)
        elif entry.stamp is not None and entry.operation == VACUUM_START:
            # The newest one counts, even if it died: what it set out to delete may be gone.
            vacuum = vacuum or entry.stamp
            # The walk goes backwards, so an end comes before its start; only a vacuum that ended leaves nothing older.
            if entry.stamp.job_id in finished and not _kept(entry.stamp):
                floor = max(floor, _oldest(entry.stamp))
        if entry.fences:
            floor = max(floor, entry.version)
        if entry.version <= floor:
            break
    fence = max((entry.version for entry in entries if entry.fences), default=0)
    oldest = max(log.readable_from(newest), _oldest(vacuum) if vacuum else 0, fence)
    kept = frozenset(version for version in (_kept(vacuum) if vacuum else ()) if version >= fence)
    return Timeline(tuple(reversed(entries)), newest, oldest, kept)


def walk(
    store: ObjectStore, newest: int, threads: int = 1, log: DatedLog | None = None, *, above: int = -1
) -> Iterator[LogEntry]:
    """Reads the commits from `newest` back to the one behind `above`, or to the start of the log, so many at once; `log` says
    when the store wrote them. Ends at a fence: nothing that was committed before it is there any more, though what is below may
    not be emptied yet."""
    for commit in CommitLog(store).back(newest, above, threads):
        entry = entry_of(commit, store.uri, log)
        yield entry
        if entry.fences:
            return


def _oldest(stamp: CommitStamp) -> int:
    return int(stamp.parameters.get(OLDEST, "0"))


def _kept(stamp: CommitStamp) -> frozenset[int]:
    return frozenset(int(version) for version in stamp.parameters.get(KEPT, "").split(",") if version)


def entry_of(commit: CommitActions, uri: str, log: DatedLog | None = None) -> LogEntry:
    """Returns what a commit says. `uri` of the table; `log` as for `walk`."""
    actions, info, root = commit.actions, commit.info, root_at(uri)
    adds = {key_of(each.add.path, root): each.add.modification_time or 0 for each in actions if each.add is not None}
    gone = [each.remove for each in actions if each.remove is not None]
    removes = {key_of(remove.path, root): remove.deletion_timestamp or 0 for remove in gone}
    stamp = CommitStamp.of(commit)
    times = (info.get("inCommitTimestamp"), info.get("timestamp"), max([0, *adds.values(), *removes.values()]))
    return LogEntry(
        commit.version,
        next((time for time in times if isinstance(time, int) and time), 0),
        stamp.operation if stamp else str(info.get("operation", "UNKNOWN")),
        stamp,
        frozenset(adds),
        frozenset(removes),
        frozenset(key_of(each.cdc.path, root) for each in actions if each.cdc is not None),
        tuple((each.txn.app_id, each.txn.version) for each in actions if each.txn is not None),
        0 if log is None else log.written_at(commit.version),
    )
