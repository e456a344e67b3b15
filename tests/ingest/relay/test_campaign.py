"""Exactly once from end to end: writes → table → relay → topic → ingest → another table, each process killed again and again.

`LAKEWARDEN_KAFKA_KILLS` is the number of kills, `LAKEWARDEN_KAFKA_SEED` the first seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.faults import Reach
from lakewarden.base.scope import TableName
from lakewarden.log.once import WriterBatch
from lakewarden.log.record import DELETE, UPSERT, LogBatch, log_batch
from lakewarden.storage.kafka_topics import Broker, Topic
from lakewarden.tables.warehouse import find_table
from tests.fixtures.children import KILLED, exit_status, killed_at
from tests.fixtures.gate import kills
from tests.fixtures.kafka import KafkaServer
from tests.fixtures.lakes import check_second_opinions
from tests.ingest.relay.carrying import PLACES, ingest, relay
from tests.storage.kafka.topics import committed, topic_for

_SEED = int(os.environ.get("LAKEWARDEN_KAFKA_SEED", "1"))
_KEYS = 12
_SOURCE, _COPY = TableName("n", "source"), TableName("n", "copy")
_PLACES = {"write": ("write:begun", "write:appended"), **PLACES}

Change = tuple[int, int | None]
"""A key, and its new value; None for a row that is removed."""


def changes_of(seed: int, number: int) -> list[Change]:
    """What one batch writes; each key once."""
    chance = random.Random(seed * 100_003 + number)
    keys = sorted(chance.sample(range(_KEYS), chance.randint(1, 5)))
    return [(key, None if chance.random() < 0.3 else chance.randrange(10**9)) for key in keys]


def _batch(lake: Lakehouse, changes: list[Change]) -> LogBatch:
    table = find_table(lake.warehouse.catalog.read(), _SOURCE)
    parts = []
    for key, value in changes:
        row = {"id": [key]} if value is None else {"id": [key], "value": [value]}
        parts.append(log_batch(table.schema, pa.table(row), "", DELETE if value is None else UPSERT).rows)
    return LogBatch(table.schema.version, pa.concat_tables(parts))


def _write(lake: Lakehouse, _topic: Topic, seed: int, reach: Reach) -> None:
    """A stream's sink: the next batch, by the number that the table has."""
    log = lake.warehouse.log(find_table(lake.warehouse.catalog.read(), _SOURCE))
    number = (log.published("stream") or 0) + 1
    reach("write:begun")
    log.append_once(_batch(lake, changes_of(seed, number)), WriterBatch("stream", number))
    reach("write:appended")


def _relay(lake: Lakehouse, topic: Topic, _seed: int, reach: Reach) -> None:
    relay(lake, _SOURCE, topic, reach)


def _consume(lake: Lakehouse, topic: Topic, _seed: int, reach: Reach) -> None:
    ingest(lake, _COPY, topic, reach)


_WORK: dict[str, Callable[[Lakehouse, Topic, int, Reach], None]] = {"write": _write, "relay": _relay, "consume": _consume}


def _in_child(uri: str, servers: str, topic: str, seed: int, role: str, place: str) -> None:
    with Lakehouse.open(uri) as lake:
        _WORK[role](lake, Topic(Broker.at(servers), topic), seed, killed_at(place))


@pytest.mark.slow
@kills("LAKEWARDEN_KAFKA_KILLS", gate=3, night=8)
def test_both_tables_are_equal_and_each_change_is_in_the_topic_once(
    kafka: KafkaServer, warehouse_uri: str, request: pytest.FixtureRequest, kills: int
) -> None:
    chance, topic = random.Random(_SEED), topic_for(kafka, request)
    lake = Lakehouse.open(warehouse_uri)
    lake.create_namespace("n")
    columns = [Column("id", "BIGINT", nullable=False), Column("value", "BIGINT")]
    for name in (_SOURCE, _COPY):
        lake.create_table(str(name), columns=columns, primary_key=["id"])
    _relay(lake, topic, _SEED, lambda _place: None)
    killed = 0
    while killed < kills:
        role = chance.choice(sorted(_WORK))
        status = exit_status(
            _in_child, warehouse_uri, kafka.servers, topic.name, _SEED, role, chance.choice(("", *_PLACES[role] * 3))
        )
        assert status in (0, KILLED), (role, status)
        killed += status == KILLED
        if role != "write" and chance.random() < 0.5:
            _write(lake, topic, _SEED, lambda _place: None)
        if chance.random() < 0.2:
            lake.flush(str(chance.choice((_SOURCE, _COPY))))
    for work in (_relay, _consume):
        work(lake, topic, _SEED, lambda _place: None)

    expected = _expected(lake)
    found = [(each.key["id"], _value(each.value)) for each in committed(kafka.servers, topic.name)]
    assert found == expected, f"seed {_SEED}"
    rows = {key: value for key, value in dict(expected).items() if value is not None}
    for name in (_SOURCE, _COPY):
        assert {row["id"]: row["value"] for row in lake.table(str(name)).read().to_pylist()} == rows, f"seed {_SEED}"
    lake.flush()
    assert check_second_opinions(lake)


def _expected(lake: Lakehouse) -> list[Change]:
    """Every change that was written, in order."""
    last = lake.warehouse.log(find_table(lake.warehouse.catalog.read(), _SOURCE)).published("stream") or 0
    return [change for number in range(1, last + 1) for change in changes_of(_SEED, number)]


def _value(value: Any) -> int | None:
    return None if value["op"] == "d" else int(value["after"]["value"])
