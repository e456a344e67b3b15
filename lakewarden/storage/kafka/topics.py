"""Topics that carry tables: their names, how they come and go, and whose they are.

Beside each lies `<topic>.position`, of one partition, compacted: who made the topic, and how far it follows its table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lakewarden.errors import AlreadyExists, InvalidArgument, NotFound
from lakewarden.storage.kafka.broker import SERVERS, Broker

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
