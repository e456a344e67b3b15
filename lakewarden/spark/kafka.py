"""Reads a topic, partition by partition, as batch and as stream; Spark's checkpoint keeps the offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from lakewarden.errors import InvalidArgument, NotFound
from lakewarden.spark.connection import called_by_spark
from lakewarden.spark.options import check_known
from lakewarden.storage.kafka_topics import OffsetRange, Topic, TopicMessage, partitions_of, reading, topic_of

# The options of a read of a topic, named as those of Spark's own source of Kafka.
_PREFIX = "kafka."
_OWN = ("subscribe", "startingOffsets", "endingOffsets")

Offsets = dict[str, int]
"""Where to go on, by partition: text, as JSON and so Spark's checkpoint has it."""


@dataclass(frozen=True)
class TopicOptions:
    """`starting` and `ending` are `earliest`, `latest`, or the offsets of some partitions."""

    topic: Topic
    starting: str | Offsets | None
    ending: str | Offsets

    @classmethod
    def of(cls, options: Mapping[str, str]) -> TopicOptions:
        """Raises InvalidArgument: an option is missing or unknown, or has a bad value."""
        folded = {name.lower(): value for name, value in options.items()}
        check_known([name for name in folded if not name.startswith(_PREFIX)], ("kafka.<setting of the client>", *_OWN))
        if "subscribe" not in folded or f"{_PREFIX}bootstrap.servers" not in folded:
            raise InvalidArgument(
                'name the topic: .option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "topic")'
            )
        client = {name.removeprefix(_PREFIX): value for name, value in folded.items() if name.startswith(_PREFIX)}
        starting = folded.get("startingoffsets")
        return cls(
            topic_of("", {**client, "topic": folded["subscribe"]}),
            None if starting is None else _offsets("startingOffsets", starting),
            _offsets("endingOffsets", folded.get("endingoffsets", "latest")),
        )


def _offsets(option: str, text: str) -> str | Offsets:
    if text in ("earliest", "latest"):
        return text
    try:
        return msgspec.json.decode(text, type=Offsets)
    except msgspec.DecodeError as error:
        raise InvalidArgument(
            f'{option} {text!r}: it is earliest, latest, or the offsets of partitions, as in {{"0": 23, "1": 0}}'
        ) from error


NAME = "lakewarden_kafka"

_TYPES: Mapping[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_ARROW = pa.schema(_TYPES)
_AT_ONCE = 10_000


@dataclass
class TopicRange(InputPartition):
    """The offsets of one partition that one task reads: from `first`, below `end`."""

    number: int
    first: int
    end: int


class KafkaSource(DataSource):
    """What transactions committed, and what was written without one."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return from_arrow_schema(_ARROW)

    def reader(self, schema: StructType) -> DataSourceReader:  # it is ours
        with called_by_spark():
            return TopicBatch(TopicOptions.of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # it is ours; Spark's name
        with called_by_spark():
            return TopicStream(TopicOptions.of(self.options))


class _TopicReader:
    def __init__(self, options: TopicOptions) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._options, cast("TopicRange", partition))


class TopicBatch(_TopicReader, DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        with called_by_spark():
            bounds = bounds_of(self._options)
            first = _placed(self._options.starting or "earliest", bounds)
            return ranges(first, _placed(self._options.ending, bounds), bounds)


class TopicStream(_TopicReader, DataSourceStreamReader):
    """Starts at the end of the topic if no option says where, as Spark's own source."""

    def initialOffset(self) -> Offsets:  # noqa: N802  # Spark's name
        with called_by_spark():
            return _placed(self._options.starting or "latest", bounds_of(self._options))

    def latestOffset(self) -> Offsets:  # noqa: N802  # Spark's name
        with called_by_spark():
            return _placed("latest", bounds_of(self._options))

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        with called_by_spark():
            return ranges(start, end, bounds_of(self._options))


def bounds_of(options: TopicOptions) -> dict[int, OffsetRange]:
    """By partition."""
    count = partitions_of(options.topic)
    if count is None:
        raise NotFound(f"Kafka at {options.topic.broker.servers} has no {options.topic}")
    with reading(options.topic) as reader:
        return {number: reader.bounds(number) for number in range(count)}


def _placed(where: str | Offsets, bounds: dict[int, OffsetRange]) -> Offsets:
    """A partition that is not named begins at its first offset."""
    if isinstance(where, str):
        return {str(number): each.low if where == "earliest" else each.high for number, each in bounds.items()}
    return {str(number): where.get(str(number), each.low) for number, each in bounds.items()}


def ranges(first: Offsets, end: Offsets, bounds: dict[int, OffsetRange]) -> list[InputPartition]:
    """A partition that came since is read from its first offset."""
    starts = {number: first.get(number, bounds[int(number)].low) for number in end}
    return [TopicRange(int(number), starts[number], end[number]) for number in end if starts[number] < end[number]]


def read_range(options: TopicOptions, wanted: TopicRange) -> Iterator[pa.RecordBatch]:
    """Raises StorageRefused: messages of the range are gone."""
    with called_by_spark(), reading(options.topic) as reader:
        at = wanted.first
        while at < wanted.end:
            batch = reader.read(wanted.number, at, _AT_ONCE, wanted.end)
            if batch.messages:
                yield _arrow(options.topic.name, wanted.number, batch.messages)
            at = batch.next_offset


def _arrow(topic: str, partition: int, messages: tuple[TopicMessage, ...]) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {
        "key": [each.key for each in messages],
        "value": [each.value for each in messages],
        "topic": [topic] * len(messages),
        "partition": [partition] * len(messages),
        "offset": [each.offset for each in messages],
        "timestamp": [None if each.timestamp_ms is None else each.timestamp_ms * 1000 for each in messages],
    }
    return pa.RecordBatch.from_pydict(columns, schema=_ARROW)


def register(spark: SparkSession) -> None:
    """Makes `format("lakewarden_kafka")` known to a session."""
    spark.dataSource.register(KafkaSource)
