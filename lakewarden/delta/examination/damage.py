"""What is damaged in a table of any writer, by name.

A listing of the table and its log are compared: bytes that changed without a change of size show only where a file is read.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import pairwise
from urllib.parse import unquote

import pyarrow as pa

from lakewarden.base.connection import Location
from lakewarden.delta.examination.kinds import KINDS, DamageKind
from lakewarden.delta.replay.actions import LogAction, read_commit
from lakewarden.delta.replay.checkpoints import Checkpoint, read_checkpoint
from lakewarden.delta.replay.live_files import FileKey, vectors_of
from lakewarden.delta.replay.log_objects import MOST_COMMIT, LogObjects
from lakewarden.delta.replay.log_state import LogState, Note, replay
from lakewarden.delta.replay.paths import OutsideTable, check_inside, key_of, root_of
from lakewarden.delta.replay.segment import LAST_CHECKPOINT, commit_name
from lakewarden.delta.replay.vectors import vector_key
from lakewarden.errors import Corrupt, LakewardenError, NotFound, Unsupported
from lakewarden.storage.objects import Missing

_NULL = "__HIVE_DEFAULT_PARTITION__"


def kind_of(error: LakewardenError) -> DamageKind | None:
    """The name that an error of the replay begins with, if it names a damage."""
    return next((kind for kind in KINDS if error.message.startswith(f"{kind}:")), None)


def notes_on(location: Location, sizes: Mapping[str, int], unknown: Callable[[LogState], Collection[str]]) -> list[Note]:
    """What is wrong with the table's newest version, or with its log.

    Args:
        sizes: bytes of each object of the table, by key.
        unknown: the features of a version that are not known (`delta.features`).

    Raises:
        NotFound: there is no table.
        Corrupt, Unsupported: the log can't be read, in a way that has no name of its own.
    """
    try:
        state = replay(location)
    except LakewardenError as error:
        if (kind := kind_of(error)) is None:
            raise
        return [Note(kind, error.message)]
    if state is None:
        raise NotFound(f"there is no Delta table at {location.uri}")
    return [
        *state.notes,
        *_last_checkpoint(state),
        *_gaps(state),
        *_contradiction(state),
        *_commits(state),
        *_live(state),
        *_files(state, sizes),
        *(Note("unknown-feature", name) for name in unknown(state)),
        *(Note("unknown-action", name) for name in sorted(state.unknown)),
    ]


def _last_checkpoint(state: LogState) -> Iterator[Note]:
    """It names a checkpoint that is not there, or is no JSON: readers that trust it are misled."""
    try:
        version = json.loads(LogObjects(state.location).read(LAST_CHECKPOINT, 1 << 20))["version"]
    except Missing:
        return
    except (ValueError, KeyError, TypeError, RecursionError):
        yield Note("last-checkpoint-wrong", "_last_checkpoint cannot be read")
        return
    if all(each.version != version for each in state.log.checkpoints):
        yield Note("last-checkpoint-wrong", f"_last_checkpoint names version {version}, which has no checkpoint", (version,))


def _gaps(state: LogState) -> Iterator[Note]:
    """Commits that are missing below the checkpoint, among others: versions between them can't be read."""
    start = -1 if state.checkpoint is None else state.checkpoint.version
    below = sorted(version for version in state.log.commits if version < start)
    gaps = tuple(one + 1 for one, other in pairwise([*below, start]) if other > one + 1)
    if gaps:
        yield Note("history-gap", f"commits are missing from version {gaps[0]} on", gaps)


def _contradiction(state: LogState) -> Iterator[Note]:
    """The checkpoint says something else than the commits that it replaces, where all of them are there."""
    if state.checkpoint is None or not all(version in state.log.commits for version in range(state.checkpoint.version + 1)):
        return
    try:
        by_commits = replay(state.location, state.checkpoint.version, commits_only=True)
    except Corrupt:
        return
    by_checkpoint = read_checkpoint(LogObjects(state.location), state.checkpoint)
    if by_commits is None:
        return
    if differing := _keys(by_checkpoint.files) ^ _keys(by_commits.files):
        version = state.checkpoint.version
        said = f"the checkpoint of version {version} and its commits differ in {len(differing)} live files: {min(differing)[0]}"
        yield Note("checkpoint-contradicts", said, (version,))


