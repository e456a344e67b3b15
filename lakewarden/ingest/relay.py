"""One relay: reads a table's changes behind the position that the topic has, and publishes them with the next one."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import msgspec
import pyarrow as pa

from lakewarden.base.clock import Clock
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.json_values import Json, json_row
from lakewarden.catalog.buckets import bucket_of
from lakewarden.catalog.model import Table, TableSchema
from lakewarden.delta.parquet.files import CHANGE_TYPE
from lakewarden.errors import Ended, InvalidArgument, NotFound
from lakewarden.ingest.topic_report import RelayReport
from lakewarden.log.position import NOTHING, position_of
from lakewarden.log.record import SEQ, USER
from lakewarden.storage.kafka_publisher import (
    Outgoing,
    Position,
    Publisher,
    SnapshotProgress,
    last_position,
    make_topic,
    publishing,
)
from lakewarden.storage.kafka_topics import Topic, create_position_topic, create_topic, partitions_of
from lakewarden.tables.changes.feed import ChangeFeed
from lakewarden.tables.changes.value import Start

# The rows of a table as of one `_seq`, in parts that are published one after the other: a full start.
#
# One transaction of Kafka for all of them would end with `transaction.timeout.ms`. Rows are in an order that a later process
# finds again, whatever is flushed meanwhile, so how many of them are published says where it goes on.


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


# Changes of a table as messages: keys in JSON, values in the format `debezium-json`.
ChangelogMode = Literal["upsert", "all"]
Row = Mapping[str, object]


@dataclass(frozen=True)
class MessageForm:
    """How the changes of one table become messages."""

    columns: tuple[str, ...]
    """Those that a row shows, in order; `_user` first where rows belong to users."""
    key: tuple[str, ...]
    """Those that identify a row; without any, messages have no key."""
    mode: ChangelogMode
    """`upsert`: no rows from before, and of a deleted row its key alone. `all`: the whole row before each change, too."""

    def key_of(self, row: Row) -> bytes | None:
        return msgspec.json.encode(self._part(row, self.key)) if self.key else None

    def value_of(self, kind: str, before: Row | None, row: Row) -> bytes:
        """Of a change of this kind; `before`: the row before an update."""
        if kind == "delete":
            return _value(self._part(row, self.columns if self.mode == "all" else self.key), None, "d")
        after = self._part(row, self.columns)
        # a reader of this format takes an update without the row before for an error, so an upsert is a "c"
        if kind != "update_postimage" or self.mode == "upsert" or before is None:
            return _value(None, after, "c")
        return _value(self._part(before, self.columns), after, "u")

    def _part(self, row: Row, names: Sequence[str]) -> dict[str, Json]:
        return json_row({name: row[name] for name in names})


def messages(form: MessageForm, rows: pa.Table, kinds: Sequence[str], partitions: Sequence[int]) -> Iterator[Outgoing]:
    """One message for each change, in order.

    Args:
        rows: the columns of the form. The row before an update comes directly before the row after it, or not at all.
        kinds: `insert`, `update_preimage`, `update_postimage` or `delete`, a row each.
        partitions: of each row; that of an update's message is the later row's.
    """
    before: Row | None = None
    for row, kind, partition in zip(_rows(form, rows), kinds, partitions, strict=True):
        if kind == "update_preimage":
            before = row
            continue
        yield Outgoing(partition, form.key_of(row), form.value_of(kind, before, row))
        before = None


def _rows(form: MessageForm, rows: pa.Table) -> Iterator[Row]:
    for batch in rows.select(list(form.columns)).to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


def _value(before: dict[str, Json] | None, after: dict[str, Json] | None, op: str) -> bytes:
    return msgspec.json.encode({"before": before, "after": after, "op": op})


_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class RelayRequest:
    """A relay as it was requested."""

    topic: Topic
    mode: Literal["auto", "upsert", "all"] = "auto"
    start: Start | None = None
    """Where a topic that carries nothing yet begins; by default one that came with its table at the table's creation, and any
    other with the rows of now."""
    restart: bool = False
    """Begin there again, whatever the topic has."""
    partitions: int = 1
    """Of a topic that has to be created."""
    batch_rows: int = 10_000
    """Rows of the log in one transaction; all of one write are in the same."""


class Relay:
    """Created by `relaying`. For one thread."""

    def __init__(
        self, table: Table, request: RelayRequest, feed: ChangeFeed, publisher: Publisher, partitions: int, clock: Clock
    ) -> None:
        self._table = table
        self._request = request
        self._feed = feed
        self._publisher = publisher
        self._partitions = partitions
        self._clock = clock
        self._form = form_of(table, request.mode)
        self._restart = request.restart

    def look(self) -> RelayReport:
        """Publishes what there is to publish now.

        Raises:
            Ended: the table was restored, or rows of it were erased; or another relay of the topic took over.
            InvalidArgument: changes that the topic lacks are no longer kept.
            NotFound: the table was dropped, or the topic was deleted.
            Conflict, StorageUnavailable: open another relay: it goes on where the topic is.
        """
        sent, after = self._begun()
        self._restart = False
        end = self._feed.end()
        while after < end:
            with self._explained():
                changes = self._feed.changes(after, self._feed.upto(after, self._request.batch_rows), images=self._images)
            sent += self._publish(self._messages(changes.rows), changes.upto)
            after = changes.upto
        return report(self._table, self._request.topic, self._publisher.position, self._feed, sent)

    @property
    def _images(self) -> bool:
        return self._form.mode == "all"

    def _begun(self) -> tuple[int, int]:
        """Publishes where the topic begins, if it does not: the table as it is, or nothing. A snapshot that an earlier relay
        left goes on as of its `_seq`. A topic that came with its table begins at the table's creation, as long as all changes
        since are kept.

        Returns:
            How many messages there were, and the `_seq` that changes follow.
        """
        position = self._publisher.position
        if position is not None and position.seq is not None and not self._restart and not self._begins_later(position):
            return (0 if position.part is None else self._snapshot(position.seq, position.part)), position.seq
        after = self._feed.start(self._request.start or Start())
        if after is not None:
            return self._publish((), after), after
        upto = self._feed.end()
        return self._snapshot(upto, SnapshotProgress()), upto

    def _begins_later(self, position: Position) -> bool:
        """Whether a topic that has nothing yet does not begin at the creation of its table: by request, or because the table was
        restored since, or changes are not kept any more."""
        if position.seq != NOTHING or position.part is not None:
            return False
        if self._request.start is not None:
            return True
        try:
            self._feed.upto(NOTHING)
        except (Ended, InvalidArgument) as error:
            _LOGGER.warning(
                "the %s begins with the rows as they are, not at the creation: %s", self._request.topic, error.message
            )
            return True
        return False

    def _snapshot(self, seq: int, done: SnapshotProgress) -> int:
        """Publishes what the topic lacks of the rows as of `seq`, in transactions of `batch_rows`."""
        sent = 0
        with self._explained():
            for part in snapshot_parts(self._feed, self._table.schema, seq, done, self._request.batch_rows):
                outgoing = (each for rows in part.rows for each in self._messages(rows))
                sent += self._publish(outgoing, seq, snapshot=True, part=part.reached)
        return sent

    def _publish(
        self, outgoing: Iterable[Outgoing], upto: int, *, snapshot: bool = False, part: SnapshotProgress | None = None
    ) -> int:
        now = self._clock().isoformat(timespec="milliseconds")
        return self._publisher.publish(outgoing, Position(self._table.id, upto, now, snapshot, part))

    def _messages(self, rows: pa.Table) -> Iterator[Outgoing]:
        kinds = [str(kind) for kind in rows.column(CHANGE_TYPE).to_pylist()]
        return messages(self._form, rows, kinds, self._placed(rows))

    def _placed(self, rows: pa.Table) -> list[int]:
        if self._partitions == 1:
            return [0] * rows.num_rows
        return [int(each) for each in bucket_of(rows, self._form.key, self._partitions).to_numpy()]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Says what to do where the feed cannot go on."""
        again = (
            f"the {self._request.topic} keeps what it has: publish the rows as they are now behind it with"
            f" `lakewarden relay {self._table.name} --restart`, or delete the topic first (docs/kafka.md)"
        )
        try:
            yield
        except Ended as error:
            raise Ended(f"{error.message}; {again}") from error
        except InvalidArgument as error:
            raise InvalidArgument(f"{error.message}; {again}") from error


