"""Reads Delta's own log commit by commit: for the history, and for the versions that can still be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from lakewarden.base.threads import at_once
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.partitions import Partition
from lakewarden.delta.replay.actions import CommitActions, read_commit
from lakewarden.delta.replay.log_objects import LOG, MOST_COMMIT, commit_name, read_object
from lakewarden.delta.replay.paths import key_of, root_at
from lakewarden.storage.objects import Missing, ObjectStore, StoredObject


def is_fence(commit: CommitActions) -> bool:
    """Whether nothing that was committed before it is there any more."""
    stamp = CommitStamp.of(commit)
    return stamp is not None and stamp.fences


def without_nested(listing: Sequence[StoredObject]) -> list[StoredObject]:
    """The objects of a table without those of other tables inside its directory."""
    nested = tuple(f"{found.key.partition(f'/{LOG}/')[0]}/" for found in listing if f"/{LOG}/" in found.key)
    return [found for found in listing if not found.key.startswith(nested)]


class CommitLog:
    """The commits under one scope's `_delta_log`."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def text(self, version: int) -> bytes:
        """Empty when there is no such commit, it has left the log, or was emptied below the fence of a dropped table.

        Raises `Unsupported` as `read_object`.
        """
        try:
            return read_object(self._store, commit_name(version), MOST_COMMIT)
        except Missing:
            return b""

    def read(self, version: int) -> CommitActions | None:
        """None where its text is empty."""
        text = self.text(version)
        return read_commit(version, text) if text else None

    def back(self, newest: int, above: int = -1, threads: int = 1) -> Iterator[CommitActions]:
        """The commits from `newest` down to the one behind `above`, so many read at once. Ends at one whose text is empty."""
        for first in range(newest, above, -threads):
            versions = range(first, max(first - threads, above), -1)
            for version, text in zip(versions, at_once(self.text, versions, threads), strict=True):
                if not text:
                    return
                yield read_commit(version, text)

    def is_fenced(self, version: int) -> bool:
        """Whether that commit is a fence; False where it has left the log."""
        commit = self.read(version)
        return commit is not None and is_fence(commit)

    def digest(self, version: int) -> str:
        """SHA-256 of a commit, which tells it from any other; empty when there is none, or it has left the log."""
        text = self.text(version)
        return sha256(text).hexdigest() if text else ""

    def ends_with(self, version: int, digest: str) -> bool:
        """Whether that very commit is the newest: versions follow each other without a gap."""
        return self.digest(version) == digest and not self._store.has(commit_name(version + 1))

    def changed(self, version: int, columns: Sequence[str]) -> frozenset[Partition]:
        """The partitions of the files that this commit added or removed. Raises `Missing`.

        Args:
            columns: the partition columns, in the table's order.
        """
        actions = read_commit(version, read_object(self._store, commit_name(version), MOST_COMMIT)).actions
        found = (action.add or action.remove for action in actions)
        values = (file.partition_values for file in found if file is not None and file.partition_values)
        return frozenset(tuple((name, each.get(name) or None) for name in columns) for each in values)

    def has(self, version: int) -> bool:
        return self._store.has(commit_name(version))


# What the commits between two versions of a table did, for a commit that lost against them.


@dataclass(frozen=True)
class Between:
    """The commits after one version, up to another."""

    removed: frozenset[str]
    """Paths of the files that they removed, for whatever reason."""
    partitions: tuple[Partition, ...]
    """The partitions in which they added or removed rows."""
    bar: str = ""
    """Why nothing that was made for the earlier version may follow them; empty where it may."""


def between(store: ObjectStore, since: int, newest: int) -> Between:
    """Reads the commits after version `since`, up to `newest`."""
    removed: set[str] = set()
    partitions: dict[Partition, None] = {}
    bar, log = "", CommitLog(store)
    for version in range(since + 1, newest + 1):
        commit = log.read(version)
        if commit is None:
            return Between(frozenset(), (), f"version {version} is no longer in the log")
        bar = bar or _bar(commit)
        for action in commit.actions:
            if action.remove is not None:
                removed.add(key_of(action.remove.path, root_at(store.uri)))
            found = action.add or action.remove
            if found is not None and found.data_change:
                partitions[tuple((found.partition_values or {}).items())] = None
    return Between(frozenset(removed), tuple(partitions), bar)


def _bar(commit: CommitActions) -> str:
    if any(action.meta_data is not None or action.protocol is not None for action in commit.actions):
        return "the table's columns or properties were changed"
    stamp = CommitStamp.of(commit)
    operation = str(commit.info.get("operation", "")) if stamp is None else stamp.operation
    return "a vacuum started" if operation.startswith("VACUUM") else ""
