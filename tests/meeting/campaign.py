"""All doors of one table at once, each of whose processes is killed again and again: then all readers agree.

Two servers and their clients, a client in Python, a stream of Spark's, a consumer of a topic, a relay to another one, and
`lakewarden ui`, whose sensor flushes and whose job compacts. Each acknowledged change counts once, one whose end is unknown
at most once. The suite has no sample: tests/serve/kills has servers and clients, tests/spark/chain the streams and topics.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from random import Random

import httpx
from dagster_graphql import DagsterGraphQLClient, DagsterGraphQLClientError

from lakewarden.client import Lakehouse
from lakewarden.errors import NotFound
from lakewarden.serve.tokens import operator_token
from lakewarden.storage.kafka_topics import Topic, create_topic
from lakewarden.tables.warehouse import find_table
from tests.fixtures.kafka import KafkaServer
from tests.fixtures.patience import PATIENCE
from tests.fixtures.servers import free_port
from tests.meeting.arrivals import produce
from tests.meeting.http_client import HttpClient
from tests.meeting.program import Program, kill_orphans
from tests.meeting.python_client import writes_of
from tests.meeting.readers import differences, feed_of, readings, sent_to, times_of
from tests.meeting.writes import TABLE, Write, wrong_rows, wrong_times
from tests.serve.process import is_ready
from tests.spark.chain.streams import ROWS, SOURCE_COLUMNS, STREAM, key_of

_OPTIONS = {"FLUSH_POLICY": "rows:100,interval:15"}
_CLIENTS = 4
_PYTHON, _ARRIVALS = _CLIENTS + 1, _CLIENTS + 2
"""The numbers of those two writers."""
_COMPACT_EVERY = 20.0
_LOOK_EVERY = 0.2
_AWAY = 2.0
"""The most seconds between a kill and the next start."""
_SHOWN = 20
"""Of each kind of fault."""
_MARK = "LAKEWARDEN_TEST_MEETING"
"""Names the meeting in the environment of each of its processes, so that none is left."""


@dataclass(frozen=True)
class Found:
    """What a campaign found."""

    kills: Mapping[str, int]
    acknowledged: int
    unknown: int
    """Changes whose writer does not know whether they were done."""
    rows: int
    commits: Mapping[str, int]
    """By operation, those that Dagster's runs made while processes died."""
    wrong: Mapping[str, str]
    """Readers that differ, and rows and changes that are not what their writers know of them."""


