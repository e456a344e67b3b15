"""A topic that a table made goes with it; no other's does. A death at any step leaves what the next one finishes."""

from __future__ import annotations

import pytest

from lakewarden.errors import AlreadyExists, StorageUnavailable
from lakewarden.storage.kafka_publisher import Position, made_or_undone, make_topic, unmake_topic
from lakewarden.storage.kafka_topics import Broker, Topic, create_position_topic, create_topic, partitions_of
from tests.fixtures.kafka import KafkaServer
from tests.fixtures.servers import free_port
from tests.storage.kafka.topics import topic_for


class _Died(BaseException):
    """Stands for the end of the process."""


def _dies_at(place: str, reached: str) -> None:
    if reached == place:
        raise _Died


def _there(topic: Topic) -> tuple[int | None, int | None]:
    return partitions_of(topic), partitions_of(topic.position)


@pytest.mark.parametrize("place", ["topic:position", "topic:claimed", "topic:made"])
def test_what_a_dead_maker_left_is_removed(kafka: KafkaServer, request: pytest.FixtureRequest, place: str) -> None:
    topic = topic_for(kafka, request)
    with pytest.raises(_Died):
        make_topic(topic, Position("t_1"), 2, reach=lambda reached: _dies_at(place, reached))
    unmake_topic(topic, "t_1")
    assert _there(topic) == (None, None)
    make_topic(topic, Position("t_2"), 2)
    assert _there(topic) == (2, 1)


def test_a_deletion_that_died_is_finished(kafka: KafkaServer, request: pytest.FixtureRequest) -> None:
    topic = topic_for(kafka, request)
    make_topic(topic, Position("t_1"), 1)
    with pytest.raises(_Died):
        unmake_topic(topic, "t_1", lambda reached: _dies_at("topic:deleted", reached))
    assert _there(topic) == (None, 1)
    unmake_topic(topic, "t_1")
    unmake_topic(topic, "t_1")
    assert _there(topic) == (None, None)


def test_topics_of_others_stay(kafka: KafkaServer, request: pytest.FixtureRequest) -> None:
    topic = topic_for(kafka, request)
    create_topic(topic, 1, None)
    with pytest.raises(AlreadyExists, match="name another"):
        made_or_undone(topic, Position("t_1"), 1, None)
    unmake_topic(topic, "t_1")
    assert _there(topic) == (1, None)

    theirs = Topic(topic.broker, f"{topic.name}-2")
    make_topic(theirs, Position("t_2"), 1)
    unmake_topic(theirs, "t_1")
    assert _there(theirs) == (1, 1)


def test_a_topic_that_appears_meanwhile_stays(kafka: KafkaServer, request: pytest.FixtureRequest) -> None:
    topic = topic_for(kafka, request)

    def appear(reached: str) -> None:
        if reached == "topic:claimed":
            create_topic(topic, 3, None)

    with pytest.raises(AlreadyExists):
        make_topic(topic, Position("t_1"), 1, reach=appear)
    assert _there(topic) == (3, None)


def test_a_claim_that_was_not_made_is_nobody_elses_topic(kafka: KafkaServer, request: pytest.FixtureRequest) -> None:
    topic = topic_for(kafka, request)
    create_position_topic(topic)
    create_topic(topic, 1, None)
    unmake_topic(topic, "t_1")
    assert _there(topic) == (1, None)


def test_a_broker_that_is_away_makes_nothing() -> None:
    away = Topic(Broker({"bootstrap.servers": f"127.0.0.1:{free_port()}", "socket.timeout.ms": "50"}), "t")
    with pytest.raises(StorageUnavailable):
        made_or_undone(away, Position("t_1"), 1, None)
    with pytest.raises(StorageUnavailable):
        unmake_topic(away, "t_1")
