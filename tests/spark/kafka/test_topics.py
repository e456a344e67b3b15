"""`format("lakewarden_kafka")`: what is committed in a topic, as batch and as stream; a restart goes on where it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from lakewarden.errors import InvalidArgument
from lakewarden.spark.kafka import NAME, TopicBatch, TopicOptions, TopicRange, TopicStream, register
from lakewarden.storage.kafka_topics import Topic, create_topic
from tests.fixtures.kafka import KafkaServer
from tests.storage.kafka.topics import topic_for


@pytest.fixture
def topic(kafka: KafkaServer, request: pytest.FixtureRequest) -> Topic:
    made = topic_for(kafka, request)
    create_topic(made, 2, None)
    return made


def _send(topic: Topic, numbers: range, *, end: str = "commit") -> None:
    producer = Producer({"bootstrap.servers": topic.broker.servers, "transactional.id": topic.name})
    producer.init_transactions()
    producer.begin_transaction()
    for number in numbers:
        producer.produce(topic.name, str(number), b"key", partition=number % 2)
    producer.flush()
    (producer.commit_transaction if end == "commit" else producer.abort_transaction)()


def _options(topic: Topic, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": topic.broker.servers, "subscribe": topic.name, **more}


def _values(reader: TopicBatch | TopicStream, ranges: list[TopicRange]) -> list[int]:
    found = [value.as_py() for each in ranges for batch in reader.read(each) for value in batch.column("value")]
    return sorted(map(int, found))


def _batch(topic: Topic, **more: str) -> list[int]:
    reader = TopicBatch(TopicOptions.of(_options(topic, **more)))
    return _values(reader, [each for each in reader.partitions() if isinstance(each, TopicRange)])


def test_a_batch_has_what_is_committed(topic: Topic) -> None:
    _send(topic, range(4))
    _send(topic, range(4, 8), end="abort")
    _send(topic, range(8, 10))
    assert _batch(topic) == [0, 1, 2, 3, 8, 9]
    assert _batch(topic, startingOffsets='{"0": 1}', endingOffsets='{"0": 2, "1": 1}') == [1, 2]
    assert _batch(topic, startingOffsets="latest") == []


def test_a_stream_goes_on_behind_its_offsets(topic: Topic) -> None:
    _send(topic, range(2))
    stream = TopicStream(TopicOptions.of(_options(topic)))
    start = stream.initialOffset()
    _send(topic, range(2, 6))
    end = stream.latestOffset()
    ranges = [each for each in stream.partitions(start, end) if isinstance(each, TopicRange)]
    assert _values(stream, ranges) == [2, 3, 4, 5]
    assert stream.partitions(end, stream.latestOffset()) == []


_AT = {"kafka.bootstrap.servers": "x:1"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "t"}, "name the topic"),
        (_AT, "name the topic"),
        ({**_AT, "subscribe": "a=b"}, "topic's name"),
        ({**_AT, "subscribe": "t", "startingOffsets": "first"}, "earliest, latest"),
        ({**_AT, "subscribe": "t", "topics": "u"}, "unknown option"),
    ],
)
def test_bad_options_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        TopicOptions.of(options)


def test_spark_reads_a_topic_and_restarts_from_its_checkpoint(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    register(spark)
    _send(topic, range(3))
    rows = spark.read.format(NAME).options(**_options(topic)).load().collect()
    assert sorted(int(row.value) for row in rows) == [0, 1, 2]
    assert {(row.topic, bytes(row.key)) for row in rows} == {(topic.name, b"key")}

    seen: list[int] = []

    def keep(batch: Callable[[], list[Row]]) -> None:
        seen.extend(int(row.value) for row in batch())

    def run() -> None:
        stream = spark.readStream.format(NAME).options(**_options(topic, startingOffsets="earliest")).load()
        writer = stream.writeStream.foreachBatch(lambda batch, _number: keep(batch.collect))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()

    run()
    _send(topic, range(3, 6))
    run()
    assert sorted(seen) == [0, 1, 2, 3, 4, 5]


def test_spark_shows_the_error(spark: SparkSession, kafka: KafkaServer) -> None:
    register(spark)
    source = spark.read.format(NAME).options(**{"kafka.bootstrap.servers": kafka.servers, "subscribe": "no-such"}).load()
    with pytest.raises(PySparkException, match="NOT_FOUND"):
        source.collect()
