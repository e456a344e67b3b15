"""Messages and the position that they reach are committed together, once, whatever dies."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import msgspec
import pytest
from confluent_kafka import Producer

from lakewarden.errors import Ended, InUse, InvalidArgument, NotFound, StorageUnavailable
from lakewarden.storage import kafka_publisher
from lakewarden.storage.kafka_publisher import (
    OpenTransactions,
    Outgoing,
    Position,
    last_position,
    open_transactions,
    publishing,
)
from lakewarden.storage.kafka_topics import Broker, Topic, create_position_topic, create_topic, reading
from tests.fixtures.children import KILLED, exit_status, killed_at
from tests.fixtures.kafka import KafkaServer, java_words
from tests.fixtures.patience import PATIENCE
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


@pytest.mark.parametrize("where", ["topic", "position", "both"])
def test_a_transaction_that_is_open_is_awaited(topic: Topic, where: str) -> None:
    """It is no publisher's of this topic, or a broker lost its end: what comes behind it is not told from what it sent."""
    with publishing(topic, "t_1") as publisher:
        publisher.publish(_messages(0, 2), Position("t_1", 2))
    other = Producer({"bootstrap.servers": topic.broker.servers, "transactional.id": f"other-{topic.name}"})
    other.init_transactions(PATIENCE)
    other.begin_transaction()
    if where != "position":
        other.produce(topic.name, b"7", partition=0)
    if where != "topic":
        other.produce(topic.position.name, msgspec.json.encode(Position("t_1", 9, partitions=(0,))), b"position", 0)
    other.flush(PATIENCE)
    with pytest.raises(StorageUnavailable, match="find-hanging"), publishing(topic, "t_1"):
        pass
    other.abort_transaction(PATIENCE)
    _publish_next(topic.broker.servers, topic.name, 4)
    assert _values(topic) == [0, 1, 2, 3]


@pytest.mark.parametrize(("left", "whole"), [({0, 1}, True), ({0}, False), ({1}, False), (set(), False)])
def test_what_a_broker_never_ends_is_aborted_where_all_of_it_is_left(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, left: set[int], whole: bool
) -> None:
    """As the last transaction was of this broker, which is said to have written no marker; a real one: test_killed_broker."""
    with publishing(topic, "t_1") as publisher:
        publisher.publish(_messages(0, 2), Position("t_1", 2))
    said = iter([OpenTransactions(frozenset(left), position=True)])
    monkeypatch.setattr(kafka_publisher, "open_transactions", lambda each: next(said, None) or open_transactions(each))
    if whole:
        with publishing(topic, "t_1") as publisher:
            publisher.publish(_messages(2, 4), Position("t_1", 4))
    else:
        with pytest.raises(StorageUnavailable, match="some of its messages may be missing"), publishing(topic, "t_1"):
            pass
    with reading(topic, "read_uncommitted") as reader:
        assert len(reader.read(0, 0, 10).messages) == (3 if whole else 1), "one that is aborted is among them"
    with reading(topic.position, "read_uncommitted") as reader:
        partitions = [msgspec.json.decode(each.value or b"", type=Position).partitions for each in reader.read(0, 0, 10).messages]
    assert partitions == [(0, 1)] * (3 if whole else 1), "also where the abort itself were left"
    assert _values(topic) == list(range(4 if whole else 2))


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
