"""The newest version of a table that opens, read in one pass over its log, with what that pass shows.

Unlike `log_state.replay`, which a reader of rows trusts, this goes on behind a damage: a torn commit or a gap ends the version
that is shown, and a checkpoint that can't be read gives way to an older one, also where that leads less far.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakewarden.base.quantities import grouped
from lakewarden.delta.examination.file_notes import schema_of
from lakewarden.delta.replay.actions import AddFile, CommitActions, LogAction, Metadata, RemoveFile, read_actions
from lakewarden.delta.replay.checkpoints import Checkpoint, read_checkpoint
from lakewarden.delta.replay.live_files import NO_FILES, FileKey, pc, whole
from lakewarden.delta.replay.log_objects import MOST_COMMIT, CheckpointFiles, LogFiles, LogObjects, compaction_name
from lakewarden.delta.replay.log_state import (
    DamagedCommit,
    LogGap,
    LogState,
    Note,
    Reconciliation,
    commits_behind,
    unreadable,
)
from lakewarden.delta.replay.paths import OutsideTable, key_of, root_of
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.storage.objects import Missing

# What commits remove that is not there: the trace of a commit that was overwritten, or of a writer that forgot a vector.

MOST_VERSIONS = 100
"""Versions that one note names."""


@dataclass(frozen=True)
class _Removal:
    """One of a file that no commit behind the checkpoint named before."""

    version: int
    file: FileKey
    has_other: bool
    """Whether a commit behind the checkpoint gave it another vector."""
    order: int
    """How many files had been named."""


_OTHER_VECTOR = ", by another vector than it has"
_OF_NOBODY = ", which no version has: a commit below may have been overwritten"
_EITHER = ": Delta's protocol allows one, and readers differ about which counts"
_REQUIRED = ", which Delta's protocol requires: its kernel opens no such table"


class RemovalTrail:
    """Follows commits. What a removal takes from the checkpoint is looked up at the end, for all of them at once."""

    def __init__(self, base: Checkpoint, root: str) -> None:
        self._base, self._root = base, root
        self._named: dict[FileKey, int] = {}
        """In which order files were named first."""
        self._live: dict[FileKey, str] = {}
        """With the path as it is spelt there."""
        self._keys: Counter[str] = Counter()
        """How often each path is live."""
        self._doubtful: list[_Removal] = []
        self._wrong: dict[str, list[tuple[int, str]]] = {}
        """By kind, the versions whose commits do something wrong, and what."""
        self._without_schema: int | None = None
        """The version whose schema can't be read, if none has come since."""
        self._gone: set[FileKey] = set()
        """What commits removed and did not add again."""
        self.older: list[Any] = []
        """Keys that commits below the checkpoint removed, of which it may remember nothing."""

    def apply(self, commit: CommitActions) -> None:
        # a compaction has no digest: it names removals of what was added within its range, and no longer those adds
        follows = bool(commit.digest)
        added, removed, heads = set[FileKey](), set[FileKey](), set[str]()
        for action in commit.actions:
            if action.add is not None:
                file = self._add(action.add, commit.version)
                if file in added:
                    self._note("duplicate-live-path", commit.version, f"adds {file[0]} twice{_EITHER}")
                added.add(file)
            elif action.remove is not None:
                file = self._remove(action.remove, commit.version, follows=follows)
                if file in removed:
                    self._note("removes-unknown", commit.version, f"removes {file[0]} twice{_EITHER}")
                removed.add(file)
            elif (head := _head_of(action)) in heads:
                self._note("torn-commit", commit.version, f"has two {head} actions{_EITHER}")
            elif head:
                heads.add(head)
            if action.meta_data is not None:
                self._follow_schema(action.meta_data, commit.version)
        if both := added & removed:
            self._note("removes-unknown", commit.version, f"adds and removes {min(both)[0]}{_EITHER}")

    def _follow_schema(self, metadata: Metadata, version: int) -> None:
        """That of the newest version is judged with it."""
        if self._without_schema is not None:
            self._note("torn-commit", self._without_schema, "has a schema that is cut off or no JSON")
        self._without_schema = version if metadata.schema_string and schema_of(metadata) is None else None

    def _note(self, kind: str, version: int, what: str) -> None:
        self._wrong.setdefault(kind, []).append((version, what))

    def _add(self, add: AddFile, version: int) -> FileKey:
        file = key_of(add.path, self._root), add.vector_id
        if add.partition_values is None:
            self._note("partition-value-nulled", version, f"adds {file[0]} without partitionValues{_REQUIRED}")
        before = self._live.get(file)
        if before is None:
            self._keys[file[0]] += 1
        elif _is_respelt(file[0], before, add.path):
            self._note("duplicate-live-path", version, f"adds {file[0]} by another spelling, {add.path[:200]}{_EITHER}")
        self._live[file] = add.path
        self._named.setdefault(file, len(self._named))
        self._gone.discard(file)
        return file

    def _remove(self, remove: RemoveFile, version: int, *, follows: bool) -> FileKey:
        file = key_of(remove.path, self._root), remove.vector_id
        if file in self._live:
            del self._live[file]
            self._keys[file[0]] -= 1
        elif follows and file not in self._named:
            self._doubtful.append(_Removal(version, file, self._keys[file[0]] > 0, len(self._named)))
        elif follows and self._keys[file[0]] > 0:
            self._note("remove-without-vector", version, f"removes {file[0]}{_OTHER_VECTOR}")
        self._named.setdefault(file, len(self._named))
        self._gone.add(file)
        return file

    @property
    def _tombstones(self) -> pa.Table:
        """Those of the checkpoint."""
        return NO_FILES if self._base.tombstones is None else self._base.tombstones

    @property
    def removed(self) -> Any:
        """The keys of all files that a `remove` names, in what was read of the log; some twice."""
        own = pa.array([key for key, _ in self._gone], pa.string())
        return pa.concat_arrays([whole(self._tombstones, "key"), own, *self.older])

    @property
    def tombstones(self) -> int:
        """How many files were removed and not added again."""
        if not self._named or not self._tombstones.num_rows:
            return len(self._gone) + self._tombstones.num_rows
        keys = pa.array([key for key, _ in self._named], pa.string())
        again = self._tombstones.filter(pc.is_in(whole(self._tombstones, "key"), value_set=keys))
        pairs = zip(*(again.column(name).to_pylist() for name in ("key", "vectorId")), strict=True)
        return len(self._gone) + self._tombstones.num_rows - sum(pair in self._named for pair in pairs)

    def notes(self) -> Iterator[Note]:
        yield from self._respelt()
        live = _among(self._base.files, self._doubtful)
        gone = _among(self._tombstones, self._doubtful)
        vectors = grouped(live, lambda file: file[0])
        for each in self._doubtful:
            if each.file in live:
                continue
            untouched = (self._named.get(other, each.order) >= each.order for other in vectors.get(each.file[0], ()))
            if each.has_other or any(untouched):
                self._note("remove-without-vector", each.version, f"removes {each.file[0]}{_OTHER_VECTOR}")
            elif each.file not in gone:
                self._note("removes-unknown", each.version, f"removes {each.file[0]}{_OF_NOBODY}")
        self._doubtful.clear()
        for kind, found in self._wrong.items():
            version, what = min(found)
            more = f" ({len(found)} such actions)" if len(found) > 1 else ""
            versions = tuple(sorted({version for version, _ in found})[:MOST_VERSIONS])
            yield Note(kind, f"commit {version} {what}{more}", versions)

    def _respelt(self) -> Iterator[Note]:
        """Files of the checkpoint that commits add by another spelling, and did not remove."""
        files = self._base.files
        if not files.num_rows or not self._live:
            return
        if whole(files, "path").equals(whole(files, "key")) and not any("%" in path for path in self._live.values()):
            return
        removed = {each.file for each in self._doubtful}
        again = files.filter(pc.is_in(whole(files, "key"), value_set=pa.array({key for key, _ in self._live}, pa.string())))
        for key, vector, path in zip(*(again.column(name).to_pylist() for name in ("key", "vectorId", "path")), strict=True):
            said = self._live.get((key, vector), path)
            if (key, vector) not in removed and _is_respelt(key, path, said):
                yield Note("duplicate-live-path", f"{key} is live by two spellings, {path[:200]} and {said[:200]}{_EITHER}")


