"""What every commit of ours carries, through whichever door of deltalake it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from deltalake import CommitProperties, PostCommitHookProperties, Transaction
from deltalake.transaction import AddAction, RemoveAction

from lakewarden.clock import HELD_AT_MOST, Clock, to_millis
from lakewarden.delta.files import DataFile, NewFile
from lakewarden.delta.stamp import CommitStamp
from lakewarden.errors import Conflict

BATCH_APP = "lakewarden/batch"
"""Application id whose transaction version is the number of the scope's last `batch-<N>` file: it survives the loss of
manifest.json, compactions, checkpoints and restores, and costs no look at the files."""

CHECKPOINTING = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
"""delta-rs would look for expired log entries after every commit, which costs more the longer the history is (6 instead
of 2.6 ms at 500 commits); vacuum does it instead."""

NO_CHECKPOINT = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""For a commit behind which we make the checkpoint, if there is to be one."""


@dataclass(frozen=True)
class Committer:
    """For whom commits are made. `since`: when the scope's place was looked up, by the clock."""

    job_id: str
    since: datetime
    clock: Clock


class TooLate(Conflict):
    """Somebody else has gone on, or may have: the same must not be tried again on what is there now."""


def check_held(what: str, since: datetime, now: datetime) -> None:
    """To be asked before every change of a scope that cannot be taken back: each commit asks by itself.

    Args:
        what: what is about to be done, as `the flush of chat.notes`.
        since: when its place was looked up, or what it relies on was read; by the clock of `now`.

    Raises:
        TooLate: that was more than `HELD_AT_MOST` ago; nothing was changed.
    """
    if now - since > HELD_AT_MOST:
        raise TooLate(
            f"{what} was planned {now - since} ago, and what was there may have been given up and begun anew: do it again"
        )


def transactions_of(transaction: tuple[str, int] | None = None, batch: int | None = None) -> dict[str, int]:
    """A commit's transaction identifiers: version by application id."""
    given = dict([transaction]) if transaction else {}
    return given if batch is None else given | {BATCH_APP: batch}


def commit_properties(
    stamp: CommitStamp,
    transactions: Mapping[str, int],
    *,
    since: datetime,
    now: datetime,
    strict: bool = True,
    read_version: int | None = None,
) -> CommitProperties:
    """`read_version` is what history shows as the version that the commit was made from. Raises as `check_held`."""
    check_held(f"{stamp.operation} by job {stamp.job_id}", since, now)
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