@contextmanager
def relaying(table: Table, request: RelayRequest, feed: ChangeFeed, clock: Clock, reach: Reach = no_faults) -> Iterator[Relay]:
    """Opens the relay of a topic: an earlier one is fenced.

    Raises:
        InUse: the topic carries another table.
        InvalidArgument: the table has no changes of that mode.
        StorageUnavailable, StorageRefused, Unsupported: as `Broker.reaching`.
    """
    form_of(table, request.mode)
    partitions = _existing(table, request)
    with publishing(request.topic, table.id, reach) as publisher:
        yield Relay(table, request, feed, publisher, partitions, clock)


def _existing(table: Table, request: RelayRequest) -> int:
    """How many partitions the topic has; it is created if it does not exist."""
    topic = request.topic
    there = partitions_of(topic)
    if partitions_of(topic.position) is None:
        if there is None:
            make_topic(topic, Position(table.id), request.partitions)
        else:
            create_position_topic(topic)
    elif there is None:
        _check_deleted(table, request, last_position(topic))
        create_topic(topic, request.partitions, None)
    return there or request.partitions


def _check_deleted(table: Table, request: RelayRequest, position: Position | None) -> None:
    """Raises NotFound: the topic carried the table, so that another would miss what it had."""
    if position is not None and position.seq is not None and not request.restart:
        raise NotFound(
            f"the {request.topic} was deleted, and carried {table.name} up to {position.seq}: publish the rows as they are now"
            f" with `lakewarden relay {table.name} --restart`"
        )


def form_of(table: Table, mode: str) -> MessageForm:
    """Raises InvalidArgument: `upsert` of a table without a primary key."""
    schema = table.schema
    if mode == "auto" and table.dynamic is not None:
        mode = table.dynamic.changes_of(keyed=schema.keyed)
    keyed = schema.keyed and not schema.append_only
    if mode == "upsert" and not keyed:
        raise InvalidArgument(f"{table.name} has no primary key, which the mode 'upsert' needs; use 'all'")
    chosen: ChangelogMode = "upsert" if mode == "upsert" or (mode == "auto" and keyed) else "all"
    owner = () if table.type == "SHARED" else (USER,)
    columns = (*owner, *(column.name for column in schema.shown))
    return MessageForm(columns, (*owner, *schema.primary_key) if keyed else (), chosen)


def report(table: Table, topic: Topic, position: Position | None, feed: ChangeFeed, sent: int = 0) -> RelayReport:
    """How far the topic follows the table."""
    end = feed.end()
    if position is None or position.seq is None or position.part is not None:
        return RelayReport(table.name, topic.name, sent, None, position_of(end) + 1, "")
    lag = max(0, position_of(end) - position_of(position.seq))
    return RelayReport(table.name, topic.name, sent, position.seq, lag, position.at)