def _keys(files: pa.Table) -> set[FileKey]:
    columns = (files.column(name).to_pylist() for name in ("key", "vectorId"))
    return set(zip(*columns, strict=True))


def _commits(state: LogState) -> Iterator[Note]:
    """What commits behind the checkpoint remove that is not there."""
    log, root = LogObjects(state.location), root_of(state.location)
    base = Checkpoint(-1) if state.checkpoint is None else read_checkpoint(log, state.checkpoint, tombstones=True)
    live, gone = _keys(base.files), set[FileKey]() if base.tombstones is None else _keys(base.tombstones)
    paths = Counter(key for key, _ in live)
    for version in range(base.version + 1, state.version + 1):
        if version not in state.log.commits:
            return
        for action in read_commit(version, log.read(commit_name(version), MOST_COMMIT)).actions:
            yield from _removal(action, version, live, gone, paths, root)


def _removal(
    action: LogAction, version: int, live: set[FileKey], gone: set[FileKey], paths: Counter[str], root: str
) -> Iterator[Note]:
    """Follows one action, and says what is wrong with it."""
    if action.add is not None:
        key = key_of(action.add.path, root), action.add.vector_id
        gone.discard(key)
        paths[key[0]] += key not in live
        live.add(key)
    if action.remove is None:
        return
    key = key_of(action.remove.path, root), action.remove.vector_id
    if key in live:
        live.remove(key)
        paths[key[0]] -= 1
    elif paths[key[0]] > 0:
        yield Note("remove-without-vector", f"commit {version} removes {key[0]} by another vector than it has", (version,))
    elif key not in gone:
        yield Note("removes-unknown", f"commit {version} removes {key[0]}, which no version has", (version,))
    gone.add(key)


def _live(state: LogState) -> Iterator[Note]:
    """Live files that contradict each other, or their own path."""
    keys = [str(key) for key in state.files.column("key").to_pylist()]
    for key, count in Counter(keys).items():
        if count > 1:
            yield Note("duplicate-live-path", f"{key} is live {count} times, with different vectors")
    folded: dict[str, set[str]] = defaultdict(set)
    for key in keys:
        folded[key.casefold()].add(key)
    for clashing in folded.values():
        if len(clashing) > 1:
            yield Note("case-clash", f"{' and '.join(sorted(clashing))} differ in the case of their letters alone")
    if state.metadata.partition_columns:
        values = state.files.column("partitionValues").to_pylist(maps_as_pydicts="lossy")
        for key, said in zip(keys, values, strict=True):
            if lost := _nulled(key, said or {}):
                yield Note("partition-value-nulled", f"{key} has no value of {lost} in the log")


def _nulled(key: str, said: Mapping[str, str | None]) -> str:
    """The partition column of which the path has a value and the log has none."""
    named = (part.partition("=") for part in key.split("/")[:-1] if "=" in part)
    return next((name for name, _, value in named if value not in ("", _NULL) and not said.get(unquote(name), value)), "")


def _files(state: LogState, sizes: Mapping[str, int]) -> Iterator[Note]:
    """Files and vectors that are not as the log says."""
    columns = (state.files.column(name).to_pylist() for name in ("key", "path", "size"))
    for (key, path, size), vector in zip(zip(*columns, strict=True), vectors_of(state.files), strict=True):
        try:
            check_inside(key, path, state.location)
            name = None if vector is None else vector_key(vector, state.location)
        except (OutsideTable, Unsupported) as error:
            yield Note(kind_of(error) or "outside-path", error.message)
            continue
        there = sizes.get(key, sizes.get(path))
        if there is None:
            yield Note("hollow", f"{key} is missing")
        elif size is not None and there != size:
            yield Note("size-differs", f"{key} has {there} bytes, and the log says {size}")
        if vector is not None and name is not None:
            least = (vector.offset or 0) + vector.size_in_bytes + 8
            if name not in sizes:
                yield Note("vector-gone", f"{name} is missing")
            elif sizes[name] < least:
                yield Note("vector-short", f"{name} has {sizes[name]} bytes instead of {least} at least")
