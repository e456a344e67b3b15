"""What commits remove that is not there: the trace of a commit that was overwritten, or of a writer that forgot a vector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakewarden.delta.replay.actions import AddFile, CommitActions, RemoveFile
from lakewarden.delta.replay.checkpoints import Checkpoint
from lakewarden.delta.replay.live_files import NO_FILES, FileKey, pc, whole
from lakewarden.delta.replay.log_state import Note
from lakewarden.delta.replay.paths import key_of

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


class RemovalTrail:
    """Follows commits. What a removal takes from the checkpoint is looked up at the end, for all of them at once."""

    def __init__(self, base: Checkpoint, root: str) -> None:
        self._base, self._root = base, root
        self._named: dict[FileKey, int] = {}
        """In which order files were named first."""
        self._live: set[FileKey] = set()
        self._keys: Counter[str] = Counter()
        """How often each path is live."""
        self._doubtful: list[_Removal] = []
        self._wrong: list[tuple[int, str]] = []
        self._gone: set[FileKey] = set()
        """What commits removed and did not add again."""
        self._older: set[str] = set()

    def remember(self, commit: CommitActions) -> None:
        """What a commit below the checkpoint removes, of which the checkpoint may remember nothing."""
        self._older.update(key_of(action.remove.path, self._root) for action in commit.actions if action.remove is not None)

    def apply(self, commit: CommitActions) -> None:
        # a compaction has no digest: it names removals of what was added within its range, and no longer those adds
        follows = bool(commit.digest)
        for action in commit.actions:
            if action.add is not None:
                self._add(action.add)
            if action.remove is not None:
                self._remove(action.remove, commit.version, follows=follows)

    def _add(self, add: AddFile) -> None:
        file = key_of(add.path, self._root), add.vector_id
        if file not in self._live:
            self._live.add(file)
            self._keys[file[0]] += 1
        self._named.setdefault(file, len(self._named))
        self._gone.discard(file)

    def _remove(self, remove: RemoveFile, version: int, *, follows: bool) -> None:
        file = key_of(remove.path, self._root), remove.vector_id
        if file in self._live:
            self._live.discard(file)
            self._keys[file[0]] -= 1
        elif follows and file not in self._named:
            self._doubtful.append(_Removal(version, file, self._keys[file[0]] > 0, len(self._named)))
        elif follows and self._keys[file[0]] > 0:
            self._wrong.append((version, file[0]))
        self._named.setdefault(file, len(self._named))
        self._gone.add(file)

    @property
    def _tombstones(self) -> pa.Table:
        """Those of the checkpoint."""
        return NO_FILES if self._base.tombstones is None else self._base.tombstones

    @property
    def removed(self) -> Any:
        """The keys of all files that a `remove` names, in what was read of the log; some twice."""
        own = pa.array([*self._older, *(key for key, _ in self._gone)], pa.string())
        return pa.concat_arrays([whole(self._tombstones, "key"), own])

    @property
    def tombstones(self) -> int:
        """How many files were removed and not added again."""
        keys = pa.array([key for key, _ in self._named], pa.string())
        again = self._tombstones.filter(pc.is_in(whole(self._tombstones, "key"), value_set=keys)) if self._named else NO_FILES
        pairs = zip(*(again.column(name).to_pylist() for name in ("key", "vectorId")), strict=True)
        return len(self._gone) + self._tombstones.num_rows - sum(pair in self._named for pair in pairs)

    def notes(self) -> Iterator[Note]:
        unknown: list[tuple[int, str]] = []
        live = _among(self._base.files, self._doubtful)
        gone = _among(self._tombstones, self._doubtful)
        vectors: dict[str, list[FileKey]] = {}
        for file in live:
            vectors.setdefault(file[0], []).append(file)
        for each in self._doubtful:
            if each.file in live:
                continue
            untouched = (self._named.get(other, each.order) >= each.order for other in vectors.get(each.file[0], ()))
            if each.has_other or any(untouched):
                self._wrong.append((each.version, each.file[0]))
            elif each.file not in gone:
                unknown.append((each.version, each.file[0]))
        yield from _note("remove-without-vector", self._wrong, "by another vector than it has")
        yield from _note("removes-unknown", unknown, "which no version has: a commit below may have been overwritten")


def _among(files: pa.Table, removals: Collection[_Removal]) -> set[FileKey]:
    """Those of the files whose paths are removed, whichever vectors they have."""
    if not removals or not files.num_rows:
        return set()
    keys = pa.array({each.file[0] for each in removals}, pa.string())
    found = files.select(["key", "vectorId"]).filter(pc.is_in(whole(files, "key"), value_set=keys))
    return set(zip(*(column.to_pylist() for column in found.columns), strict=True))


def _note(kind: str, found: list[tuple[int, str]], how: str) -> Iterator[Note]:
    if found:
        version, key = min(found)
        more = f" ({len(found)} such removals)" if len(found) > 1 else ""
        versions = tuple(sorted({version for version, _ in found})[:MOST_VERSIONS])
        yield Note(kind, f"commit {version} removes {key}, {how}{more}", versions)
