"""Messages and the position that they reach are committed together, once, whatever dies."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from lakewarden.errors import Ended, InUse, InvalidArgument, NotFound
from lakewarden.storage.kafka_publisher import Outgoing, Position, last_position, publishing
from lakewarden.storage.kafka_topics import Broker, Topic, create_position_topic, create_topic
from tests.fixtures.children import KILLED, exit_status, killed_at
from tests.fixtures.kafka import KafkaServer, java_words
from tests.storage.kafka.topics import committed, topic_for

_PLACES = ("publish:open", "publish:begun", "publish:sent", "publish:position", "publish:committed")


@pytest.fixture
def topic(kafka: KafkaServer, request: pytest.FixtureRequest) -> Topic:
    made = topic_for(kafka, request)
    create_position_topic(made)
    create_topic(made, 2, None)
    return made


def _messages(first: int, last: int) -> Iterator[Outgoing]:
    return (Outgoing(number % 2, None, str(number).encode()) for number in range(first, last))


def _publish_next(servers: str, name: str, upto: int, place: str = "") -> None:
    """What a relay does: goes on behind the position."""
    with publishing(Topic(Broker.at(servers), name), "t_1", killed_at(place)) as publisher:
        after = publisher.position.seq if publisher.position else 0
        publisher.publish(_messages(after or 0, upto), Position("t_1", upto))


def _values(topic: Topic) -> list[int]:
    return sorted(each.value for each in committed(topic.broker.servers, topic.name, 2))


@pytest.mark.parametrize("place", _PLACES)
def test_a_death_at_any_step_leaves_each_message_once(topic: Topic, place: str) -> None:
    _publish_next(topic.broker.servers, topic.name, 5)
    assert exit_status(_publish_next, topic.broker.servers, topic.name, 9, place) == KILLED
    _publish_next(topic.broker.servers, topic.name, 12)
    assert _values(topic) == list(range(12))
    assert last_position(topic) == Position("t_1", 12)


def test_a_later_publisher_fences_the_first(topic: Topic) -> None:
    with publishing(topic, "t_1") as first:
        first.publish(_messages(0, 2), Position("t_1", 2))
        with publishing(topic, "t_1") as second:
            with pytest.raises(Ended, match="took over"):
                first.publish(_messages(2, 4), Position("t_1", 4))
            second.publish(_messages(2, 3), Position("t_1", 3))
    assert _values(topic) == [0, 1, 2]
    assert last_position(topic) == Position("t_1", 3)


def test_an_error_in_the_messages_publishes_none_of_them(topic: Topic) -> None:
    def broken() -> Iterator[Outgoing]:
        yield from _messages(0, 3)
        raise NotFound("the table was dropped")

    with publishing(topic, "t_1") as publisher:
        with pytest.raises(NotFound, match="dropped"):
            publisher.publish(broken(), Position("t_1", 3))
        publisher.publish(_messages(3, 5), Position("t_1", 5))
    assert _values(topic) == [3, 4]


def test_a_position_is_found_behind_many_aborted_ones(topic: Topic) -> None:
    with publishing(topic, "t_1") as publisher:
        publisher.publish([], Position("t_1", 1))
    with publishing(topic, "t_1") as publisher:
        producer = publisher._producer
        for _ in range(20):
            producer.begin_transaction()
            producer.produce(topic.position.name, b"no position", b"position", 0)
            producer.flush()
            producer.abort_transaction()
    assert last_position(topic) == Position("t_1", 1)


def test_a_topic_carries_one_table(topic: Topic) -> None:
    with publishing(topic, "t_1") as publisher:
        publisher.publish([], Position("t_1"))
    with pytest.raises(InUse, match="another table"), publishing(topic, "t_2"):
        pass


def test_more_messages_than_the_clients_queue_takes(topic: Topic) -> None:
    small = Topic(Broker({**topic.broker.settings, "queue.buffering.max.messages": "10"}), topic.name)
    with publishing(small, "t_1") as publisher:
        assert publisher.publish(_messages(0, 100), Position("t_1", 100)) == 100
    assert _values(topic) == list(range(100))


def test_settings_that_do_not_exist_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"no\.such"):
        Broker({"bootstrap.servers": "localhost:1", "no.such": "1"}).admin()


def test_kafkas_own_consumer_reads_what_was_committed(topic: Topic) -> None:
    with publishing(topic, "t_1") as publisher:
        publisher.publish(_messages(0, 3), Position("t_1", 3))
    words = [*java_words(), "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", topic.broker.servers]
    words += ["--topic", topic.name, "--from-beginning", "--max-messages", "3", "--isolation-level", "read_committed"]
    read = subprocess.run(words, capture_output=True, text=True, check=True)
    assert sorted(map(int, read.stdout.split())) == [0, 1, 2]
