"""Commits through delta-rs, for tables that use more of Delta than ours do (delta/commit_log/plain.py)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.transaction import AddAction, RemoveAction

from lakewarden.base.clock import to_millis
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.parquet.files import DataFile, NewFile

CHECKPOINTING = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
"""delta-rs would look for expired log entries after every commit, which costs more the longer the history is (6 instead
of 2.6 ms at 500 commits); vacuum does it instead."""

NO_CHECKPOINT = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""For a commit behind which we make the checkpoint, if there is to be one."""


def commit(table: DeltaTable, change: CommitChange, schema: Schema, *, now: datetime, hooks: PostCommitHookProperties) -> None:
    """Commits the files of `change`. Where it overwrites, delta-rs itself removes all that there is.

    Raises whatever delta-rs does; to be called inside `delta_errors`.
    """
    overwrites = change.mode == "Overwrite"
    removals = [] if overwrites else _removed(change.removes, now, change.data_change)
    table.create_write_transaction(
        [*_added(change.adds, now, change.data_change), *removals],
        "overwrite" if overwrites else "append",
        schema,
        commit_properties=_properties(table, change),
        post_commithook_properties=hooks,
    )


def set_property(table: DeltaTable, name: str, value: str, change: CommitChange, hooks: PostCommitHookProperties) -> None:
    """Raises as `commit`."""
    table.alter.set_table_properties(
        {name: value},
        raise_if_not_exists=False,
        commit_properties=_properties(table, change),
        post_commithook_properties=hooks,
    )


def _properties(table: DeltaTable, change: CommitChange) -> CommitProperties:
    """What every commit of ours carries. `readVersion` is what history shows as the version that it was made from."""
    return CommitProperties(
        custom_metadata={"userMetadata": change.stamp.text(), "readVersion": table.version()},
        max_commit_retries=0,  # else it would move behind others' commits
        app_transactions=[Transaction(*one) for one in change.transactions.items()] or None,
    )


def _added(files: Sequence[NewFile], now: datetime, data_change: bool) -> list[AddAction]:
    return [AddAction(file.path, file.size, dict(file.partition), to_millis(now), data_change, file.stats) for file in files]


def _removed(files: Sequence[DataFile], now: datetime, data_change: bool) -> list[RemoveAction]:
    return [RemoveAction(file.path, data_change, to_millis(now), file.size, dict(file.partition)) for file in files]
