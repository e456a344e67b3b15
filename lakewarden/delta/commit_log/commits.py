"""Reads Delta's own log commit by commit: for the history, and for the versions that can still be read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import unquote

from lakewarden.delta.commit_log.stamp import DROP, ERASE, CommitStamp
from lakewarden.delta.partitions import Partition
from lakewarden.delta.replay.actions import read_commit
from lakewarden.delta.replay.segment import LAST_CHECKPOINT, LOG, checkpoint_name, commit_name
from lakewarden.storage.objects import Missing, ObjectStore, StoredObject, keys_of

__all__ = ["LAST_CHECKPOINT", "LOG", "CommitLog", "CommitRecord", "checkpoint_name", "commit_name", "is_fence", "without_nested"]

_COMMIT = re.compile(rf"{LOG}/(\d{{20}})\.json$")


@dataclass(frozen=True)
class CommitRecord:
    """One commit's `commitInfo`, empty where its writer left none, and its transaction identifiers."""

    version: int
    info: dict[str, object]
    transactions: dict[str, int]
    """Its transaction identifiers: version by application id."""
    digest: str
    """SHA-256 of its text: tells it from any other commit of that version."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since the epoch as its writer's clock said; 0 where it said nothing. Order is by version, not by this."""
        found = self.info.get("inCommitTimestamp", self.info.get("timestamp"))
        return found if isinstance(found, int) else 0


def is_fence(commit: CommitRecord) -> bool:
    """Whether nothing that was committed before it is there any more."""
    text = commit.info.get("userMetadata")
    stamp = CommitStamp.parse(text if isinstance(text, str) else None)
    return stamp is not None and stamp.operation in (DROP, ERASE)


def without_nested(listing: Sequence[StoredObject]) -> list[StoredObject]:
    """The objects of a table without those of other tables inside its directory."""
    nested = tuple(f"{found.key.partition(f'/{LOG}/')[0]}/" for found in listing if f"/{LOG}/" in found.key)
    return [found for found in listing if not found.key.startswith(nested)]


class CommitLog:
    """The commits under one scope's `_delta_log`."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def read(self, version: int) -> CommitRecord | None:
        """None when there is no such commit, or it has left the log."""
        try:
            text = self._store.get(commit_name(version))
        except Missing:
            return None
        if not text:  # emptied below the fence of a dropped table
            return None
        return _commit(version, text)

    def digest(self, version: int) -> bytes | None:
        """What tells a commit from any other; None when there is none, or it has left the log."""
        try:
            return sha256(self._store.get(commit_name(version))).digest()
        except Missing:
            return None

    def ends_with(self, version: int, digest: bytes) -> bool:
        """Whether that very commit is the newest: versions follow each other without a gap."""
        return self.digest(version) == digest and not self._store.has(commit_name(version + 1))

    def added(self, version: int) -> frozenset[str]:
        """The paths of the files that this commit added. Raises `Missing`."""
        actions = read_commit(version, self._store.get(commit_name(version))).actions
        return frozenset(unquote(action.add.path) for action in actions if action.add is not None)

    def changed(self, version: int, columns: Sequence[str]) -> frozenset[Partition]:
        """The partitions of the files that this commit added or removed. Raises `Missing`.

        Args:
            columns: the partition columns, in the table's order.
        """
        actions = read_commit(version, self._store.get(commit_name(version))).actions
        found = (action.add or action.remove for action in actions)
        values = {tuple(sorted(file.partition_values.items())) for file in found if file is not None and file.partition_values}
        return frozenset(tuple((name, dict(one).get(name) or None) for name in columns) for one in values)

    def has(self, version: int) -> bool:
        return self._store.has(commit_name(version))

    def commits(self) -> list[int]:
        """The versions whose commits are still there, ascending."""
        return [int(found[1]) for name in keys_of(self._store, LOG) if (found := _COMMIT.match(name))]


def _commit(version: int, text: bytes) -> CommitRecord:
    commit = read_commit(version, text)
    transactions = {action.txn.app_id: action.txn.version for action in commit.actions if action.txn is not None}
    return CommitRecord(version, commit.info, transactions, commit.digest)