def _head_of(action: LogAction) -> str:
    """Of what a commit may have one; empty for all else."""
    if action.domain_metadata is not None:
        return f"{action.domain_metadata.domain[:100]} domain"
    return "protocol" if action.protocol else "metaData" if action.meta_data else ""


def _is_respelt(key: str, one: str, other: str) -> bool:
    """Whether Spark and delta-rs, who compare paths as they are spelt, take the file for two, and read its rows twice."""
    return one != other and "%" in one + other and not key.startswith(("..", "/"))


def _among(files: pa.Table, removals: Collection[_Removal]) -> set[FileKey]:
    """Those of the files whose paths are removed, whichever vectors they have."""
    if not removals or not files.num_rows:
        return set()
    keys = pa.array({each.file[0] for each in removals}, pa.string())
    found = files.select(["key", "vectorId"]).filter(pc.is_in(whole(files, "key"), value_set=keys))
    return set(zip(*(column.to_pylist() for column in found.columns), strict=True))


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
        return NewestVersion(None, tuple(self._notes), nothing, RemovalTrail(nothing, ""), self._writers, error)

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
            self._notes.append(unreadable(start, error))
        return None

    def _follow(self, base: Checkpoint, start: CheckpointFiles | None) -> NewestVersion:
        """Applies commits until one is missing or torn."""
        location = self._log.location
        found, trail, version = Reconciliation(base, location), RemovalTrail(base, root_of(location)), base.version
        error, state = "", None
        try:
            try:
                for commit in commits_behind(self._log, self._files, base.version, self._files.newest or 0):
                    found.apply(commit)
                    trail.apply(commit)
                    self._writers[_writer(commit)] += 1
                    if not commit.digest:
                        self._notes.append(self._replaced(version + 1, commit.version))
                    version = commit.version
            except LogGap as gap:
                self._notes += self._gap(gap.version)
            except DamagedCommit as damage:
                said = f"{damage.message.removeprefix('torn-commit: ')}; from it on no version can be read"
                self._notes.append(Note("torn-commit", said, (damage.version,)))
            state = found.state(version, self._files, start, ())
        except Corrupt as failure:
            error = failure.message
        return NewestVersion(state, tuple(self._notes), base, trail, self._writers, error)

    def _replaced(self, first: int, last: int) -> Note:
        missing = sorted({*range(max(first, last - MOST_VERSIONS), last + 1)} - self._files.commits)
        said = f"{compaction_name(first, last)} was read, which for Spark replaces no commit that is gone"
        return Note("log-gap", f"commit {missing[0]} is missing; {said}", tuple(missing))

    def _gap(self, version: int) -> Iterator[Note]:
        """Nothing below a checkpoint that is newer: there, a missing commit is normal, and that checkpoint was named."""
        if not any(each.version >= version for each in self._files.checkpoints):
            following = range(version, min(self._files.newest or version, version + MOST_VERSIONS))
            missing = tuple(each for each in following if each not in self._files.commits)
            yield Note("log-gap", f"commit {version} is missing, and {self._files.newest} is the newest", missing or (version,))


def _writer(commit: CommitActions) -> str:
    """Its `engineInfo`; empty where its writer left none."""
    said = commit.info.get("engineInfo")
    return said[:_LONGEST_NAME] if isinstance(said, str) else ""


def torn_compactions(log: LogObjects, files: LogFiles) -> Iterator[Note]:
    """Those that Spark would read in the place of commits, and can't."""
    for span in files.compactions:
        name = compaction_name(*span)
        try:
            deque(read_actions(name, log.read(name, MOST_COMMIT)), maxlen=0)
        except (Missing, Unsupported):
            continue
        except Corrupt as error:
            yield Note("torn-commit", error.message, span)
