"""Finds what a power cut or a lost object left at the end of a scope's Delta log, and how much of it readers skip.

A commit of ours is durable before it has its name (delta/commit_log/publish.py). What others wrote, and releases before
that, may be torn: empty or cut off. On a disk, a torn commit with nothing above it is taken for one that is not there. Only
`lakewarden repair` moves it aside, and until then nothing is committed on top. Commits that were emptied below a fence are
no torn ones: the fence is above them. Checkpoints are derived from the commits: one that is missing or can't be read is
passed over (delta/commit_log/damaged_checkpoints.py).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.base.connection import Location
from lakewarden.delta.commit_log.commits import LAST_CHECKPOINT, LOG, CommitLog, commit_name
from lakewarden.delta.failures import delta_errors
from lakewarden.errors import Corrupt
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import Missing, ObjectStore, keys_of
from lakewarden.storage.open import open_store

_CHECKPOINT = re.compile(rf"{LOG}/(\d{{20}})\.checkpoint\.(?:(\d{{10}})\.(\d{{10}})\.)?(?:[0-9a-f-]+\.)?(?:parquet|json)")


@dataclass(frozen=True)
class Damage:
    """What is wrong at the top of a log; falsy where nothing is."""

    torn: tuple[int, ...] = ()
    """Versions above the one that readers see whose commits are empty or cut off, ascending."""
    checkpoints: tuple[str, ...] = ()
    """Names, relative to the scope, of checkpoints that can't be read, from the newest down to the first that can; and
    `_delta_log/_last_checkpoint` where it names one that is not there."""

    def __bool__(self) -> bool:
        return bool(self.torn or self.checkpoints)


def damage_of(location: Location) -> Damage:
    """Reads the newest commits and checkpoints of a scope's log; a place without a log has no damage.

    Raises:
        StorageUnavailable, StorageRefused: the log can't be listed or read.
    """
    store = open_store(location)
    names = keys_of(store, LOG)
    bad = [name for several in _unreadable(store, names) for name in several]
    return Damage(torn_commits(location, store), (*bad, *([LAST_CHECKPOINT] if leads_nowhere(store, names) else [])))


def torn_commits(location: Location, store: ObjectStore) -> tuple[int, ...]:
    """The torn commits at the top of a log, ascending. An object store has none: an object is there whole or not at all."""
    if local_path(location.uri) is None:
        return ()
    torn: list[int] = []
    for version in reversed(CommitLog(store).commits()):
        if not is_torn(store.get(commit_name(version))):
            break
        torn.append(version)
    return tuple(reversed(torn))


def is_torn(commit: bytes) -> bool:
    """Whether these bytes are no whole commit: empty, or a line of them is no JSON."""
    try:
        return not [json.loads(line) for line in commit.splitlines() if line.strip()]
    except ValueError:
        return True


def check_name(location: Location, version: int) -> None:
    """To be called where a commit was to become that version and the name was taken, or before that.

    Raises:
        Corrupt: a torn commit has the name.
    """
    if local_path(location.uri) is None:
        return
    try:
        text = open_store(location).get(commit_name(version))
    except Missing:
        return
    if is_torn(text):
        raise torn_error(location, version)


def torn_error(location: Location, version: int) -> Corrupt:
    return Corrupt(
        f"the newest commit of the Delta table at {location}, version {version}, is torn: it is empty or cut off, as a power cut"
        " leaves it; nothing can be committed before lakewarden repair has put it aside"
    )


def has_readable_checkpoint(store: ObjectStore, names: Iterable[str], version: int) -> bool:
    """Whether that version has a checkpoint that leads readers on without the commits below it."""
    found = readable_checkpoint(store, names, version)
    return found is not None and found[0] == version


def readable_checkpoint(store: ObjectStore, names: Iterable[str], most: int) -> tuple[int, tuple[str, ...]] | None:
    """The newest whole checkpoint of a version up to `most`, and the names of its parts."""
    for version, parts in _checkpoints(names):
        if version <= most and all(_can_be_read(store, name) for name in parts):
            return version, parts
    return None


def _unreadable(store: ObjectStore, names: Iterable[str]) -> Iterable[tuple[str, ...]]:
    for _, parts in _checkpoints(names):
        bad = tuple(name for name in parts if not _can_be_read(store, name))
        if not bad:
            return
        yield bad


def _checkpoints(names: Iterable[str]) -> list[tuple[int, tuple[str, ...]]]:
    """Versions and their checkpoints' names, the newest first; one that lacks a part is none."""
    found: dict[tuple[int, int], list[str]] = defaultdict(list)
    for name in names:
        if match := _CHECKPOINT.fullmatch(name):
            found[int(match[1]), int(match[3] or 1)].append(name)
    whole = [(version, tuple(parts)) for (version, count), parts in found.items() if len(parts) >= count]
    return sorted(whole, reverse=True)


def _can_be_read(store: ObjectStore, name: str) -> bool:
    try:
        data = store.get(name)
        if name.endswith(".json"):
            return not is_torn(data)
        with delta_errors(f"cannot read {name}"):
            pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
    except (Missing, Corrupt):
        return False
    return True


def leads_nowhere(store: ObjectStore, names: Sequence[str]) -> bool:
    """Whether `_last_checkpoint` names a checkpoint that is not there. One that is not JSON misleads no reader."""
    try:
        version = json.loads(store.get(LAST_CHECKPOINT))["version"]
    except (Missing, ValueError, KeyError, TypeError):
        return False
    return all(there != version for there, _ in _checkpoints(names))
