"""Reads the committed messages of a topic, by partition and offset."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.errors import StorageUnavailable
from lakewarden.storage.kafka.topics import Topic

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka import Message as Received

_AT_ONCE = 10_000


@dataclass(frozen=True)
class TopicMessage:
    """One message. A value of None is a tombstone."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None


@dataclass(frozen=True)
class MessageBatch:
    """Messages in the order of their offsets; some numbers belong to none."""

    messages: tuple[TopicMessage, ...]
    next_offset: int
    """From where to go on."""


@dataclass(frozen=True)
class OffsetRange:
    """The offsets that a partition has: from `low`, below `high`."""

    low: int
    high: int


class TopicReader:
    """Created by `reading`. For one thread."""

    def __init__(self, topic: Topic, consumer: Consumer) -> None:
        self._topic = topic
        self._consumer = consumer

    def bounds(self, partition: int) -> OffsetRange:
        """The committed part. Raises as `Broker.reaching`."""
        from confluent_kafka import TopicPartition  # an extra

        with self._topic.broker.reaching(str(self._topic)):
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(self._topic.name, partition), timeout=self._topic.broker.patience
            )
        return OffsetRange(low, high)

    def read(self, partition: int, first: int, most: int, upto: int | None = None) -> MessageBatch:
        """Reads from an offset on: up to another, to so many messages, or to what is the end then.

        Raises:
            NotFound: the topic does not exist.
            StorageRefused: the offset is not, or no longer, in the partition.
            StorageUnavailable: the broker does not answer; try again.
        """
        from confluent_kafka import TopicPartition  # an extra

        found: list[TopicMessage] = []
        with self._topic.broker.reaching(str(self._topic)):
            self._consumer.assign([TopicPartition(self._topic.name, partition, first)])
            at = first
            while len(found) < most and (upto is None or at < upto):
                for each in self._more(most - len(found)):
                    if upto is not None and (each.offset() or 0) >= upto and each.error() is None:
                        return MessageBatch(tuple(found), upto)
                    if self._is_end(each):
                        return MessageBatch(tuple(found), each.offset() or 0)
                    found.append(_message(each))
                    at = found[-1].offset + 1
        return MessageBatch(tuple(found), at)

    def _more(self, most: int) -> list[Received]:
        """At least one: a message, or the end."""
        found = self._consumer.consume(1, timeout=self._topic.broker.patience)
        if not found:
            raise StorageUnavailable(f"Kafka at {self._topic.broker.servers} sent nothing of {self._topic}; try again")
        if found[0].error() is None and most > 1:
            found += self._consumer.consume(min(most - 1, _AT_ONCE), timeout=0)  # what has arrived with it
        return found

    def _is_end(self, received: Received) -> bool:
        error = received.error()
        if error is None:
            return False
        if error.name() == "_PARTITION_EOF":
            return True
        raise self._topic.broker.meant(error, str(self._topic))


def _message(received: Received) -> TopicMessage:
    offset = received.offset()
    assert offset is not None, "a message without an error has an offset"
    kind, timestamp = received.timestamp()
    return TopicMessage(offset, received.key(), received.value(), timestamp if kind else None)


@contextmanager
def reading(topic: Topic) -> Iterator[TopicReader]:
    consumer = topic.broker.consumer()
    try:
        yield TopicReader(topic, consumer)
    finally:
        consumer.close()
