"""Exactly once through Spark and Kafka: stream in → table → stream out → table → relay → topic → table, each process killed.

The streams are processes of Spark's of their own, which die with their JVMs at any moment; relay and ingest die at chosen places.
`LAKEWARDEN_CHAIN_KILLS` is the number of kills, `LAKEWARDEN_CHAIN_SEED` the seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakewarden import Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.storage.kafka_topics import Topic
from lakewarden.tables.warehouse import find_table
from tests.fixtures.children import KILLED, exit_status
from tests.fixtures.gate import kills
from tests.fixtures.kafka import KafkaServer
from tests.fixtures.lakes import check_second_opinions
from tests.ingest.relay.carrying import PLACES, in_child, ingest, relay
from tests.spark.chain.process import StreamProcess
from tests.spark.chain.streams import CHANGE_COLUMNS, COPY, ROWS, SOURCE, SOURCE_COLUMNS, STREAM, TAKEN, key_of
from tests.storage.kafka.topics import committed, topic_for

_SEED = int(os.environ.get("LAKEWARDEN_CHAIN_SEED", "25275"))
"""By which a stream, the relay and the ingest die, in this order, if there are three kills; `make torture` has a hundred."""
_BATCHES = 3
"""The most that a stream makes between its start and its death."""
_LATER = 1.0
"""Seconds after the last of them within which it dies."""


@dataclass
class Chain:
    lake: Lakehouse
    topic: Topic
    streams: dict[str, StreamProcess]
    chance: random.Random
    kills: int = 0

    def kill(self) -> None:
        """One process dies, and the next one goes on where it was."""
        role = self.chance.choice(("in", "out", "relay", "consume"))
        if role in self.streams:
            self._kill_stream(self.streams[role])
        else:
            self._kill_carrier(role, self.chance.choice(PLACES[role]))
        if self.chance.random() < 0.2:
            self.lake.flush(self.chance.choice((SOURCE, TAKEN, COPY)))

    def _kill_stream(self, stream: StreamProcess) -> None:
        stream.wait(self.chance.randint(1, _BATCHES))
        stream.die(self.chance.uniform(0, _LATER))
        self.kills += 1
        stream.start()

    def _kill_carrier(self, role: str, place: str) -> None:
        """It dies only if it has something to carry."""
        table = TAKEN if role == "relay" else COPY
        status = exit_status(in_child, self.lake.warehouse.uri, self.topic.broker.servers, self.topic.name, role, table, place)
        assert status in (0, KILLED), (role, status)
        self.kills += status == KILLED

    def finish(self) -> None:
        """Nothing comes any more, and what is there is carried to the end."""
        self.streams["in"].wait()
        self.streams["in"].kill()
        while self.lake.table(TAKEN).read().num_rows < ROWS * _batches(self.lake):
            self.streams["out"].wait()
        relay(self.lake, TableName.parse(TAKEN), self.topic)
        ingest(self.lake, TableName.parse(COPY), self.topic)


@contextmanager
def _running(streams: dict[str, StreamProcess]) -> Iterator[None]:
    try:
        for stream in streams.values():
            stream.start()
        yield
    finally:
        for stream in streams.values():
            stream.kill()


@pytest.mark.spark
@pytest.mark.slow
@kills("LAKEWARDEN_CHAIN_KILLS", gate=1, night=3)
def test_each_change_goes_through_the_whole_chain_once(
    kafka: KafkaServer, warehouse_uri: str, tmp_path: Path, request: pytest.FixtureRequest, kills: int
) -> None:
    lake = Lakehouse.open(warehouse_uri)
    lake.create_namespace("n")
    lake.create_table(SOURCE, columns=SOURCE_COLUMNS, primary_key=["id"])
    for name in (TAKEN, COPY):
        lake.create_table(name, columns=CHANGE_COLUMNS, primary_key=["seq"])
    streams = {role: StreamProcess(role, warehouse_uri, tmp_path) for role in ("in", "out")}
    chain = Chain(lake, topic_for(kafka, request), streams, random.Random(_SEED))
    relay(lake, TableName.parse(TAKEN), chain.topic)
    with _running(streams):
        while chain.kills < kills:
            chain.kill()
        chain.finish()

    numbers = range(ROWS * _batches(lake))
    told = f"seed {_SEED}, {len(numbers)} changes"
    changes = _rows(lake, TAKEN)
    assert _rows(lake, SOURCE) == sorted({key_of(number): number for number in numbers}.items()), told
    assert sorted(value for *_, value in changes) == [*numbers], told
    assert [number // ROWS for *_, number in changes] == [number // ROWS for number in numbers], "in the order of the batches"
    assert all(key == key_of(number) for *_, key, number in changes), told
    assert _rows(lake, COPY) == changes, told
    sent = sorted(tuple(each.value["after"].values()) for each in committed(kafka.servers, chain.topic.name))
    assert sent == changes, told
    lake.flush()
    assert check_second_opinions(lake)


def _batches(lake: Lakehouse) -> int:
    """Those of the first stream, from 0, that are in its table."""
    table = find_table(lake.warehouse.catalog.read(), TableName.parse(SOURCE))
    last = lake.warehouse.log(table).published(f"stream/{STREAM}")
    assert last is not None
    return last + 1


def _rows(lake: Lakehouse, name: str) -> list[tuple[Any, ...]]:
    """By their key, without `_seq`."""
    columns = SOURCE_COLUMNS if name == SOURCE else CHANGE_COLUMNS
    rows = lake.table(name).read().select([each.name for each in columns])
    return sorted(tuple(row.values()) for row in rows.to_pylist())
