"""A commit of ours in the form of Delta's log: one JSON object per line.

It has what our own tables need, and what other writers' features ask of it where a commit of ours keeps these
(`delta.features.check_features`, which refuses the others by name).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

import msgspec

from lakewarden.base import VERSION
from lakewarden.base.clock import to_millis
from lakewarden.catalog.buckets import bucket_named
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.parquet.files import ChangeFile, DataFile, LoggedName, NewFile
from lakewarden.delta.replay.actions import Vector

READER, WRITER = 1, 2
"""Delta's protocol versions of our tables (docs/decisions/0008-plain-tables.md), but for those with a change data feed."""

CHANGE_DATA_FEED = "delta.enableChangeDataFeed"
"""Delta's property of a table whose commits say for each row how it changed."""

DELETION_VECTORS = "deletionVectors"
"""Delta's feature of a table whose files may have rows that are deleted by a bitmap beside them."""

FEED_WRITER = 4
"""Delta's protocol version of writers of such a table."""

CHANGE_DATA_FEED_FEATURE = "changeDataFeed"
MOST_READER, MOST_WRITER = 3, 7
"""The highest versions of Delta's protocol: from these on it lists features by name ("Table Features")."""

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
    reader_features: tuple[str, ...] = ()
    writer_features: tuple[str, ...] = ()
    """What its protocol lists by name, from `MOST_READER` and `MOST_WRITER` on."""

    @property
    def features(self) -> frozenset[str]:
        return frozenset((*self.reader_features, *self.writer_features))

    @property
    def has_change_data_feed(self) -> bool:
        return self.configuration.get(CHANGE_DATA_FEED, "").lower() == "true"

    def with_properties(self, given: Mapping[str, str]) -> TableHead:
        """With the protocol that they need: never a lower one."""
        head = replace(self, configuration={**self.configuration, **given})
        if not head.has_change_data_feed:
            return head
        if head.writer < MOST_WRITER:
            return replace(head, writer=max(head.writer, FEED_WRITER))
        return replace(head, writer_features=tuple(dict.fromkeys((*head.writer_features, CHANGE_DATA_FEED_FEATURE))))

    def protocol(self) -> Action:
        listed: dict[str, object] = {}
        if self.reader >= MOST_READER:
            listed["readerFeatures"] = self.reader_features
        if self.writer >= MOST_WRITER:
            listed["writerFeatures"] = self.writer_features
        return {"protocol": {"minReaderVersion": self.reader, "minWriterVersion": self.writer, **listed}}

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
    transactions: Mapping[str, int] = field(default_factory=dict)
    """Version by application id (`committing.transactions_of`)."""
    mode: Mode = "Append"
    adds: Sequence[NewFile] = ()
    removes: Sequence[DataFile] = ()
    changes: Sequence[ChangeFile] = ()
    """How rows changed, where `adds` and `removes` do not say it: all of them, or none."""
    head: TableHead | None = None
    data_change: bool = True
    """False where the rows stay the same (compact, optimize)."""
    operation: str = WRITE
    """Delta's own word, for those who do not know the stamp."""


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
    """Under the name that its `add` has: readers match the two by spelling and vector, or by what the spelling means."""
    path, vector = (_spelled(file.path), None) if file.logged is None else file.logged
    return {
        "remove": {
            "path": path,
            "deletionTimestamp": to_millis(now),
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": dict(file.partition),
            "size": file.size,
            **({} if vector is None else {"deletionVector": vector}),
        }
    }


def _cdc(file: ChangeFile) -> Action:
    values = dict(file.partition)
    return {"cdc": {"path": _spelled(file.path), "partitionValues": values, "size": file.size, "dataChange": False}}


def _spelled(path: str) -> str:
    """As a URL. In the names that we give (`delta.partitions.directory`), only one character means something else there."""
    return path.replace("%", "%25")


def logged_name(path: str, spelling: str, vector: Vector | None) -> LoggedName | None:
    """What a removal of the file has to say; None where that is what it says of a file of ours."""
    return None if vector is None and spelling == _spelled(path) else LoggedName(spelling, vector)
