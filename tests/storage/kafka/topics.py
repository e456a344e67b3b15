"""Topics of tests, and a consumer that is not ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from lakewarden.storage.kafka_topics import Topic
from tests.fixtures.kafka import KafkaServer
from tests.fixtures.patience import PATIENCE


def topic_for(kafka: KafkaServer, request: pytest.FixtureRequest, name: str = "t") -> Topic:
    """A topic of the test's own, which does not exist yet."""
    return Topic(kafka.broker, f"{name}-{abs(hash(request.node.nodeid)) % 10**12}")


@dataclass(frozen=True)
class Found:
    """A message as another consumer sees it."""

    partition: int
    offset: int
    key: Any
    value: Any


def committed(servers: str, topic: str, partitions: int = 1, isolation: str = "read_committed") -> list[Found]:
    """All messages of a topic, partition by partition."""
    settings = {
        "bootstrap.servers": servers,
        "group.id": "another",
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 20,
        "auto.offset.reset": "earliest",
    }
    with Consumer(settings) as consumer:
        return [found for partition in range(partitions) for found in _partition(consumer, topic, partition)]


def _partition(consumer: Consumer, topic: str, partition: int) -> Iterator[Found]:
    consumer.assign([TopicPartition(topic, partition, 0)])
    while True:
        message = consumer.poll(PATIENCE)
        assert message is not None
        error = message.error()
        if error is not None:
            assert error.name() == "_PARTITION_EOF", error
            return
        yield Found(partition, message.offset() or 0, _json(message.key()), _json(message.value()))


def _json(data: bytes | None) -> Any:
    return None if data is None else json.loads(data)
