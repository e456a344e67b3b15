"""Renews the places of streams that run in a session, also while they have no batch, and gives them back when they end (FL-40).

The writer of a batch lives as long as the batch, in a process of its own. What lives as long as the stream is the driver: it
hears from Spark when queries begin and end, and finds in a query's plan which table it writes to.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from lakewarden.base.scope import TableName
from lakewarden.errors import LakewardenError
from lakewarden.spark.connection import SparkConnection
from lakewarden.tables.dynamic import LEASE_SECONDS, give_back, lease_name, take_place

_LOGGER = logging.getLogger(__name__)

_UNTIL_PLANNED = 0.5
"""Seconds between looks for the plan of a query that has begun."""


@dataclass(frozen=True)
class Sink:
    """What a query writes to, as which stream."""

    table: TableName | None = None
    """None where it is not a table of ours."""
    stream: str = ""


class StreamQuery(Protocol):
    """A streaming query."""

    def sink(self) -> Sink | None:
        """None where its plan is not made yet."""
        ...


class StreamKeeper(StreamingQueryListener):
    """Of one session. `tick` takes and renews; while queries run, a thread calls it three times in a lease's period."""

    def __init__(self, query: Callable[[str], StreamQuery | None], seconds: float = LEASE_SECONDS) -> None:
        """`query` finds a running query by its id."""
        self._query = query
        self._seconds = seconds
        self._running: dict[str, tuple[StreamQuery, SparkConnection]] = {}
        self._beats: dict[str, int] = {}
        """By run: the beat of its lease at the last tick."""
        self._lock = threading.Lock()
        self._renewal = threading.Lock()
        """Held while one query's place is renewed or given back."""
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition(self._lock)
        self.connection: SparkConnection | None = None
        """Whose tables queries that begin from now on write to."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's names
        query = self._query(str(event.id))
        if query is None or self.connection is None:
            return
        with self._lock:
            self._running[str(event.runId)] = query, self.connection
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="stream-keeper", daemon=True)
                self._thread.start()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        return

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        return

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        with self._lock:
            ended = self._running.pop(str(event.runId), None)
            self._beats.pop(str(event.runId), None)
            self._changed.notify_all()
        if ended is not None:
            # Behind a renewal that is under way: one that came later would take the place anew, for a stream that has ended.
            with self._renewal:
                self._give_back(*ended)

    def tick(self) -> float:
        """Renews the place of each query that runs, unless one of its batches did since the last tick; takes it where the stream
        has none. Returns the seconds until the next tick."""
        with self._lock:
            running = dict(self._running)
        sinks = {run: (query.sink(), connection) for run, (query, connection) in running.items()}
        for run, (sink, connection) in sinks.items():
            try:
                with self._renewal:
                    if run in self._running:
                        self._renew(run, sink, connection)
            except LakewardenError as error:  # another stream has it, or the store is away: the next batch says so
                _LOGGER.warning("a stream's place could not be renewed: %s", error.message)
        return self._seconds / 3 if all(sink for sink, _ in sinks.values()) else _UNTIL_PLANNED

    def _renew(self, run: str, sink: Sink | None, connection: SparkConnection) -> None:
        if sink is None or sink.table is None:
            return
        warehouse = connection.open()
        now = warehouse.catalog.read()
        table, lease = now.tables.get(sink.table), now.leases.get(lease_name(sink.table))
        if table is None or table.dynamic is None:
            return
        if lease is None or lease.owner != sink.stream or lease.beat == self._beats.get(run, lease.beat):
            place = take_place(warehouse, table, sink.stream, seconds=self._seconds, patience=0)
            lease = lease if place is None else place.writer.lease
        if lease is not None:
            self._beats[run] = lease.beat

    def _give_back(self, query: StreamQuery, connection: SparkConnection) -> None:
        try:
            if (sink := query.sink()) is not None and sink.table is not None:
                give_back(connection.open().catalog, sink.table, sink.stream)
        except LakewardenError as error:
            _LOGGER.warning("a stream that ended keeps its place until that expires: %s", error.message)

    def _keep(self) -> None:
        pause = _UNTIL_PLANNED
        while True:
            with self._lock:
                self._changed.wait(pause)
                if not self._running:
                    self._thread = None
                    return
            pause = self.tick()


@dataclass(frozen=True)
class SparkQuery:
    """A `StreamQuery` of Spark, as its plan in the JVM shows it."""

    name: str
    """Of our source."""
    handle: StreamingQuery

    def sink(self) -> Sink | None:
        try:
            plan = self.handle._jsq.streamingQuery().logicalPlan()  # Spark has no other way to a query's options
        except Py4JError:
            return None
        with suppress(Py4JError):  # sinks of other kinds have no table
            if plan.table().name() == self.name:
                return _sink(plan.writeOptions())
        return Sink()


def _sink(options: object) -> Sink:
    """By the options of `writeStream`, a map of Scala's."""
    entries, found = options.iterator(), {}  # type: ignore[attr-defined]  # py4j has no types
    while entries.hasNext():
        entry = entries.next()
        found[entry._1().lower()] = entry._2()
    return Sink(TableName.parse(found["table"]), found["stream_id"]) if {"table", "stream_id"} <= found.keys() else Sink()


_KEEPERS: dict[SparkSession, StreamKeeper] = {}


def keep_streams(spark: SparkSession, name: str, connection: SparkConnection) -> None:
    """Keeps the places of streams that the session begins from now on: they write to the warehouse of the connection."""
    keeper = _KEEPERS.get(spark)
    if keeper is None:

        def query(id_: str) -> StreamQuery | None:
            handle = spark.streams.get(id_)
            return None if handle is None else SparkQuery(name, handle)

        keeper = _KEEPERS[spark] = StreamKeeper(query)
        spark.streams.addListener(keeper)
    keeper.connection = connection
