"""What the commits between two versions of a table did, for a commit that lost against them."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.partitions import Partition
from lakewarden.delta.replay.actions import CommitActions, read_commit
from lakewarden.delta.replay.paths import key_of, root_at
from lakewarden.delta.replay.segment import commit_name
from lakewarden.storage.objects import Missing, ObjectStore


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
    bar = ""
    for version in range(since + 1, newest + 1):
        try:
            text = store.get(commit_name(version))
        except Missing:
            return Between(frozenset(), (), f"version {version} is no longer in the log")
        commit = read_commit(version, text)
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