@dataclass
class Campaign:
    """A warehouse in a directory of its own. The seed draws what clients do, who dies, and when; the machine what that meets."""

    place: Path
    kafka: KafkaServer
    seed: int
    seconds: float
    kill_every: float
    _over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> Found:
        with Lakehouse.open(self.warehouse) as lake:
            self._prepare(lake)
            programs, clients = self._programs(), self._clients(lake)
            with self._running(programs):
                arrived = self._load(programs, clients)
                wrong = {one.name: one.ended for one in programs if one.ended}
                self._quiesce(programs)
                made = operations(lake)
                self._carry(lake)
                writes = [*arrived, *writes_of(self.journal), *streamed(lake)]
                writes += [write for client in clients for write in client.writes]
                rows = self._compare(lake, writes, clients[0].servers, wrong)
        acknowledged = sum(write.acknowledged for write in writes)
        kills = {one.name: one.kills for one in programs}
        return Found(kills, acknowledged, len(writes) - acknowledged, rows, made, wrong)

    @property
    def warehouse(self) -> str:
        return str(self.place / "warehouse")

    @property
    def journal(self) -> Path:
        return self.place / "journal"

    @property
    def arrivals(self) -> Topic:
        return Topic(self.kafka.broker, "arrivals")

    @property
    def changes(self) -> Topic:
        return Topic(self.kafka.broker, "changes")

    @cached_property
    def ports(self) -> list[int]:
        """Of the two servers, then of Dagster's pages."""
        return [free_port() for _ in range(3)]

    def _prepare(self, lake: Lakehouse) -> None:
        lake.create_namespace(TABLE.split(".")[0])
        lake.create_table(TABLE, type="SHARED", columns=SOURCE_COLUMNS, primary_key=["id"], options=_OPTIONS)
        create_topic(self.arrivals, 1, None)
        lake.relay(TABLE, self.changes.name, brokers=self.kafka.servers)  # a new topic begins with the rows that are there

    def _clients(self, lake: Lakehouse) -> list[HttpClient]:
        headers = {"Authorization": f"Bearer {operator_token(lake.warehouse, 'ann', 'service', timedelta(hours=2))}"}
        urls = [f"http://127.0.0.1:{port}" for port in self.ports[:2]]
        return [
            HttpClient(
                number,
                [httpx.Client(base_url=url, timeout=PATIENCE, headers=headers) for url in urls],
                Random(self.seed + number),
            )
            for number in range(1, _CLIENTS + 1)
        ]

    def _programs(self) -> list[Program]:
        """In the order of their starts: first the one that takes longest."""
        small = {
            "LAKEWARDEN_SQL__WORKERS": "1",
            "LAKEWARDEN_SQL__THREADS": "1",
            "LAKEWARDEN_COMPACTION__MIN_ELIGIBLE_SEGMENTS": "2",
        }
        environment = {
            **os.environ,
            **small,
            "PYSPARK_PYTHON": sys.executable,
            "LAKEWARDEN_WAREHOUSE": self.warehouse,
            _MARK: str(self.place),
        }
        first, second, pages = map(str, self.ports)
        carry = ["--brokers", self.kafka.servers, "--follow"]
        home = str(self.place / "home")
        client = ["tests.meeting.python_client", self.warehouse, str(self.journal), str(_PYTHON), str(self.seed)]
        stream = ["tests.spark.chain.streams", "in", self.warehouse, str(self.place / "checkpoint")]
        return [
            Program.lakewarden("ui", ["ui", "--port", pages, "--dagster-home", home], self.place, 120.0, environment),
            Program.lakewarden("server 1", ["serve", "--port", first], self.place, 5.0, environment),
            Program.lakewarden("server 2", ["serve", "--port", second], self.place, 5.0, environment),
            Program.module("stream", stream, self.place, 25.0, environment),
            Program.lakewarden("consume", ["consume", TABLE, self.arrivals.name, *carry], self.place, 8.0, environment),
            Program.lakewarden("relay", ["relay", TABLE, "--topic", self.changes.name, *carry], self.place, 8.0, environment),
            Program.module("client", client, self.place, 6.0, environment),
        ]

    @contextmanager
    def _running(self, programs: list[Program]) -> Iterator[None]:
        try:
            for program in programs:
                program.start()
            programs[0].wait_for("Dagster is at")
            yield
        finally:
            self._over.set()
            for program in programs:
                program.kill()
            kill_orphans(_MARK, str(self.place))

    def _load(self, programs: list[Program], clients: list[HttpClient]) -> list[Write]:
        """Until the time is over, or someone gave up; what arrived in the topic."""
        with ThreadPoolExecutor(len(clients) + 2) as pool:
            working = [pool.submit(client.work, self._over) for client in clients]
            compacting = pool.submit(self._compact)
            arriving = pool.submit(produce, self.arrivals, _ARRIVALS, self._over)
            try:
                self._kill(programs, [*working, compacting, arriving])
            finally:
                self._over.set()
            for one in (*working, compacting):
                one.result()
            return arriving.result()

    def _kill(self, programs: list[Program], working: list[Future[None] | Future[list[Write]]]) -> None:
        """Of those that have lived long enough, one that was killed least."""
        chance, until = Random(self.seed), time.monotonic() + self.seconds

        def go_on() -> bool:
            return time.monotonic() < until and not any(one.done() for one in working) and not any(one.ended for one in programs)

        while self._waits(chance.uniform(0.5, 1.5) * self.kill_every, go_on):
            if mature := [one for one in programs if one.mature]:
                victim = min(mature, key=lambda one: (one.kills, chance.random()))
                victim.kill()
                victim.kills += 1
                self._waits(chance.uniform(0, _AWAY), go_on)
                victim.start()

    def _waits(self, seconds: float, go_on: Callable[[], bool]) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until and go_on():
            self._over.wait(_LOOK_EVERY)
        return go_on()

    def _compact(self) -> None:
        """As a person does on Dagster's pages, when they are there."""
        while not self._over.wait(_COMPACT_EVERY):
            with suppress(DagsterGraphQLClientError, OSError):
                client = DagsterGraphQLClient("127.0.0.1", port_number=self.ports[2])
                client.submit_job_execution("compact_job", repository_location_name="lakewarden")

    def _quiesce(self, programs: list[Program]) -> None:
        """Ends all, and starts the servers anew."""
        for program in programs:
            program.kill()
        kill_orphans(_MARK, str(self.place))
        for program in programs:
            if program.name.startswith("server"):
                program.start()
        for port in self.ports[:2]:
            while not is_ready(f"http://127.0.0.1:{port}"):
                time.sleep(_LOOK_EVERY)

    def _carry(self, lake: Lakehouse) -> None:
        """What has arrived comes into the table, and its changes into the topic; then all is flushed and compacted."""
        lake.consume(TABLE, self.arrivals.name, brokers=self.kafka.servers)
        lake.relay(TABLE, self.changes.name, brokers=self.kafka.servers)
        for report in (*lake.flush(), *lake.compact(TABLE)):
            assert report.fault is None, report

    def _compare(self, lake: Lakehouse, writes: list[Write], servers: list[httpx.Client], wrong: dict[str, str]) -> int:
        """Adds what is wrong, and returns how many rows there are."""
        feed, sent = feed_of(lake), sent_to(self.changes)
        found = readings(lake, servers, feed, sent)
        there = found["strong read"]
        said = {
            "rows": [*wrong_rows(writes, there)],
            "times in the feed": [*wrong_times(writes, times_of(feed))],
            "times in the topic": [*wrong_times(writes, times_of(sent))],
            "check": [str(one) for one in lake.check() if not one.passed],
        }
        wrong |= {name: f"{len(each)}: {'; '.join(each[:_SHOWN])}" for name, each in said.items() if each}
        wrong |= dict(differences(found))
        return there.total()


def operations(lake: Lakehouse) -> dict[str, int]:
    """How many commits of each the table has."""
    with suppress(NotFound):  # it has none yet
        return dict(Counter(entry.operation for entry in lake.table(TABLE).history(limit=None)))
    return {}


def streamed(lake: Lakehouse) -> list[Write]:
    """What Spark's stream has written: whole batches, from 0, whichever process made them."""
    table = find_table(lake.warehouse.catalog.read(), lake.table(TABLE).table.name)
    last = lake.warehouse.log(table).published(f"stream/{STREAM}")
    batches = 0 if last is None else last + 1
    return [Write(key_of(number), number, acknowledged=True) for number in range(ROWS * batches)]
