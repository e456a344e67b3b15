"""Topics come and go; their names are Kafka's."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from lakewarden.errors import AlreadyExists, InvalidArgument, LakewardenError, StorageRefused, StorageUnavailable
from lakewarden.storage.kafka_topics import (
    Broker,
    Topic,
    check_free,
    create_position_topic,
    create_topic,
    delete_topic,
    partitions_of,
    topic_id,
    topic_of,
)
from tests.fixtures.kafka import KafkaServer
from tests.fixtures.servers import free_port
from tests.storage.kafka.topics import topic_for

_AT = {"bootstrap.servers": "localhost:9092"}


def test_a_topic_is_named_after_its_table() -> None:
    assert topic_of("shop.orders", _AT).name == "shop.orders"
    assert topic_of("shop.orders", {**_AT, "topic": "feed"}).name == "feed"
    assert topic_of("shop.orders", {**_AT, "topic": "feed", "client.id": "x"}).broker.settings == {**_AT, "client.id": "x"}


@pytest.mark.parametrize("name", ["a=b", "ä", "a b", ".", "..", "x" * 250])
def test_names_that_kafka_does_not_take_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="topic's name"):
        topic_of("n.t", {**_AT, "topic": name})


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.NOT_LEADER_FOR_PARTITION, StorageUnavailable),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, StorageUnavailable),
        (KafkaError._ALL_BROKERS_DOWN, StorageUnavailable),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, StorageRefused),
        (KafkaError.MSG_SIZE_TOO_LARGE, StorageRefused),
    ],
)
def test_what_kafka_calls_retriable_is_worth_a_retry(code: int, kind: type[LakewardenError]) -> None:
    with pytest.raises(kind), Broker(_AT).reaching("topic t"):
        raise KafkaException(KafkaError(code))


def test_brokers_have_to_be_named() -> None:
    with pytest.raises(InvalidArgument, match=r"log\.kafka\.bootstrap\.servers"):
        topic_of("n.t", {})


def test_topics_come_and_go(kafka: KafkaServer, request: pytest.FixtureRequest) -> None:
    topic = topic_for(kafka, request)
    check_free(topic)
    create_position_topic(topic)
    create_topic(topic, 3, 3600.0)
    assert partitions_of(topic) == 3
    resource = ConfigResource(ResourceType.TOPIC, topic.name)
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    config = admin.describe_configs([resource])[resource].result()
    assert config["retention.ms"].value == "3600000"
    first = topic_id(topic)
    with pytest.raises(AlreadyExists):
        create_topic(topic, 1, None)
    with pytest.raises(AlreadyExists, match="name another"):
        check_free(topic)
    delete_topic(topic)
    delete_topic(topic)
    assert partitions_of(topic) is None
    create_topic(topic, 1, None)
    assert topic_id(topic) != first


def test_a_broker_that_is_away_is_said_in_one_line() -> None:
    away = Topic(Broker({"bootstrap.servers": f"127.0.0.1:{free_port()}", "socket.timeout.ms": "50"}), "t")
    with pytest.raises(StorageUnavailable, match="could not be reached"):
        partitions_of(away)
    with pytest.raises(StorageUnavailable, match="could not be reached"):
        create_topic(away, 1, None)
