"""The topic of a dynamic table with `log.system` kafka: made and deleted with the table, one partition for each bucket."""

from __future__ import annotations

from dataclasses import replace

from lakewarden.catalog.model import Table
from lakewarden.storage.kafka.ownership import made_or_undone, unmake_topic
from lakewarden.storage.kafka.publisher import Position
from lakewarden.storage.kafka.topics import TOPIC, Topic, check_free, topic_of


def with_topic(table: Table) -> Table:
    """The table with the name of its topic among its options, so that it stays.

    Raises:
        InvalidArgument: Kafka takes no topic of that name.
    """
    topic = topic_of_table(table)
    if topic is None or table.dynamic is None:
        return table
    return replace(table, dynamic=replace(table.dynamic, kafka={**table.dynamic.kafka, TOPIC: topic.name}))


def topic_of_table(table: Table) -> Topic | None:
    """The topic that the table's changes go to by its options; None of another table."""
    if table.dynamic is None or table.dynamic.log_system != "kafka":
        return None
    return topic_of(str(table.name), table.dynamic.kafka)


def check_topic(table: Table) -> None:
    """Raises:
    AlreadyExists: the table would need a topic that is there.
    StorageUnavailable, StorageRefused, InvalidArgument, Unsupported: as `Broker.reaching`.
    """
    topic = topic_of_table(table)
    if topic is not None:
        check_free(topic)


def make_table_topic(table: Table, seq: int | None) -> None:
    """Raises as `check_topic`; nothing is left where the broker answers.

    Args:
        seq: the `_seq` behind which the topic has the table's changes; None where it begins with the rows that there are.
    """
    topic = topic_of_table(table)
    if topic is not None and table.dynamic is not None:
        made_or_undone(topic, Position(table.id, seq), table.dynamic.bucket, table.dynamic.log_retention)


def unmake_table_topic(table: Table) -> None:
    """Raises:
    StorageUnavailable, StorageRefused: the broker is away; try again.
    """
    topic = topic_of_table(table)
    if topic is not None:
        unmake_topic(topic, table.id)
