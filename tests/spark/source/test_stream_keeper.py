"""FL-40: what runs in the driver keeps a stream's place while its query runs, with batches and without, and gives it back."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyspark.sql.streaming.listener import QueryStartedEvent, QueryTerminatedEvent

from lakewarden import Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Lease
from lakewarden.errors import Conflict
from lakewarden.spark.stream_keeper import Sink, StreamKeeper
from lakewarden.tables.dynamic import StreamingWriter, lease_name
from tests.spark.source.reading import connection

TABLE = TableName("app", "readings")


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    with Lakehouse.open(warehouse_uri) as opened:
        opened.sql("CREATE NAMESPACE app; CREATE DYNAMIC TABLE app.readings (id INT PRIMARY KEY)")
        opened.sql("CREATE SHARED TABLE app.plain (id INT PRIMARY KEY)")
        yield opened


@dataclass
class Running:
    """A query as its plan shows it: not before the first batch."""

    planned: Sink | None = None

    def sink(self) -> Sink | None:
        return self.planned


def event(kind: type, id_: uuid.UUID) -> QueryStartedEvent | QueryTerminatedEvent:
    """As Spark makes it."""
    made: QueryStartedEvent | QueryTerminatedEvent = object.__new__(kind)
    made._id = made._runId = id_
    return made


class Unattended(StreamKeeper):
    """The test calls `tick` alone."""

    def _keep(self) -> None:
        return


class Session:
    """A session with queries that begin and end."""

    def __init__(self, lake: Lakehouse) -> None:
        self.queries: dict[str, Running] = {}
        self.keeper = Unattended(self.queries.get, 3600.0)
        self.keeper.connection = connection(lake)

    def start(self, sink: Sink | None) -> tuple[uuid.UUID, Running]:
        id_, query = uuid.uuid4(), Running(sink)
        self.queries[str(id_)] = query
        self.keeper.onQueryStarted(event(QueryStartedEvent, id_))  # type: ignore[arg-type]
        return id_, query

    def end(self, id_: uuid.UUID) -> None:
        self.keeper.onQueryTerminated(event(QueryTerminatedEvent, id_))  # type: ignore[arg-type]


def lease(lake: Lakehouse) -> Lease | None:
    return lake.warehouse.catalog.read().leases.get(lease_name(TABLE))


def test_a_query_without_a_batch_has_its_place_renewed_until_it_ends(lake: Lakehouse) -> None:
    session = Session(lake)
    id_, query = session.start(None)
    assert session.keeper.tick() < 1, "its plan comes soon"
    assert lease(lake) is None
    query.planned = Sink(TABLE, "s")
    session.keeper.tick()
    held = lease(lake)
    assert held is not None
    for _ in range(2):
        session.keeper.tick()
        renewed = lease(lake)
        assert renewed is not None
        assert (renewed.owner, renewed.token) == ("s", held.token)
        assert renewed.beat > held.beat
        held = renewed
    session.end(id_)
    assert lease(lake) is None


def test_a_query_that_ends_within_a_tick_keeps_no_place(lake: Lakehouse) -> None:
    session = Session(lake)
    id_, query = session.start(Sink(TABLE, "s"))
    session.keeper.tick()

    @dataclass
    class Ending(Running):
        ended: bool = False

        def sink(self) -> Sink | None:
            if not self.ended:
                self.ended = True
                session.end(id_)
            return self.planned

    session.keeper._running[str(id_)] = Ending(query.planned), connection(lake)
    session.keeper.tick()
    assert lease(lake) is None


def test_what_a_batch_renewed_is_not_renewed_again(lake: Lakehouse) -> None:
    session = Session(lake)
    session.start(Sink(TABLE, "s"))
    session.keeper.tick()
    StreamingWriter.take(lake.warehouse.catalog, TABLE, "s")
    before = lake.warehouse.catalog.read().version
    session.keeper.tick()
    assert lake.warehouse.catalog.read().version == before
    session.keeper.tick()
    assert lake.warehouse.catalog.read().version == before + 1


def test_another_streams_place_is_left_to_it(lake: Lakehouse, caplog: pytest.LogCaptureFixture) -> None:
    other = StreamingWriter.take(lake.warehouse.catalog, TABLE, "other")
    session = Session(lake)
    id_, _ = session.start(Sink(TABLE, "s"))
    session.keeper.tick()
    assert "streaming writer already, other" in caplog.text
    session.end(id_)
    other.renew(lake.warehouse.catalog)
    with pytest.raises(Conflict):
        StreamingWriter.take(lake.warehouse.catalog, TABLE, "s")


def test_queries_that_write_elsewhere_need_no_place(lake: Lakehouse) -> None:
    session = Session(lake)
    before = lake.warehouse.catalog.read().version
    ids = [session.start(sink)[0] for sink in (Sink(), Sink(TableName("app", "plain"), "s"), Sink(TableName("app", "gone"), "s"))]
    assert session.keeper.tick() > 1000
    for each in ids:
        session.end(each)
    assert lake.warehouse.catalog.read().version == before
