"""Topics that carry tables: how clients reach their broker, their names, how they come and go, and how their committed
messages are read, by partition and offset."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lakewarden.errors import (
    AlreadyExists,
    FencedPublisher,
    InvalidArgument,
    LakewardenError,
    NotFound,
    StorageRefused,
    StorageUnavailable,
    Unsupported,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka import Message as Received
    from confluent_kafka.admin import AdminClient


# How clients reach Kafka, and what its errors mean here. Its library is an extra, which this module alone needs to find.
SERVERS = "bootstrap.servers"

_PATIENCE = "socket.timeout.ms"
_PATIENCE_MS = "10000"
"""The client's own default is a minute, which is long for a statement whose broker is away."""

_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "TRANSACTION_COORDINATOR_FENCED"})
_UNKNOWN = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID"})
_AWAY = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE", "_MSG_TIMED_OUT", "REQUEST_TIMED_OUT"})
_LEADERLESS = frozenset({"NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE"})
_BUSY = _LEADERLESS | {
    "BROKER_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE", "NETWORK_EXCEPTION", "NOT_CONTROLLER", "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS", "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "OFFSET_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR", "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
}  # fmt: skip
"""What Kafka's protocol calls retriable (kafka.apache.org/protocol, error codes), where the client's error does not say so."""

Isolation = Literal["read_committed", "read_uncommitted"]


@dataclass(frozen=True)
class Broker:
    """A Kafka cluster, by the settings of librdkafka's clients; `bootstrap.servers` is among them."""

    settings: Mapping[str, str] = field(hash=False)

    @classmethod
    def at(cls, servers: str) -> Broker:
        """The cluster at `host:port,…`."""
        return cls({SERVERS: servers})

    @property
    def servers(self) -> str:
        return self.settings.get(SERVERS, "")

    @property
    def patience(self) -> float:
        """Seconds that one request may take."""
        return float(self._common[_PATIENCE]) / 1000

    @property
    def _common(self) -> dict[str, str]:
        # what the client logs to standard error comes here as an error too
        return {_PATIENCE: _PATIENCE_MS, "log_level": "0", **self.settings}

    def admin(self) -> AdminClient:
        with self.reaching("it"):
            from confluent_kafka.admin import AdminClient  # an extra

            return AdminClient(dict(self._common))

    def producer(self, more: Mapping[str, str]) -> Producer:
        with self.reaching("it"):
            from confluent_kafka import Producer  # an extra

            return Producer({**self._common, **more})

    def consumer(self, isolation: Isolation = "read_committed") -> Consumer:
        """One that is given its offsets. By default it sees what was committed, and not what an aborted transaction sent."""
        settings = {
            "group.id": "lakewarden",  # the client wants one, and none of its offsets are kept
            **self._common,
            # Offsets are ours: they are committed with the rows, and not at the broker.
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            "fetch.wait.max.ms": "20",  # the end of a partition is reported when a fetch that waits for more returns
            "isolation.level": isolation,
            # An offset that is gone must not be passed over in silence.
            "auto.offset.reset": "error",
        }
        with self.reaching("it"):
            from confluent_kafka import Consumer  # an extra

            return Consumer(settings)

    @contextmanager
    def reaching(self, what: str) -> Iterator[None]:
        """Raises what the client's errors mean.

        Raises:
            Unsupported: the library is not installed.
            InvalidArgument: a setting does not exist, or has a bad value.
            NotFound, AlreadyExists: the topic.
            FencedPublisher: a later producer took over.
            StorageUnavailable: the broker is away, or busy; try again.
            StorageRefused: it refused the request.
        """
        try:
            from confluent_kafka import KafkaException  # an extra
        except ImportError as error:
            raise Unsupported("Kafka's topics need the extra `lakewarden[kafka]`: install it") from error
        try:
            yield
        except KafkaException as error:
            raise self.meant(error.args[0], what) from error

    def meant(self, error: KafkaError, what: str) -> LakewardenError:
        """The error of ours that says the same of `what`."""
        name, said = error.name(), f"{error.str()} ({error.name()})"
        if name in _FENCED:
            return FencedPublisher(f"another producer took over {what}: only the last one that was started goes on")
        if name in _UNKNOWN:
            return NotFound(f"Kafka at {self.servers} has no {what}: {said}")
        if name == "TOPIC_ALREADY_EXISTS":
            return AlreadyExists(f"Kafka at {self.servers} has {what} already")
        if name in ("_INVALID_ARG", "INVALID_CONFIG", "TOPIC_EXCEPTION", "_CONFLICT"):
            return InvalidArgument(f"a setting of Kafka for {what} is not valid: {said}")
        if name in _AWAY or name in _BUSY or error.retriable() or error.txn_requires_abort():
            return StorageUnavailable(f"Kafka at {self.servers} could not be reached for {what}: {said}; try again")
        return StorageRefused(f"Kafka at {self.servers} refused {what}: {said}")


TOPIC = "topic"
"""Among the options of a table; all others but it are the client's."""

_SUFFIX = ".position"
_LONGEST = 249 - len(_SUFFIX)
_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{_LONGEST}}}")


