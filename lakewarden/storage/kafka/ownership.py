"""Topics that tables make and delete. Who made one stands beside it, before it is there: no other's topic is ever deleted."""

from __future__ import annotations

from lakewarden.base.faults import Reach, no_faults
from lakewarden.errors import AlreadyExists, LakewardenError
from lakewarden.storage.kafka.publisher import Position, last_position, publishing
from lakewarden.storage.kafka.topics import Topic, check_free, create_position_topic, create_topic, delete_topic, partitions_of


def make_topic(
    topic: Topic,
    position: Position,
    partitions: int,
    retention_seconds: float | None = None,
    reach: Reach = no_faults,
) -> None:
    """Creates a topic that belongs to a table.

    Args:
        position: where it begins, and the table that owns it.

    Raises:
        AlreadyExists: there is a topic of that name; nothing was created.
        InvalidArgument, StorageUnavailable, StorageRefused: as `Broker.reaching`; `unmake_topic` removes what there is of it.
    """
    check_free(topic)
    create_position_topic(topic)
    reach("topic:position")
    claim(topic, position)
    reach("topic:claimed")
    try:
        create_topic(topic, partitions, retention_seconds)
    except AlreadyExists:
        delete_topic(topic.position)
        raise
    reach("topic:made")


def claim(topic: Topic, position: Position) -> None:
    """Notes whose the topic is, and where it begins. Raises as `publishing`."""
    with publishing(topic, position.owner) as publisher:
        if publisher.position is None:
            publisher.publish([], position)


def unmake_topic(topic: Topic, owner: str, reach: Reach = no_faults) -> None:
    """Deletes the topic that a table made, if there is one. Idempotent.

    Raises:
        StorageUnavailable, StorageRefused: as `Broker.reaching`; calling it again continues.
    """
    if partitions_of(topic.position) is None:
        return
    position = last_position(topic)
    if position is not None:
        if position.owner != owner:
            return
        delete_topic(topic)
        reach("topic:deleted")
    delete_topic(topic.position)


def made_or_undone(topic: Topic, position: Position, partitions: int, retention_seconds: float | None) -> None:
    """`make_topic`, which leaves nothing where it fails and the broker answers."""
    try:
        make_topic(topic, position, partitions, retention_seconds)
    except AlreadyExists:
        raise
    except LakewardenError:
        unmake_topic(topic, position.owner)
        raise
