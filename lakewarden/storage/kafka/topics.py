"""Topics that carry tables: how clients reach their broker, their names, how they come and go."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
    from confluent_kafka.admin import AdminClient


# How clients reach Kafka, and what its errors mean here. Its library is an extra, which this module alone needs to find.
SERVERS = "bootstrap.servers"

_PATIENCE = "socket.timeout.ms"
_PATIENCE_MS = "10000"
"""The client's own default is a minute, which is long for a statement whose broker is away."""

_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "TRANSACTION_COORDINATOR_FENCED"})
_UNKNOWN = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID"})
_AWAY = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE", "_MSG_TIMED_OUT", "REQUEST_TIMED_OUT"})


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

    def consumer(self) -> Consumer:
        """One that is given its offsets, and sees what was committed."""
        settings = {
            "group.id": "lakewarden",  # the client wants one, and none of its offsets are kept
            **self._common,
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            "fetch.wait.max.ms": "20",  # the end of a partition is reported when a fetch that waits for more returns
            "isolation.level": "read_committed",
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
        if name in _AWAY or error.retriable() or error.txn_requires_abort():
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
    """Raises:
    InvalidArgument: Kafka takes no topic of that name.
    """
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
    """Raises:
    AlreadyExists: there is a topic of that name, or one that says how far it follows a table.
    """
    for each in (topic, topic.position):
        if partitions_of(each) is not None:
            raise AlreadyExists(
                f"Kafka at {topic.broker.servers} has a {each} already: name another with 'log.kafka.topic', or delete that one"
            )