@dataclass(frozen=True)
class Topic:
    """A topic of a cluster."""

    broker: Broker
    name: str

    def __str__(self) -> str:
        return f"topic {self.name}"

    @property
    def position(self) -> Topic:
        """The topic that says how far this one follows its table."""
        return Topic(self.broker, self.name + _SUFFIX)


def topic_of(table: str, options: Mapping[str, str]) -> Topic:
    """The topic of a table, by its options `log.kafka.*` without the prefix.

    Raises:
        InvalidArgument: no brokers are named, or Kafka takes no topic of that name.
    """
    if not options.get(SERVERS):
        raise InvalidArgument("'log.system' = 'kafka' needs 'log.kafka.bootstrap.servers', such as 'localhost:9092'")
    client = {name: value for name, value in options.items() if name != TOPIC}
    return Topic(Broker(client), checked_name(options.get(TOPIC) or table))


def checked_name(name: str) -> str:
    """Raises InvalidArgument: Kafka takes no topic of that name."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidArgument(
            f"{name!r} cannot be a topic's name: it has 1 to {_LONGEST} letters, digits, '.', '_' and '-', as Kafka takes them;"
            " name another with 'log.kafka.topic'"
        )
    return name


def create_topic(topic: Topic, partitions: int, retention_seconds: float | None) -> None:
    """Creates a topic. A retention of None is the broker's own.

    Raises:
        AlreadyExists: there is one of that name.
        StorageUnavailable, StorageRefused, InvalidArgument: as `Broker.reaching`; nothing was created, unless it says so.
    """
    kept = {} if retention_seconds is None else {"retention.ms": str(round(retention_seconds * 1000))}
    _create(topic, partitions, kept)


def create_position_topic(topic: Topic) -> None:
    """Raises as `create_topic`."""
    # Compacted: the newest position has to stay, however old it gets.
    _create(topic.position, 1, {"cleanup.policy": "compact", "segment.bytes": str(1 << 20)})


def _create(topic: Topic, partitions: int, config: dict[str, str]) -> None:
    with topic.broker.reaching(str(topic)):
        admin = topic.broker.admin()
        from confluent_kafka.admin import NewTopic  # an extra

        wanted = NewTopic(topic.name, num_partitions=partitions, config=config)
        made = admin.create_topics([wanted], operation_timeout=topic.broker.patience, request_timeout=topic.broker.patience)
        made[topic.name].result()


def delete_topic(topic: Topic) -> None:
    """Deletes a topic, if there is one. Raises as `Broker.reaching`."""
    try:
        with topic.broker.reaching(str(topic)):
            patience = topic.broker.patience
            admin = topic.broker.admin()  # held: its answers end with it
            gone = admin.delete_topics([topic.name], operation_timeout=patience, request_timeout=patience)
            gone[topic.name].result()
    except NotFound:
        return


def partitions_of(topic: Topic) -> int | None:
    """How many partitions the topic has; None where there is no topic. Raises as `Broker.reaching`."""
    with topic.broker.reaching(str(topic)):
        # all topics: to ask for one by name may create it
        there = topic.broker.admin().list_topics(timeout=topic.broker.patience).topics.get(topic.name)
        return None if there is None or there.error is not None else len(there.partitions)


def topic_id(topic: Topic) -> str:
    """What tells the topic from a later one of its name.

    Raises:
        NotFound: there is no topic; and as `Broker.reaching`.
    """
    with topic.broker.reaching(str(topic)):
        admin = topic.broker.admin()
        from confluent_kafka import TopicCollection  # an extra

        described = admin.describe_topics(TopicCollection([topic.name]), request_timeout=topic.broker.patience)
        return str(described[topic.name].result().topic_id)


def check_free(topic: Topic) -> None:
    """Raises AlreadyExists: there is a topic of that name, or one that says how far it follows a table."""
    for each in (topic, topic.position):
        if partitions_of(each) is not None:
            raise AlreadyExists(
                f"Kafka at {topic.broker.servers} has a {each} already: name another with 'log.kafka.topic', or delete that one"
            )


# Reads the committed messages of a topic, by partition and offset.

_AT_ONCE = 10_000
_LEADER_TRIES = 20
_LEADER_PAUSE = 0.1
"""Seconds."""


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
        """The committed part, or all of it, by the reader's isolation. Raises as `Broker.reaching`."""
        from confluent_kafka import KafkaException, TopicPartition  # an extra

        place, patience, tries = TopicPartition(self._topic.name, partition), self._topic.broker.patience, 0
        with self._topic.broker.reaching(str(self._topic)):
            while True:
                try:
                    return OffsetRange(*self._consumer.get_watermark_offsets(place, timeout=patience))
                except KafkaException as error:
                    tries += 1
                    if error.args[0].name() not in _LEADERLESS or tries > _LEADER_TRIES:
                        raise
                self._consumer.poll(_LEADER_PAUSE)  # a topic that was just made has no leader for a moment

    def of(self, topic: Topic) -> TopicReader:
        """The same client for another topic of the cluster."""
        return TopicReader(topic, self._consumer)

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
                    # Offsets have gaps (markers, compaction): the first beyond the bound ends the read, whether the last below
                    # it exists or not.
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
def reading(topic: Topic, isolation: Isolation = "read_committed") -> Iterator[TopicReader]:
    consumer = topic.broker.consumer(isolation)
    try:
        yield TopicReader(topic, consumer)
    finally:
        consumer.close()
