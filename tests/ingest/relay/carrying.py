"""One look of a relay and one ingest of a topic, in a process that may be killed at their places."""

from __future__ import annotations

from collections.abc import Callable

from lakewarden import Lakehouse
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.scope import TableName
from lakewarden.ingest.consume import ConsumeRequest, consuming
from lakewarden.ingest.relay import RelayRequest, relaying
from lakewarden.storage.kafka_topics import Broker, Topic
from lakewarden.tables.changes.feed import ChangeFeed
from lakewarden.tables.warehouse import find_table
from tests.fixtures.children import killed_at

PLACES = {
    "relay": ("publish:open", "publish:begun", "publish:sent", "publish:position", "publish:committed"),
    "consume": ("consume:rejected", "consume:taken"),
}


def relay(lake: Lakehouse, name: TableName, topic: Topic, reach: Reach = no_faults) -> None:
    """From a table to the topic, in small transactions."""
    table = find_table(lake.warehouse.catalog.read(), name)
    feed = ChangeFeed(lake.warehouse, name)
    with relaying(table, RelayRequest(topic, batch_rows=6), feed, lake.warehouse.clock, reach) as opened:
        opened.look()


def ingest(lake: Lakehouse, name: TableName, topic: Topic, reach: Reach = no_faults) -> None:
    """From the topic into a table, a few messages at once."""
    with consuming(lake.warehouse, ConsumeRequest(name, topic, batch_messages=5), reach) as consumer:
        consumer.look()


WORK: dict[str, Callable[[Lakehouse, TableName, Topic, Reach], None]] = {"relay": relay, "consume": ingest}


def in_child(uri: str, servers: str, topic: str, role: str, name: str, place: str) -> None:
    """`role` once, in this process, which dies at the place."""
    with Lakehouse.open(uri) as lake:
        WORK[role](lake, TableName.parse(name), Topic(Broker.at(servers), topic), killed_at(place))
