"""The newest version of a table that opens, read in one pass over its log, with what that pass shows.

Unlike `log_state.replay`, which a reader of rows trusts, this goes on behind a damage: a torn commit or a gap ends the version
that is shown, and a checkpoint that can't be read gives way to an older one, also where that leads less far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from lakewarden.delta.examination.removals import RemovalTrail
from lakewarden.delta.replay.actions import CommitActions, read_commit, read_compaction
from lakewarden.delta.replay.checkpoints import Checkpoint, read_checkpoint
from lakewarden.delta.replay.log_objects import MOST_COMMIT, LogObjects
from lakewarden.delta.replay.log_state import PASSED_OVER, LogState, Note, Reconciliation
from lakewarden.delta.replay.paths import OutsideTable, root_of
from lakewarden.delta.replay.segment import CheckpointFiles, LogFiles, commit_name
from lakewarden.errors import Corrupt
from lakewarden.storage.objects import Missing

_LONGEST_NAME = 200
"""Characters of a writer's name that are kept."""


@dataclass(frozen=True)
class NewestVersion:
    """What the log has. `state` is None where no version opens; `error` then says why."""

    state: LogState | None
    notes: tuple[Note, ...]
    base: Checkpoint
    """What it was read from; empty where it was read from the first commit."""
    trail: RemovalTrail
    writers: Counter[str]
    """Commits that were read, by `engineInfo`."""
    error: str = ""


class _Stop(Exception):
    """The log can't be followed further."""

    def __init__(self, note: Note | None) -> None:
        super().__init__()
        self.note = note


class LogWalk:
    """Reads each object of a log at most once."""

    def __init__(self, log: LogObjects, files: LogFiles) -> None:
        self._log, self._files = log, files
        self._notes: list[Note] = []
        self._writers: Counter[str] = Counter()

    def newest(self) -> NewestVersion:
        """Raises:
        Unsupported: it is larger than is read.
        StorageUnavailable, StorageRefused: an object can't be read.
        """
        error = "it has no commit and no checkpoint"
        for start in self._starts():
            base = Checkpoint(-1) if start is None else self._read(start)
            if base is None:
                continue
            found = self._follow(base, start)
            if found.state is not None:
                return found
            error = found.error
        if unread := [note.detail for note in self._notes]:
            error = "; ".join(unread[:3])
        nothing = Checkpoint(-1)
        trail = RemovalTrail(nothing, "")
        return NewestVersion(None, tuple(self._notes), nothing, trail, self._writers, error)

    def _starts(self) -> Iterator[CheckpointFiles | None]:
        yield from self._files.checkpoints
        if 0 in self._files.commits:
            yield None
        elif self._files.commits and not self._files.checkpoints:
            first = min(self._files.commits)
            detail = f"the log begins with commit {first}, and no checkpoint replaces those below"
            self._notes.append(Note("log-gap", detail, (first - 1,)))

    def _read(self, start: CheckpointFiles) -> Checkpoint | None:
        try:
            return read_checkpoint(self._log, start, tombstones=True)
        except OutsideTable as error:
            self._notes.append(Note("outside-path", error.message, (start.version,)))
        except Corrupt as error:
            said = f"the {start.kind} checkpoint of version {start.version} cannot be read: {error.message}"
            self._notes.append(Note(PASSED_OVER, said, (start.version,)))
        return None

    def _follow(self, base: Checkpoint, start: CheckpointFiles | None) -> NewestVersion:
        """Applies commits until one is missing or torn."""
        location = self._log.location
        found, trail, version = Reconciliation(base, location), RemovalTrail(base, root_of(location)), base.version
        error, state = "", None
        try:
            try:
                for commit in self._commits(base.version):
                    found.apply(commit)
                    trail.apply(commit)
                    self._writers[_writer(commit)] += 1
                    version = commit.version
            except _Stop as stop:
                self._notes += [] if stop.note is None else [stop.note]
            state = found.state(version, self._files, start, ())
        except Corrupt as failure:
            error = failure.message
        return NewestVersion(state, tuple(self._notes), base, trail, self._writers, error)

    def _commits(self, start: int) -> Iterator[CommitActions]:
        for last, name in self._files.behind(start, self._files.newest or 0):
            there = last in self._files.commits or name != commit_name(last)
            try:
                text = self._log.read(name, MOST_COMMIT) if there else None
            except Missing:
                text = None
            if text is None:
                raise _Stop(self._gap(last))
            try:
                yield read_commit(last, text) if name == commit_name(last) else read_compaction(last, name, text)
            except Corrupt as error:
                raise _Stop(Note("torn-commit", f"{error.message}; the version below is shown", (last,))) from None

    def _gap(self, version: int) -> Note | None:
        """None below a checkpoint that is newer: there, a missing commit is normal, and that checkpoint was named."""
        if any(each.version >= version for each in self._files.checkpoints):
            return None
        missing = tuple(
            each for each in range(version, min(self._files.newest or version, version + 100)) if each not in self._files.commits
        )
        return Note("log-gap", f"commit {version} is missing, and {self._files.newest} is the newest", missing or (version,))


def _writer(commit: CommitActions) -> str:
    """Its `engineInfo`; empty where its writer left none."""
    said = commit.info.get("engineInfo")
    return said[:_LONGEST_NAME] if isinstance(said, str) else ""


def by_commits(log: LogObjects, found: NewestVersion, checkpoint: int) -> LogState | Note | None:
    """The version of a checkpoint by the commits that it replaces, or which of them is torn; None where one is gone meanwhile.
    Adds their writers and removals to what was found."""
    below = Reconciliation(Checkpoint(-1), log.location)
    try:
        for version in range(checkpoint + 1):
            try:
                commit = read_commit(version, log.read(commit_name(version), MOST_COMMIT))
            except Corrupt as error:
                return Note("torn-commit", f"{error.message}; versions from it to {checkpoint - 1} can't be read", (version,))
            below.apply(commit)
            found.trail.remember(commit)
            found.writers[_writer(commit)] += 1
        return below.state(checkpoint, LogFiles(), None, ())
    except (Missing, Corrupt):
        return None
