"""Publishes messages and the position that they reach in one transaction of Kafka, so that neither is there without the other.

And makes and deletes the topics of tables. Who made one stands in its position, before the topic itself is there: no other's
topic is ever deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from lakewarden.base.faults import Reach, no_faults
from lakewarden.errors import AlreadyExists, Corrupt, InUse, LakewardenError, StorageUnavailable
from lakewarden.storage.kafka_topics import (
    Topic,
    TopicReader,
    check_free,
    create_position_topic,
    create_topic,
    delete_topic,
    partitions_of,
    reading,
)

if TYPE_CHECKING:
    from confluent_kafka import Producer


_WINDOW = 16
"""Offsets that are looked at first for the newest position: a transaction takes two, its message and its marker."""


@dataclass(frozen=True)
class Outgoing:
    """A message to publish."""

    partition: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class SnapshotProgress:
    """The rows of a snapshot that are in the topic: those of users before `user`, and the first `rows` of that one."""

    user: str = ""
    rows: int = 0


@dataclass(frozen=True)
class Position:
    """How far a topic follows its table. Without a `seq`, nothing of the table is in it."""

    owner: str
    """The id of the table."""
    seq: int | None = None
    at: str = ""
    """When that was published, by the clock of the process: ISO 8601 in UTC."""
    snapshot: bool = False
    """Whether that was the table as a whole."""
    part: SnapshotProgress | None = None
    """How far a snapshot as of `seq` is that has more rows than this; None where all of them are in the topic."""
    partitions: tuple[int, ...] | None = field(default=None, compare=False)
    """Those of the topic that its transaction sent messages to, as `publish` fills in; None where an earlier release did."""


class Publisher:
    """The one producer of a topic: whoever opens the next one fences it. Created by `publishing`. For one thread.

    After an error, open another: it finds out from the topic whether the last transaction was committed.
    """

    def __init__(self, topic: Topic, producer: Producer, reach: Reach) -> None:
        self._topic = topic
        self._producer = producer
        self._reach = reach
        self._open = False
        """Whether a transaction was begun and is not known to be over."""
        self.position: Position | None = None
        """The last that was committed; None where the topic carries no table yet."""

    def publish(self, messages: Iterable[Outgoing], position: Position) -> int:
        """Commits the messages, in order, and the position; returns how many messages there were.

        Raises:
            Ended: a later publisher of the same topic took over.
            StorageUnavailable: it is not known whether they were committed; the next publisher's `position` says it.
            StorageRefused: the broker refused a message; nothing was committed.
            LakewardenError: what `messages` raises; nothing was committed.
        """
        reaching, name = self._topic.broker.reaching(str(self._topic)), self._topic.position.name
        with reaching:
            self._producer.begin_transaction()
            self._open = True
            self._reach("publish:begun")
            sent = self._send(messages)
            self._reach("publish:sent")
            # In the same transaction as the messages: a crash leaves both or neither, so no message is published twice.
            position = replace(position, partitions=tuple(sorted(sent)))
            self._produce(name, 0, b"position", msgspec.json.encode(position))
            self._reach("publish:position")
            self._producer.commit_transaction(self._topic.broker.patience)
            self._reach("publish:committed")
        # Only behind the commit's answer; without one, the next publisher reads from the topic which of the two is so.
        self._open, self.position = False, position
        return sent.total()

    def abort_left(self, partitions: Collection[int]) -> None:
        """Aborts what an earlier publisher left open in these partitions and at the position.

        The marker of an abort ends all that this producer's id has open in a partition, and is written where the transaction
        sent something.

        Raises as `publish`.
        """
        with self._topic.broker.reaching(str(self._topic)):
            self._producer.begin_transaction()
            self._open = True
            # If the broker loses the end of this one too, the newest position has to name the same partitions.
            same = msgspec.json.encode(Position("", partitions=tuple(partitions)))
            self._produce(self._topic.position.name, 0, b"position", same)
            for number in partitions:
                self._produce(self._topic.name, number, b"aborted", None)  # a compacted topic takes none without a key
            self._producer.flush(self._topic.broker.patience)  # an abort drops what waits to be sent
            self._producer.abort_transaction(self._topic.broker.patience)
        self._open = False

    def close(self) -> None:
        """Ends what is open, so that no reader waits for it; whether a commit that failed was made stays open."""
        if self._open:
            with suppress(LakewardenError), self._topic.broker.reaching(str(self._topic)):
                self._producer.abort_transaction(self._topic.broker.patience)
        self._producer.purge()

    def _send(self, messages: Iterable[Outgoing]) -> Counter[int]:
        """How many messages there were, by their partitions."""
        sent = Counter[int]()
        try:
            for each in messages:
                self._produce(self._topic.name, each.partition, each.key, each.value)
                sent[each.partition] += 1
        except LakewardenError:
            self._producer.abort_transaction(self._topic.broker.patience)
            self._open = False
            raise
        return sent

    def _produce(self, topic: str, partition: int, key: bytes | None, value: bytes | None) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, partition)
            except BufferError:  # the client's queue is full: wait until some of it is sent
                self._producer.poll(self._topic.broker.patience)
            else:
                return


@contextmanager
def publishing(topic: Topic, owner: str, reach: Reach = no_faults) -> Iterator[Publisher]:
    """Opens the topic's publisher: earlier ones are fenced, and what they left open is over.

    Raises:
        NotFound: the topic does not exist.
        InUse: the topic carries another table.
        StorageUnavailable: a transaction of the topic is open, and its outcome is not known.
        StorageUnavailable, StorageRefused: as `Broker.reaching`.
    """
    with closing(_opened(topic, reach)) as publisher:
        position = publisher.position = last_position(topic)
        if position is not None and position.owner != owner:
            raise InUse(f"{topic} carries another table (its id is {position.owner}): relay this one into a topic of its own")
        yield publisher


def _opened(topic: Topic, reach: Reach) -> Publisher:
    """A publisher of a topic where no transaction is open.

    A coordinator of Kafka 4 that comes back while a partition has no leader takes the transaction for ended there, and writes no
    marker (KAFKA-20734). Nobody who reads committed messages sees it then, and our next commit would commit it too: each of its
    messages would be in the topic twice. Where all of it is left it is aborted, and published again. Where a part of it was
    ended, nobody can say how.

    Raises:
        StorageUnavailable: a part was ended, or another producer's transaction is open.
    """
    publisher = _begun(topic, reach)
    left = open_transactions(topic)
    if left.position and left.partitions == _sent_to(topic):
        publisher.abort_left(left.partitions)
        publisher.close()
        publisher = _begun(topic, reach)  # which waits until the broker has written what the abort means
        left = open_transactions(topic)
    if left:
        raise StorageUnavailable(
            f"a transaction of {topic} is open, and it is not known how it ends: try again; where it stays so, Kafka lost its"
            " end: `kafka-transactions.sh find-hanging` shows it and its `abort` ends it; publish the rows as they are now behind"
            " it with `lakewarden relay TABLE --restart`, since some of its messages may be missing (docs/kafka.md)"
        )
    return publisher


def _begun(topic: Topic, reach: Reach) -> Publisher:
    """One that fenced the earlier ones."""
    # By the topic's name: the broker fences whoever had this id before, which leaves one producer for each topic.
    producer = topic.broker.producer({"transactional.id": f"lakewarden/{topic.name}", "enable.idempotence": "true"})
    with topic.broker.reaching(str(topic)):
        producer.init_transactions(topic.broker.patience)
    reach("publish:open")
    return Publisher(topic, producer, reach)


@dataclass(frozen=True)
class OpenTransactions:
    """Where a transaction is neither committed nor aborted."""

    partitions: frozenset[int]
    position: bool

    def __bool__(self) -> bool:
        return self.position or bool(self.partitions)


def open_transactions(topic: Topic) -> OpenTransactions:
    """Those of a topic and its position. Raises as `Broker.reaching`."""
    places = [(topic, number) for number in range(partitions_of(topic) or 0)] + [(topic.position, 0)]
    with reading(topic, "read_uncommitted") as whole, reading(topic) as committed:
        # in this order: what others append in between belongs to no transaction that is open
        ends = [whole.of(each).bounds(number).high for each, number in places]
        opened = [committed.of(each).bounds(number).high < end for (each, number), end in zip(places, ends, strict=True)]
    return OpenTransactions(frozenset(number for number, is_open in enumerate(opened[:-1]) if is_open), opened[-1])


def _sent_to(topic: Topic) -> frozenset[int]:
    """The partitions of the topic that the transaction sent messages to which wrote the newest position, committed or not."""
    with reading(topic.position, "read_uncommitted") as reader:
        data = _last_value(reader)
    position = None if data is None else _decoded(topic, data)
    if position is None or position.partitions is None:
        return frozenset(range(partitions_of(topic) or 0))
    return frozenset(position.partitions)


def last_position(topic: Topic) -> Position | None:
    """The newest position that is committed.

    Raises:
        NotFound: the topic was not made for a table.
        Corrupt: what is there is no position.
        StorageUnavailable, StorageRefused: as `Broker.reaching`.
    """
    with reading(topic.position) as reader:
        data = _last_value(reader)
    return None if data is None else _decoded(topic, data)


def _decoded(topic: Topic, data: bytes) -> Position:
    """Raises Corrupt: it is no position."""
    try:
        return msgspec.json.decode(data, type=Position)
    except msgspec.DecodeError as error:
        raise Corrupt(f"{topic.position} holds what is not a position: {error}") from error


def _last_value(reader: TopicReader) -> bytes | None:
    """Looks from the end backwards, in windows that grow: what aborted transactions left there are no messages."""
    bounds = reader.bounds(0)
    window = _WINDOW
    while True:
        # A transaction's markers and aborted messages take offsets too, so the last offset may hold nothing.
        first = max(bounds.low, bounds.high - window)
        found = reader.read(0, first, window, bounds.high).messages
        if found:
            return found[-1].value
        if first == bounds.low:
            return None
        window *= 8


# Topics that tables make and delete. Who made one stands beside it, before it is there.


def make_topic(
    topic: Topic,
    position: Position,
    partitions: int,
    retention_seconds: float | None = None,
    reach: Reach = no_faults,
) -> None:
    """Creates a topic that belongs to a table.

    Args:
        position: where it begins, and the table that owns it.

    Raises:
        AlreadyExists: there is a topic of that name; nothing was created.
        InvalidArgument, StorageUnavailable, StorageRefused: as `Broker.reaching`; `unmake_topic` removes what there is of it.
    """
    check_free(topic)
    # First whose it is, then the topic: a crash in between leaves a claim that `unmake_topic` can follow, never a topic without
    # an owner.
    create_position_topic(topic)
    reach("topic:position")
    claim(topic, position)
    reach("topic:claimed")
    try:
        create_topic(topic, partitions, retention_seconds)
    except AlreadyExists:
        delete_topic(topic.position)
        raise
    reach("topic:made")


def claim(topic: Topic, position: Position) -> None:
    """Notes whose the topic is, and where it begins. Raises as `publishing`."""
    with publishing(topic, position.owner) as publisher:
        if publisher.position is None:
            publisher.publish([], position)


def unmake_topic(topic: Topic, owner: str, reach: Reach = no_faults) -> None:
    """Deletes the topic that a table made, if there is one. Idempotent.

    Raises:
        StorageUnavailable, StorageRefused: as `Broker.reaching`; calling it again continues.
    """
    if partitions_of(topic.position) is None:
        return
    position = last_position(topic)
    if position is not None:
        if position.owner != owner:
            return
        delete_topic(topic)
        reach("topic:deleted")
    delete_topic(topic.position)


def made_or_undone(topic: Topic, position: Position, partitions: int, retention_seconds: float | None) -> None:
    """`make_topic`, which leaves nothing where it fails and the broker answers."""
    try:
        make_topic(topic, position, partitions, retention_seconds)
    except AlreadyExists:
        raise
    except LakewardenError:
        unmake_topic(topic, position.owner)
        raise
