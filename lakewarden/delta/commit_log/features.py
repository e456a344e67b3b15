"""The table features of Delta that other programs turn on: which of them a commit of ours keeps.

A feature that is not named here is refused by name, before anything is written. What asks nothing unless it is used is looked at
where it is: columns (`delta.row_rules`, `ScopeTable.schema_version`), vectors (`ScopeTable.check_plain`).

Source: Delta's protocol, "Table Features".
"""

from __future__ import annotations

from lakewarden.delta.commit_log.actions import TableHead
from lakewarden.errors import Unsupported

_KEPT = frozenset(
    {
        "appendOnly",  # delta-rs refuses to remove rows
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "generatedColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
        "variantType",
        "variantType-preview",
    }
)

_LAST_LEGACY = 4
"""Of the versions of writers without a list, the last whose demands all show in properties and columns that are looked at."""


def check_features(head: TableHead, where: str) -> None:
    """Call this before anything is written for a commit.

    Raises:
        Unsupported: the table has a feature that a commit of ours would not keep.
    """
    foreign = sorted({*head.features} - _KEPT)
    if foreign:
        raise Unsupported(
            f"{where} has table features of another writer that our commits would not keep: {', '.join(foreign)}."
            " It is read as it is, and nothing is committed to it until that writer drops them (ALTER TABLE … DROP FEATURE)"
        )
    if _LAST_LEGACY < head.writer < 7 and "delta.identity." in head.schema:
        raise Unsupported(f"{where} has identity columns of another writer, whose values our commits would not give")
