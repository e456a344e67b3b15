"""One version of a table by its log: the replay of a checkpoint and the commits behind it.

Source: Delta's protocol, "Action Reconciliation". What is derived may be damaged: a checkpoint that can't be read is passed over,
for an older one or for the commits, and `notes` says so. What is damaged and not derived is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lakewarden.base.connection import Location
from lakewarden.delta.replay.actions import (
    AddFile,
    CommitActions,
    Metadata,
    Protocol,
    TornText,
    is_torn,
    read_commit,
    read_compaction,
)
from lakewarden.delta.replay.checkpoints import MOST_FILES, Checkpoint, read_checkpoint
from lakewarden.delta.replay.live_files import FileKey, of_adds, without
from lakewarden.delta.replay.log_objects import MOST_COMMIT, CheckpointFiles, LogFiles, LogObjects, commit_name
from lakewarden.delta.replay.paths import key_of, root_of
from lakewarden.errors import Corrupt, NotFound, Unsupported
from lakewarden.storage.objects import Missing

PASSED_OVER = "checkpoint-unreadable"
"""The kind of the note on a checkpoint that was left out."""


@dataclass(frozen=True)
class Note:
    """Something that is wrong with a log, and did not keep its version from being read."""

    kind: str
    detail: str
    versions: tuple[int, ...] = ()
    damaging: bool = True
    """False for what may stand in a sound table, and is worth saying."""


@dataclass(frozen=True)
class LogState:
    """A version of a table, as its log has it."""

    location: Location
    version: int
    protocol: Protocol
    metadata: Metadata
    files: pa.Table
    """The live files, in no order; columns as of `live_files.FILES`."""
    transactions: dict[str, int]
    """Version by application id."""
    domains: dict[str, str | None]
    """Configuration by domain; removed ones are not there."""
    log: LogFiles
    newest: CommitActions | None
    """The commit that made it; None where it has left the log."""
    checkpoint: CheckpointFiles | None
    """That it was read from."""
    notes: tuple[Note, ...] = ()
    torn: int | None = None
    """The version above it whose commit is torn, where that is passed over."""
    unknown: frozenset[str] = frozenset()
    """Actions behind the checkpoint that Delta's protocol does not name."""

    @property
    def digest(self) -> str:
        """SHA-256 of the commit that made it; empty where that has left the log."""
        return "" if self.newest is None else self.newest.digest

    @property
    def keys(self) -> frozenset[str]:
        """Of the live files."""
        found: Any = self.files.column("key")
        return frozenset(found.to_pylist())


def replay(location: Location, version: int | None = None, listed: LogFiles | None = None) -> LogState | None:
    """Reads a version of the table, or its newest; None where there is no table.

    A commit on a disk that is torn, with nothing but torn ones above, is passed over: a power cut left it (`LogState.torn`).

    Args:
        listed: what a listing that was just made shows of the log.

    Raises:
        NotFound: there is no such version, or its log has expired.
        Corrupt: the log is damaged, or lacks what leads to that version.
        Unsupported: it is larger than is read.
        OutsideTable: it leads out of the table's own directory.
        StorageUnavailable, StorageRefused: the log can't be listed or read.
    """
    log = LogObjects(location)
    files = listed or log.files()
    try:
        return _version(log, files, version)
    except Corrupt:
        now = LogObjects(location)
        if (there := now.files()) == files:
            raise
        return _version(now, there, version)  # what it lists was removed since, below a newer checkpoint


def _version(log: LogObjects, files: LogFiles, version: int | None) -> LogState | None:
    if files.newest is None:
        return None
    _check_there(log, files, files.newest if version is None else version)
    try:
        return _replayed(log, files, files.newest if version is None else version)
    except TornCommit as error:
        above = (commit_name(each) for each in files.commits if each > error.version)
        if not log.on_disk or not all(is_torn(log.read(name, MOST_COMMIT)) for name in above):
            raise
        torn = error.version
    if torn == 0:
        return None
    if version is not None:
        raise NotFound(f"{log.location.uri} has no version {version}: the newest is {torn - 1}")
    below = _replayed(LogObjects(log.location), files, torn - 1)
    return replace(below, torn=torn, notes=(*below.notes, Note("torn-commit", f"commit {torn} is empty or cut off", (torn,))))


def _check_there(log: LogObjects, files: LogFiles, version: int) -> None:
    """Raises NotFound: the log has no such version, or no more."""
    if files.newest is None or version > files.newest:
        raise NotFound(f"{log.location.uri} has no version {version}: the newest is {files.newest}")
    if files.oldest is not None and version < files.oldest:
        there = f"versions {files.oldest} to {files.newest} can be read"
        raise NotFound(f"version {version} of {log.location.uri} is no longer in its log: {there}")


class DamagedCommit(Corrupt):
    """A commit, or what stands for it, is not as Delta's protocol has it."""

    def __init__(self, version: int, message: str) -> None:
        super().__init__(message)
        self.version = version


class TornCommit(DamagedCommit):
    """It is empty, cut off, or no JSON."""


