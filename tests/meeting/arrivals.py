"""Messages that arrive in a topic, as another program's producer sends them."""

from __future__ import annotations

import json
import threading

from confluent_kafka import Producer

from lakewarden.storage.kafka_topics import Topic
from tests.meeting.writes import Write, first_id

_KEYS = 31
_PAUSE = 0.1


def produce(topic: Topic, number: int, over: threading.Event) -> list[Write]:
    """Sends the next numbers, as changes of a few rows, until it is over. All of them have arrived then."""
    producer = Producer({"bootstrap.servers": topic.broker.servers, "enable.idempotence": True})
    writes: list[Write] = []
    while not over.wait(_PAUSE):
        value = len(writes)
        key = first_id(number) + value % _KEYS
        envelope = {"before": None, "after": {"id": key, "value": value}, "op": "c" if value < _KEYS else "u"}
        producer.produce(topic.name, json.dumps(envelope).encode(), json.dumps({"id": key}).encode(), 0)
        writes.append(Write(key, value, acknowledged=True))
    assert producer.flush() == 0
    return writes
