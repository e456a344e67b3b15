"""The history of a table for people (k3.md K3-102 to K3-110): one entry per Delta commit, newest first.

Reads only the commits to show, each by name: a page costs the same however long the history is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice

from lakewarden.base.clock import from_millis, to_millis
from lakewarden.base.commit_metadata import shown_metadata
from lakewarden.base.connection import Location
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.replay.actions import CommitActions
from lakewarden.delta.scope import existing_table
from lakewarden.errors import InvalidArgument
from lakewarden.storage.open import open_store

_EXPRESSION_ID = re.compile(r"#\d+L?\b")

_ALIASES: dict[str, dict[str, tuple[str, ...]]] = {
    "UPDATE": {"numTargetRowsUpdated": ("numUpdatedRows", "num_updated_rows")},
    "DELETE": {"numTargetRowsDeleted": ("numDeletedRows", "num_deleted_rows")},
    "MERGE": {
        "numTargetRowsInserted": ("num_target_rows_inserted",),
        "numTargetRowsUpdated": ("num_target_rows_updated",),
        "numTargetRowsDeleted": ("num_target_rows_deleted",),
    },
    "OPTIMIZE": {"numFilesAdded": ("numAddedFiles",), "numFilesRemoved": ("numRemovedFiles",)},
}
"""Metric names of K3, and what Spark and delta-rs call the same: theirs stay, K3's are added (K3-109)."""

_NONE: dict[str, dict[str, int | str]] = {"UPDATE": {"numTargetRowsInserted": 0, "numTargetRowsDeleted": 0}}
"""Of an operation that K3 counts in more ways than the operation has."""


_FIRST = to_millis(datetime(1, 1, 1, tzinfo=UTC))
_LAST = to_millis(datetime(9999, 12, 31, tzinfo=UTC))


@dataclass(frozen=True)
class HistoryEntry:
    """One commit. Operation, parameters and metrics are those of our request if the commit is ours, else the writer's own."""

    version: int
    timestamp: datetime
    """In UTC, to the millisecond, as the commit says it; one outside of the years 1 to 9999 is the nearest that is inside."""
    operation: str
    parameters: dict[str, str]
    operation_metrics: dict[str, int | str]
    user_metadata: dict[str, object]
    """Of our commits, all that they say of themselves. Empty when nothing was attached; text that is not a JSON object is under
    `raw`."""
    engine_info: str
    read_version: int | None
    """The version that the commit followed; 0 for the first, None where another writer left none."""
    metadata: dict[str, object] = field(default_factory=dict)
    """What the caller attached, alone: of our commits their `metadata`, of others' `user_metadata`."""

    @property
    def k3_read_version(self) -> int:
        """The same for K3, whose field is a number: without a version of its writer, the one before (K3-106)."""
        return max(self.version - 1, 0) if self.read_version is None else self.read_version


def history(target: ScopeTarget, limit: int | None = None, before_version: int | None = None) -> list[HistoryEntry]:
    """Returns at most `limit` entries of versions below `before_version` (by default all), newest first.

    The list ends at commits that were removed from the log.

    Raises:
        InvalidArgument: a negative limit or version.
        NotFound: the scope has no table.
    """
    if limit is not None and limit < 0:
        raise InvalidArgument(f"limit {limit}: how many entries to show, 0 or more")
    if before_version is not None and before_version < 0:
        raise InvalidArgument(f"before_version {before_version}: versions count from 0, and 0 shows none")
    table = existing_table(target)
    end = table.version + 1
    return entries_below(table.location, end if before_version is None else min(end, before_version), limit)


def entries_below(location: Location, before_version: int, limit: int | None) -> list[HistoryEntry]:
    """Returns the same of the table at `location`, which is not opened: each commit is read by its name."""
    return [_entry(commit) for commit in islice(CommitLog(open_store(location)).back(before_version - 1), limit)]


def _entry(commit: CommitActions) -> HistoryEntry:
    info = commit.info
    text, stamp = info.get("userMetadata"), CommitStamp.of(commit)
    operation = stamp.operation if stamp else str(info.get("operation", "UNKNOWN"))
    metrics = _numbers(stamp.metrics if stamp else _mapping(info.get("operationMetrics")))
    return HistoryEntry(
        version=commit.version,
        timestamp=from_millis(min(max(_written_at(info), _FIRST), _LAST)),
        operation=operation,
        parameters=stamp.parameters if stamp else _parameters(_mapping(info.get("operationParameters"))),
        operation_metrics=_aliases(operation, metrics) | metrics,
        user_metadata=_user_metadata(text),
        metadata=shown_metadata(stamp.metadata) if stamp else _user_metadata(text),
        engine_info=str(info.get("engineInfo") or ""),
        read_version=_read_version(commit.version, info),
    )


def _written_at(info: Mapping[str, object]) -> int:
    """Milliseconds since the epoch as its writer's clock said; 0 where it said nothing. Order is by version, not by this."""
    found = info.get("inCommitTimestamp", info.get("timestamp"))
    return found if isinstance(found, int) else 0


def _read_version(version: int, info: Mapping[str, object]) -> int | None:
    found = info.get("readVersion")
    if isinstance(found, int):
        return found
    return 0 if version == 0 else None


def _user_metadata(text: object) -> dict[str, object]:
    if text is None or text == "":
        return {}
    try:
        found = json.loads(str(text))
    except ValueError:
        return {"raw": str(text)}
    return found if isinstance(found, dict) else {"raw": str(text)}


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _numbers(metrics: Mapping[str, object]) -> dict[str, int | str]:
    """Spark writes numbers as text."""
    return {name: _number(value) for name, value in metrics.items()}


def _number(value: object) -> int | str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def _aliases(operation: str, metrics: Mapping[str, int | str]) -> dict[str, int | str]:
    if operation not in _ALIASES:
        return {}
    pairs = _ALIASES[operation].items()
    return _NONE.get(operation, {}) | {k3: metrics[native] for k3, names in pairs for native in names if native in metrics}


def _parameters(parameters: Mapping[str, object]) -> dict[str, str]:
    return {name: _parameter(name, value) for name, value in parameters.items() if value is not None}


def _parameter(name: str, value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return normal_predicate(text) if name == "predicate" else text


def normal_predicate(text: str) -> str:
    """Spark's `["(id#3022L = 4)"]` → `id = 4` (K3-105): no expression ids, no list of one, no outer brackets."""
    try:
        found = json.loads(text)
    except ValueError:
        found = text
    parts = found if isinstance(found, list) else [text]
    return " AND ".join(_unwrapped(_EXPRESSION_ID.sub("", str(part))) for part in parts)


def _unwrapped(text: str) -> str:
    while text.startswith("(") and text.endswith(")") and _one_pair(text):
        text = text[1:-1].strip()
    return text


def _one_pair(text: str) -> bool:
    """Whether the first bracket is closed by the last character."""
    depth = 0
    for store, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return store == len(text) - 1
    return False
