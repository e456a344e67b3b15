"""The first commit of a scope's table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime

from deltalake.transaction import create_table_with_add_actions

from lakewarden.delta.border import delta_errors
from lakewarden.delta.committing import NO_CHECKPOINT, added, commit_properties, transactions_of
from lakewarden.delta.files import NewFile
from lakewarden.delta.outcome import certain
from lakewarden.delta.remembered import REMEMBERED
from lakewarden.delta.schema import delta_schema
from lakewarden.delta.stamp import CommitStamp
from lakewarden.delta.uri import delta_uri
from lakewarden.report import ScopeTarget
from lakewarden.storage.location import local_path
from lakewarden.storage.options import delta_options

_CHECKPOINT_INTERVAL = 10
"""delta-rs's own 100 lets opening grow from 2 to 12 ms."""

_CHECKPOINT_INTERVAL_REMOTE = 4
"""On an object store each commit since the checkpoint costs an opening two requests, and a checkpoint costs as many requests
as there are commits in it, and four."""

_LOG_DAYS = 30
"""Delta's own default; history and restore reach at least as far back as deleted files are kept."""


def create_table(
    target: ScopeTarget,
    adds: Sequence[NewFile],
    stamp: CommitStamp,
    transaction: tuple[str, int] | None,
    *,
    since: datetime,
    now: datetime,
    batch: int | None = None,
) -> None:
    """Makes version 0: the table with these files. `since` is as `ScopeTable.commit` has it.

    Raises:
        Conflict: somebody made it meanwhile, or it took too long (`TooLate`); nothing was changed.
    """
    transactions = transactions_of(transaction, batch)
    properties = commit_properties(stamp, transactions, since=since, now=now)
    made = certain(target.location, 0, stamp, [file.path for file in adds])
    with made, delta_errors(f"cannot create the Delta table at {target.uri}"):
        path = local_path(target.uri)
        if path is not None and not adds:
            path.mkdir(parents=True, exist_ok=True)
        create_table_with_add_actions(
            delta_uri(target.uri),
            delta_schema(target.schema),
            added(adds, now),
            mode="error",
            configuration=_configuration(target),
            storage_options=delta_options(target.location, os.environ) or None,
            commit_properties=properties,
            post_commithook_properties=NO_CHECKPOINT,
        )
    REMEMBERED.remember(adds, 0, transactions)


def _configuration(target: ScopeTarget) -> dict[str, str]:
    """What writers of others go by; our own vacuum goes by the table's options."""
    retention_hours = target.retention_hours
    interval = _CHECKPOINT_INTERVAL_REMOTE if local_path(target.uri) is None else _CHECKPOINT_INTERVAL
    return {
        "delta.checkpointInterval": str(interval),
        "delta.deletedFileRetentionDuration": f"interval {retention_hours} hours",
        "delta.logRetentionDuration": f"interval {max(retention_hours, _LOG_DAYS * 24)} hours",
    }
