"""A broker that is killed in the middle of a relay or an ingest, and comes back with its topics: each change once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.faults import no_faults
from lakewarden.base.scope import TableName
from lakewarden.errors import Transient
from lakewarden.storage.kafka_topics import Broker, Topic
from tests.fixtures.kafka import KafkaMachine, kafka_machine
from tests.fixtures.patience import PATIENCE
from tests.ingest.relay.carrying import PLACES, WORK, relay
from tests.storage.kafka.topics import committed

_SOURCE, _COPY = TableName("n", "source"), TableName("n", "copy")
_OF = {"relay": _SOURCE, "consume": _COPY}
_PLACES = [(role, place) for role, places in PLACES.items() for place in places]


@pytest.mark.night
@pytest.mark.kafka
def test_each_change_is_in_the_topic_and_in_the_copy_once(warehouse_uri: str) -> None:
    """The broker is killed at each place that a relay or an ingest passes. Behind a commit it sometimes loses its end."""
    with kafka_machine() as machine, Lakehouse.open(warehouse_uri) as lake:
        lake.create_namespace("n")
        for name in (_SOURCE, _COPY):
            lake.create_table(str(name), columns=[Column("id", "BIGINT", nullable=False)], primary_key=["id"])
        topic = Topic(Broker({**machine.server.broker.settings, "socket.timeout.ms": "2000"}), "n.source")
        with machine.running():
            relay(lake, _SOURCE, topic)
        written: list[int] = []
        for role, place in [*_PLACES, *[("relay", "publish:committed")] * 6]:
            written += _write(lake, len(written))
            _killed_at(machine, lake, topic, role, place)
            with machine.running():
                _again("relay", lake, topic)
                _again("consume", lake, topic)
                assert [each.key["id"] for each in committed(machine.server.servers, topic.name)] == written, place
                assert sorted(row["id"] for row in lake.table(str(_COPY)).read().to_pylist()) == written, place


def _write(lake: Lakehouse, first: int) -> list[int]:
    ids = list(range(first, first + 15))
    lake.sql(f"INSERT INTO {_SOURCE} VALUES " + ", ".join(f"({each})" for each in ids))
    return ids


def _again(role: str, lake: Lakehouse, topic: Topic) -> None:
    """Until it ends well: a broker that has just come back does not know all leaders at once."""
    for _ in _tries():
        with suppress(Transient):
            WORK[role](lake, _OF[role], topic, no_faults)
            return


def _killed_at(machine: KafkaMachine, lake: Lakehouse, topic: Topic, role: str, at: str) -> None:
    """Works until it comes to the place, where the broker dies; the work fails, or had nothing more to ask."""
    reached: list[str] = []
    with ExitStack() as up:
        up.enter_context(machine.running())
        if role == "consume":
            _again("relay", lake, topic)

        def reach(place: str) -> None:
            if place == at and not reached:
                reached.append(place)
                up.close()

        for _ in _tries():
            with suppress(Transient):  # nothing else: the broker comes back
                WORK[role](lake, _OF[role], topic, reach)
            if reached:
                return


def _tries() -> Iterator[None]:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        yield
    pytest.fail("the broker did not answer in time")
