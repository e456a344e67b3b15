"""What the commit of a direct write says of itself: operation, parameters and metrics under Spark's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.parquet.files import NewFile
from lakewarden.tables.direct.effects import Draft


def stamp_of(
    operation: str,
    parameters: Mapping[str, str],
    target: ScopeTarget,
    job_id: str,
    given: Sequence[NewFile],
    draft: Draft,
) -> CommitStamp:
    """It names the log and the user, as a flush does, but no rows of the log: it took none."""
    adds = (*given, *draft.adds)
    removed = {"numRemovedFiles": len(draft.removes), "numRemovedBytes": sum(file.size for file in draft.removes)}
    if operation == "WRITE":
        output = {"numOutputRows": sum(file.rows for file in adds), "numOutputBytes": sum(file.size for file in adds)}
        metrics = {"numFiles": len(adds)} | output | (removed if draft.removes else {})
    else:
        added = {"numAddedFiles": len(adds), "numAddedBytes": sum(file.size for file in adds)}
        metrics = added | removed | _rows(operation, sum(file.rows for file in given), draft)
    if draft.changes:
        metrics |= {"numAddedChangeFiles": len(draft.changes)}
    return CommitStamp(job_id, operation, dict(parameters), metrics, app_id=target.app_id, user=target.scope.user)


def _rows(operation: str, inserted: int, draft: Draft) -> dict[str, int]:
    if operation == "MERGE":
        changed = {"Inserted": inserted, "Updated": draft.updated, "Deleted": draft.deleted, "Copied": draft.copied}
        return {f"numTargetRows{word}": count for word, count in changed.items()}
    updated = {"numUpdatedRows": draft.updated} if operation == "UPDATE" else {}
    deleted = {"numDeletedRows": draft.deleted} if draft.deleted or operation != "UPDATE" else {}
    return updated | deleted | {"numCopiedRows": draft.copied}
