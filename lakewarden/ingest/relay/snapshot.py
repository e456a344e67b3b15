"""The rows of a table as of one `_seq`, in parts that are published one after the other: a full start.

One transaction of Kafka for all of them would end with `transaction.timeout.ms`. Rows are in an order that a later process finds
again, whatever is flushed meanwhile, so how many of them are published says where it goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakewarden.catalog.model import TableSchema
from lakewarden.log.record import SEQ
from lakewarden.storage.kafka.publisher import SnapshotProgress
from lakewarden.tables.changes.feed import ChangeFeed


@dataclass(frozen=True)
class SnapshotPart:
    """Rows to publish together, and how far the snapshot is then; `reached` is None behind the last ones."""

    rows: Sequence[pa.Table]
    reached: SnapshotProgress | None


def snapshot_parts(feed: ChangeFeed, schema: TableSchema, seq: int, done: SnapshotProgress, most: int) -> Iterator[SnapshotPart]:
    """What follows `done`, about `most` rows at a time. There is at least one part. Raises as `ChangeFeed.changes`."""
    held: list[pa.Table] = []
    count = 0
    for user, rows in feed.scopes_at(seq, done.user):
        start = done.rows if user == done.user else 0
        ordered = in_order(rows, schema) if rows.num_rows > start else rows
        while start < rows.num_rows:
            held.append(ordered.slice(start, most - count))
            start, count = start + held[-1].num_rows, count + held[-1].num_rows
            if count == most:
                yield SnapshotPart(held, SnapshotProgress(user, start))
                held, count = [], 0
    yield SnapshotPart(held, None)


def in_order(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """By the primary key. Without one by `_seq`, then by the other columns: rows of other writers have none and come last."""
    columns = schema.primary_key or (SEQ, *(column.name for column in schema.shown))
    return rows.sort_by([(name, "ascending") for name in columns])
