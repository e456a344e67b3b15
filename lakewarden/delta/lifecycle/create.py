"""Makes the first commit of a scope's table."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from uuid import UUID

from lakewarden.base.clock import NewId, random_id, to_millis
from lakewarden.base.faults import Reach, no_faults
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import CHANGE_DATA_FEED, CommitChange, TableHead, commit_text
from lakewarden.delta.commit_log.commit_chains import CHAINS
from lakewarden.delta.commit_log.committing import held_still
from lakewarden.delta.commit_log.publish import publish
from lakewarden.delta.commit_log.version import OwnCommit
from lakewarden.delta.parquet.schema import delta_schema
from lakewarden.delta.scope import owner_property
from lakewarden.storage.steps import Steps

_CHECKPOINT_INTERVAL = 10
"""With delta-rs's default of 100, opening grows from 2 to 12 ms. On an object store each commit since the checkpoint costs an
opening two requests, and a checkpoint costs four requests and one for each commit in it."""

_LOG_DAYS = 30
"""Delta's own default; history and restore reach at least as far back as deleted files are kept."""


def create_table(
    target: ScopeTarget,
    change: CommitChange,
    *,
    since: datetime,
    now: datetime,
    new_id: NewId = random_id,
    reach: Reach = no_faults,
) -> Steps[OwnCommit]:
    """Commits version 0: the table with the files that the change adds. `since` and `reach` are as in `ScopeTable.commit`.

    Raises:
        Conflict: another process created it meanwhile, or this took too long (`TooLate`); nothing was changed.
    """
    table_id = str(UUID(new_id(), version=4))
    head = TableHead(
        table_id,
        delta_schema(target.schema),
        _configuration(target),
        to_millis(now),
        partition_columns=target.schema.partition_by,
    )
    if target.change_data_feed:
        head = head.with_properties({CHANGE_DATA_FEED: "true"})
    change = replace(change, mode="ErrorIfExists", head=head, operation="CREATE TABLE")
    text = commit_text(change, None, now, new_id())
    yield from publish(target.location, 0, text, held_still(change.stamp, since, now), reach)
    return OwnCommit(0, change, now, CHAINS.was_made(target.location, 0, text, ""))


def _configuration(target: ScopeTarget) -> dict[str, str]:
    """Returns the properties for other writers; Lakewarden's own vacuum follows the table's options."""
    retention_hours = target.retention_hours
    return owner_property(target) | {
        "delta.checkpointInterval": str(_CHECKPOINT_INTERVAL),
        "delta.deletedFileRetentionDuration": f"interval {retention_hours} hours",
        "delta.logRetentionDuration": f"interval {max(retention_hours, _LOG_DAYS * 24)} hours",
    }
