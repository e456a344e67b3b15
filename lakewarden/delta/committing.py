"""What every commit of ours carries, through whichever door of deltalake it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from deltalake import CommitProperties, PostCommitHookProperties, Transaction
from deltalake.transaction import AddAction, RemoveAction

from lakewarden.clock import to_millis
from lakewarden.delta.files import DataFile, NewFile
from lakewarden.delta.stamp import CommitStamp

BATCH_APP = "lakewarden/batch"
"""Application id whose transaction version is the number of the scope's last `batch-<N>` file: it survives the loss of
manifest.json, compactions, checkpoints and restores, and costs no look at the files."""

CHECKPOINTING = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
"""delta-rs would look for expired log entries after every commit, which costs more the longer the history is (6 instead
of 2.6 ms at 500 commits); vacuum does it instead."""

NO_CHECKPOINT = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""For a commit behind which we make the checkpoint, if there is to be one."""


def transactions_of(transaction: tuple[str, int] | None = None, batch: int | None = None) -> dict[str, int]:
    """A commit's transaction identifiers: version by application id."""
    given = dict([transaction]) if transaction else {}
    return given if batch is None else given | {BATCH_APP: batch}


def commit_properties(
    stamp: CommitStamp,
    transactions: Mapping[str, int],
    *,
    strict: bool,
    read_version: int | None = None,
) -> CommitProperties:
    """`read_version` is what history shows as the version that the commit was made from."""
    metadata: dict[str, object] = {"userMetadata": stamp.text()}
    if read_version is not None:
        metadata["readVersion"] = read_version
    return CommitProperties(
        custom_metadata=metadata,
        max_commit_retries=0 if strict else None,
        app_transactions=[Transaction(*one) for one in transactions.items()] or None,
    )


def added(files: Sequence[NewFile], now: datetime, *, data_change: bool = True) -> list[AddAction]:
    return [AddAction(file.path, file.size, {}, to_millis(now), data_change, file.stats) for file in files]


def removed(files: Sequence[DataFile], now: datetime, *, data_change: bool = True) -> list[RemoveAction]:
    return [RemoveAction(file.path, data_change, to_millis(now), file.size, {}) for file in files]
