"""FL.D: at most one streaming writer, by a lease."""

from __future__ import annotations

import pickle

import pytest

from lakewarden import Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.errors import Conflict
from lakewarden.tables.dynamic import StreamingWriter
from tests.fixtures.clock import Pauses

TABLE = TableName("n", "streamed")


def test_one_streaming_writer_at_a_time(lake: Lakehouse) -> None:
    catalog, clock = lake.warehouse.catalog, Pauses()
    first = StreamingWriter.take(catalog, TABLE, "first", monotonic=clock, pause=clock.pause)
    with pytest.raises(Conflict, match="streaming writer already, first"):
        StreamingWriter.take(catalog, TABLE, "second", monotonic=clock, pause=clock.pause)
    pickle.loads(pickle.dumps(first)).renew(catalog)
    first.release(catalog)
    StreamingWriter.take(catalog, TABLE, "second", monotonic=clock, pause=clock.pause).release(catalog)


def test_a_stream_that_renews_its_lease_is_not_waited_for(lake: Lakehouse) -> None:
    catalog, clock = lake.warehouse.catalog, Pauses()
    first = StreamingWriter.take(catalog, TABLE, "first", monotonic=clock, pause=clock.pause)

    def renewed(seconds: float) -> None:
        clock.pause(seconds)
        first.renew(catalog)

    with pytest.raises(Conflict, match="streaming writer already, first"):
        StreamingWriter.take(catalog, TABLE, "second", patience=120, monotonic=clock, pause=renewed)
    assert clock.now < 60
    first.release(catalog)


def test_a_lease_that_was_renewed_while_another_slept_is_not_expired(lake: Lakehouse) -> None:
    catalog, clock = lake.warehouse.catalog, Pauses()
    first = StreamingWriter.take(catalog, TABLE, "first", seconds=30, monotonic=clock, pause=clock.pause)

    def slept(_seconds: float) -> None:
        clock.pause(40)
        first.renew(catalog)

    with pytest.raises(Conflict, match="streaming writer already, first"):
        StreamingWriter.take(catalog, TABLE, "second", patience=120, monotonic=clock, pause=slept)
    first.renew(catalog)
    first.release(catalog)


def test_a_dead_writers_lease_is_taken_over_and_it_may_not_go_on(lake: Lakehouse) -> None:
    catalog, clock = lake.warehouse.catalog, Pauses()
    dead = StreamingWriter.take(catalog, TABLE, "dead", seconds=30, monotonic=clock, pause=clock.pause)
    next_one = StreamingWriter.take(catalog, TABLE, "next", patience=60, monotonic=clock, pause=clock.pause)
    assert clock.now >= 30
    with pytest.raises(Conflict, match="taken over"):
        dead.renew(catalog)
    dead.release(catalog)  # changes nothing of another's
    next_one.renew(catalog)
    next_one.release(catalog)


def test_a_restart_of_the_same_stream_takes_its_own_at_once(lake: Lakehouse) -> None:
    catalog, clock = lake.warehouse.catalog, Pauses()
    StreamingWriter.take(catalog, TABLE, "same", monotonic=clock, pause=clock.pause)
    again = StreamingWriter.take(catalog, TABLE, "same", monotonic=clock, pause=clock.pause)
    assert clock.now == 0
    again.release(catalog)
