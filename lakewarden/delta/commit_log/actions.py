"""A commit of ours in the form of Delta's log: one JSON object per line.

Only what a plain table needs (delta/commit_log/plain.py): the rest of Delta's protocol is left to delta-rs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import msgspec

from lakewarden.base.clock import to_millis
from lakewarden.base.version import VERSION
from lakewarden.catalog.buckets import bucket_named
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.parquet.change_files import ChangeFile
from lakewarden.delta.parquet.files import DataFile, NewFile

READER, WRITER = 1, 2
"""Delta's protocol versions of our tables (docs/decisions/0008-plain-tables.md), but for those with a change data feed."""

CHANGE_DATA_FEED = "delta.enableChangeDataFeed"
"""Delta's property of a table whose commits say for each row how it changed."""

DELETION_VECTORS = "deletionVectors"
"""Delta's feature of a table whose files may have rows that are deleted by a bitmap beside them."""

FEED_WRITER = 4
"""Delta's protocol version of writers of such a table."""

BUCKET_TAG = "lakewarden.bucket"
"""The tag of a data file that has the rows of one bucket: what its name says too, for readers of the log."""

_ENGINE = f"Lakewarden/{VERSION}"
_encoded = msgspec.json.Encoder().encode

WRITE = "WRITE"
"""Delta's own word for a commit of rows."""

Mode = Literal["ErrorIfExists", "Append", "Overwrite"]

Action = Mapping[str, object]


@dataclass(frozen=True)
class TableHead:
    """What a table says of itself: Delta's `metaData` action, and its protocol. `created_ms` since the epoch."""

    id: str
    schema: str
    configuration: Mapping[str, str]
    created_ms: int | None
    name: str | None = None
    description: str | None = None
    partition_columns: tuple[str, ...] = ()
    reader: int = READER
    writer: int = WRITER
    features: tuple[str, ...] = ()
    """Table features that its protocol asks of readers or writers, by name."""

    def with_columns(self, schema: str, partition_columns: tuple[str, ...]) -> TableHead:
        return replace(self, schema=schema, partition_columns=partition_columns)

    @property
    def has_change_data_feed(self) -> bool:
        return self.configuration.get(CHANGE_DATA_FEED, "").lower() == "true"

    def with_properties(self, given: Mapping[str, str]) -> TableHead:
        """With the protocol that they need: never a lower one."""
        head = replace(self, configuration={**self.configuration, **given})
        return replace(head, writer=max(head.writer, FEED_WRITER)) if head.has_change_data_feed else head

    def protocol(self) -> Action:
        return {"protocol": {"minReaderVersion": self.reader, "minWriterVersion": self.writer}}

    def action(self) -> Action:
        return {
            "metaData": {
                "id": self.id,
                "name": self.name,
                "description": self.description,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": self.schema,
                "partitionColumns": list(self.partition_columns),
                "configuration": dict(self.configuration),
                "createdTime": self.created_ms,
            }
        }


@dataclass(frozen=True)
class CommitChange:
    """What a commit does to a table. `head` where it changes what the table says of itself, or begins it."""

    stamp: CommitStamp
    transactions: Mapping[str, int]
    mode: Mode = "Append"
    adds: Sequence[NewFile] = ()
    removes: Sequence[DataFile] = ()
    changes: Sequence[ChangeFile] = ()
    """How rows changed, where `adds` and `removes` do not say it: all of them, or none."""
    head: TableHead | None = None
    data_change: bool = True
    operation: str = WRITE
    """Delta's own word, for those who do not know the stamp."""

    @property
    def paths(self) -> list[str]:
        """Of all files that it names."""
        return [*(file.path for file in self.adds), *(file.path for file in self.removes)]


def commit_text(change: CommitChange, read_version: int | None, now: datetime, commit_id: str) -> bytes:
    """The whole commit.

    Args:
        read_version: the version that it was made from; None for the first.
        now: when it and its files were written, by the caller's clock; readers order nothing by it, but `restore` and `vacuum`
            go by it.
        commit_id: no other commit has the same, whatever else they share.
    """
    lines = [_info(change, read_version, now, commit_id)]
    if change.head is not None:
        if read_version is None or change.head.writer > WRITER:
            lines.append(change.head.protocol())
        lines.append(change.head.action())
    lines += (_add(file, now, change.data_change) for file in change.adds)
    lines += (_remove(file, now, change.data_change) for file in change.removes)
    lines += map(_cdc, change.changes)
    lines += ({"txn": {"appId": app, "version": version}} for app, version in change.transactions.items())
    return b"\n".join(map(_encoded, lines)) + b"\n"


def _info(change: CommitChange, read_version: int | None, now: datetime, commit_id: str) -> Action:
    made_from = {} if read_version is None else {"readVersion": read_version}
    return {
        "commitInfo": {
            "timestamp": to_millis(now),
            "operation": change.operation,
            "operationParameters": {"mode": change.mode},
            **made_from,
            "engineInfo": _ENGINE,
            "txnId": commit_id,
            "userMetadata": change.stamp.text(),
        }
    }


def _add(file: NewFile, now: datetime, data_change: bool) -> Action:
    bucket = bucket_named(file.path)
    tags: Action = {} if bucket is None else {"tags": {BUCKET_TAG: str(bucket)}}
    return {
        "add": {
            "path": _spelled(file.path),
            "partitionValues": dict(file.partition),
            "size": file.size,
            "modificationTime": to_millis(now),
            "dataChange": data_change,
            "stats": file.stats,
            **tags,
        }
    }


def _remove(file: DataFile, now: datetime, data_change: bool) -> Action:
    return {
        "remove": {
            "path": _spelled(file.path),
            "deletionTimestamp": to_millis(now),
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": dict(file.partition),
            "size": file.size,
        }
    }


def _cdc(file: ChangeFile) -> Action:
    values = dict(file.partition)
    return {"cdc": {"path": _spelled(file.path), "partitionValues": values, "size": file.size, "dataChange": False}}


def _spelled(path: str) -> str:
    """As a URL: of the characters that `plain.has_plain` allows, only one means something else there."""
    return path.replace("%", "%25")
