"""Relays that run by themselves in several processes: one publishes, none takes the topic from it while it does, what fails is
retried."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.model import Table
from lakewarden.errors import Ended, FencedPublisher, LakewardenError, StorageUnavailable
from lakewarden.ingest.relays import NO_TOPIC_SECONDS, BackgroundRelays, RelayOutcome
from lakewarden.ingest.topic_report import RelayReport


@dataclass
class Topic:
    """A topic and its table, as a broker has them: the last publisher that was opened goes on, the ones before are fenced."""

    now: float = 0.0
    written: int = 0
    published: int = 0
    messages: int = 0
    epoch: int = 0
    error: LakewardenError | None = None

    def report(self, table: Table, messages: int = 0) -> RelayReport:
        return RelayReport(table.name, "t", messages, self.published, self.written - self.published, "")

    def status(self, table: Table) -> RelayReport:
        if self.error is not None:
            raise self.error
        return self.report(table)


class Publisher:
    def __init__(self, topic: Topic, table: Table) -> None:
        self._topic, self._table = topic, table
        topic.epoch += 1
        self._epoch = topic.epoch

    def look(self) -> RelayReport:
        topic = self._topic
        if topic.error is not None:
            raise topic.error
        lacking = topic.written - topic.published
        if lacking and self._epoch < topic.epoch:
            raise FencedPublisher("another took over")
        topic.published, topic.messages = topic.written, topic.messages + lacking
        return topic.report(self._table, lacking)


@pytest.fixture
def tables(warehouse_uri: str) -> Iterator[list[Table]]:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql("CREATE NAMESPACE n; CREATE TABLE n.t (id INT PRIMARY KEY)")
        yield list(lake.tables())


def process(topic: Topic, tables: list[Table]) -> BackgroundRelays:
    @contextmanager
    def open_(table: Table) -> Iterator[Publisher]:
        if topic.error is not None:
            raise topic.error
        yield Publisher(topic, table)

    return BackgroundRelays(lambda: tables, open_, topic.status, lambda: topic.now)


def run(topic: Topic, processes: list[BackgroundRelays], seconds: float, writes: bool = False) -> list[RelayOutcome]:
    """Each second of the clock, each process looks; with `writes`, something is written in between."""
    outcomes: list[RelayOutcome] = []
    until = topic.now + seconds
    while topic.now < until:
        topic.now += 1
        for each in processes:
            topic.written += writes
            outcomes += each.look()
    return outcomes


def test_one_publishes_and_the_others_leave_the_topic_to_it_until_it_dies(tables: list[Table]) -> None:
    topic = Topic()
    processes = [process(topic, tables) for _ in range(3)]
    found = run(topic, processes, 60, writes=True)
    assert topic.epoch <= 3, "at most one opening each, when they began at once"
    settled = topic.epoch
    Publisher(topic, tables[0]).look()  # a command, which fences the one that publishes
    found += run(topic, processes, 600, writes=True)
    assert [each.error for each in found if each.error is not None] == []
    settled = topic.epoch
    topic.written += 1
    run(topic, processes, 5)
    assert topic.epoch == settled
    assert topic.messages == topic.published == topic.written
    while topic.epoch == settled:  # until the one that publishes is among the dead
        processes.pop().close()
        topic.written += 1
        run(topic, processes, 30)
        assert topic.published == topic.written
        if len(processes) == 1:
            break


def test_what_is_written_once_in_a_while_is_published_soon(tables: list[Table]) -> None:
    topic = Topic()
    processes = [process(topic, tables), process(topic, tables)]
    for _ in range(20):
        topic.written += 1
        run(topic, processes, 12)
        assert topic.published == topic.written
    assert topic.epoch == 1


def test_a_broker_that_is_away_is_reported_once_and_asked_less_and_less(tables: list[Table]) -> None:
    topic = Topic(error=StorageUnavailable("Kafka is away"), written=1)
    one, asked = process(topic, tables), 0
    found = []
    for _ in range(300):
        topic.now += 1
        asked += one.pause() == 0
        found += one.look()
    assert [(each.error and each.error.message, each.report) for each in found] == [("Kafka is away", None)]
    assert asked <= 10
    topic.error = None
    assert [each.report and each.report.messages for each in run(topic, [one], 70)] == [1]
    topic.error, topic.written = StorageUnavailable("Kafka is away"), 2
    assert len(run(topic, [one], 10)) == 1, "it is away again, and that is said again"


def test_a_relay_that_ended_is_tried_again_once_in_a_minute_and_goes_on_behind_a_restart(tables: list[Table]) -> None:
    topic = Topic(written=1)
    one = process(topic, tables)
    run(topic, [one], 10)
    topic.error, topic.written = Ended("restored"), 2
    assert [each.error for each in run(topic, [one], 200)] == [topic.error]
    topic.error, topic.published = None, 2  # by `lakewarden relay --restart`
    topic.written = 3
    run(topic, [one], 70)
    assert topic.published == 3


def test_without_a_topic_it_looks_at_the_catalog_alone(tables: list[Table]) -> None:
    topic = Topic()
    one = process(topic, tables)
    run(topic, [one], 5)
    tables.clear()
    assert one.look() == []
    assert one.pause() == NO_TOPIC_SECONDS