class LogGap(DamagedCommit):
    """It is not there."""


def commits_behind(log: LogObjects, files: LogFiles, start: int, version: int) -> Iterator[CommitActions]:
    """What leads from behind `start` to `version`, in order; compactions where commits are missing (`LogFiles.behind`).

    Raises:
        DamagedCommit: that is as far as it leads.
    """
    for last, name in files.behind(start, version):
        is_commit = name == commit_name(last)
        try:
            if is_commit and last not in files.commits:
                raise Missing(name)
            text = log.read(name, MOST_COMMIT)
            found = read_commit(last, text) if is_commit else read_compaction(last, name, text)
        except Missing:
            raise LogGap(last, f"log-gap: {name} of {log.location.uri} is missing") from None
        except TornText as error:
            raise TornCommit(last, f"torn-commit: {error.message}") from error
        except Corrupt as error:
            raise DamagedCommit(last, error.message) from error
        yield found


def unreadable(start: CheckpointFiles, error: Corrupt) -> Note:
    """That a checkpoint is passed over."""
    said = f"the {start.kind} checkpoint of version {start.version} cannot be read: {error.message}"
    return Note(PASSED_OVER, said, (start.version,))


_MOST_TOUCHED = 50_000
"""Files that commits may name before they become columns: some 50 MB. Each time costs one pass over the keys of all files."""


class Reconciliation:
    """What the actions of a log come to: those of a checkpoint, then commit by commit those behind it.

    Source: Delta's protocol, "Action Reconciliation".
    """

    def __init__(self, base: Checkpoint, location: Location) -> None:
        self.newest: CommitActions | None = None
        """The last one that was applied."""
        self._location, self._root = location, root_of(location)
        self._files = base.files
        self._said = replace(base, transactions={**base.transactions}, domains={**base.domains}, sidecars=[])
        self._adds: dict[FileKey, AddFile] = {}
        """Live files that are not among `_files` yet."""
        self._touched: set[FileKey] = set()
        """What was added or removed since then."""
        self._unknown: set[str] = set()

    def apply(self, commit: CommitActions) -> None:
        """Raises:
        Unsupported: there are more files than are read.
        Corrupt: an `add` is not one that Delta allows.
        """
        self.newest = commit
        self._unknown |= commit.unknown
        for action in commit.actions:
            if action.add is not None:
                key = key_of(action.add.path, self._root), action.add.vector_id
                self._touched.add(key)
                self._adds[key] = action.add
            elif action.remove is not None:
                key = key_of(action.remove.path, self._root), action.remove.vector_id
                self._touched.add(key)
                self._adds.pop(key, None)
            if len(self._touched) >= _MOST_TOUCHED:
                self._fold()
            self._said.take(action)

    def _fold(self) -> None:
        """Brings the columns of files up to date: they take a fraction of the memory of actions."""
        kept, new = without(self._files, self._touched), of_adds([*self._adds.values()], self._root)
        self._files = pa.concat_tables([kept, new]) if kept.num_rows and new.num_rows else kept if kept.num_rows else new
        if self._files.num_rows > MOST_FILES:
            raise Unsupported(f"{self._location.uri} has more files than are read: {MOST_FILES:,} at most")
        self._touched.clear()
        self._adds.clear()

    def state(self, version: int, log: LogFiles, checkpoint: CheckpointFiles | None, notes: Iterable[Note]) -> LogState:
        """Raises Corrupt: there is no protocol or no metadata."""
        protocol, metadata = self._said.protocol, self._said.metadata
        if protocol is None or metadata is None:
            raise Corrupt(f"the log of {self._location.uri} lacks the {'protocol' if protocol is None else 'metadata'}")
        self._fold()
        return LogState(
            self._location,
            version,
            protocol,
            metadata,
            self._files,
            self._said.transactions,
            self._said.domains,
            log,
            self.newest,
            checkpoint,
            tuple(notes),
            unknown=frozenset(self._unknown),
        )


def _replayed(log: LogObjects, files: LogFiles, version: int) -> LogState:
    """One version, from the newest checkpoint that can be read, or from the first commit."""
    notes, failure = list[Note](), None

    def behind(base: Checkpoint, start: CheckpointFiles | None) -> LogState:
        found = Reconciliation(base, log.location)
        for commit in commits_behind(log, files, base.version, version):
            found.apply(commit)
        if found.newest is None or found.newest.version != version:  # it was read from its checkpoint
            with suppress(LogGap):
                found.newest = next(commits_behind(log, files, version - 1, version))
        return found.state(version, files, start, notes)

    for start in (each for each in files.checkpoints if each.version <= version):
        try:
            return behind(read_checkpoint(log, start), start)
        except TornCommit:
            raise
        except Corrupt as error:
            failure = failure or error
            notes.append(unreadable(start, error))
    if 0 not in files.commits:
        raise failure or Corrupt(f"log-gap: {log.location.uri} has no commit 0, and no checkpoint that replaces it")
    return behind(Checkpoint(-1), None)
