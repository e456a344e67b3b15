"""Direct writes of tables without a primary key: all their rows come by them, and subscribers hear of each once."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakewarden import Lakehouse
from lakewarden.errors import Ended, InvalidArgument
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct.run import DirectRun
from tests.maintenance.steps import then
from tests.tables.direct.boards import ALL_EVENTS, appending, ids, once, removing, rows


def test_an_append_is_one_commit_whose_rows_every_read_sees(lake: Lakehouse, events: TableClient) -> None:
    did = events.direct.append([rows({1: "a"}), *rows({1: "b"}).to_batches()])
    assert (did.version, did.rows_inserted) == (1, 2)
    for found in (events.read(), events.read(freshness="eventual")):
        assert sorted(map(str, found.column("text").to_pylist())) == ["a", "b"]
    assert events.history(limit=1)[0].parameters == {"mode": "Append"}
    assert not [finding for finding in lake.check() if not finding.passed]
    assert lake.flush() == []


def test_appends_that_race_go_on_top_of_each_other(lake: Lakehouse, events: TableClient) -> None:
    def other() -> None:
        events.direct.append([rows({2: "b"})])

    DirectRun(lake.warehouse, events.table, appending(rows({1: "a"})), then("direct:committing", once(other))).run()
    assert {*events.read().column("id").to_pylist()} == {1, 2}
    assert events.history(limit=1)[0].version == 2
    assert not [finding for finding in lake.check() if not finding.passed]


def test_subscribers_hear_of_each_appended_row_once(lake: Lakehouse, events: TableClient) -> None:
    events.direct.append([rows({1: "a"})])
    with lake.subscribe(ALL_EVENTS) as one:
        assert ids(one.poll()) == [1]
        events.direct.append([rows({2: "b", 3: "c"})])
        assert ids(one.poll()) == [2, 3]
        place = one.seq
        events.direct.append([rows({4: "d"})])
        assert ids(one.poll()) == [4]
        assert one.poll() == []
    with lake.subscribe(ALL_EVENTS, from_seq=place) as again:
        assert ids(again.poll()) == [4]


def test_subscribers_do_not_pass_an_append_that_is_under_way(lake: Lakehouse, events: TableClient) -> None:
    with lake.subscribe(ALL_EVENTS) as one:
        heard: list[object] = []

        def others() -> None:
            events.direct.append([rows({2: "b"})])
            heard.extend(ids(one.poll()))

        write = appending(rows({1: "a"}))
        DirectRun(lake.warehouse, events.table, write, then("direct:drafted", once(others))).run()
        assert heard == [], "its rows have lower numbers"
        assert ids(one.poll()) == [1, 2]


def test_an_append_that_failed_holds_nobody_back(lake: Lakehouse, events: TableClient) -> None:
    def fails() -> Iterator[pa.Table]:
        yield rows({1: "a"})
        raise InvalidArgument("the source ended")

    with lake.subscribe(ALL_EVENTS) as one:
        one.poll()
        with pytest.raises(InvalidArgument):
            events.direct.append(fails())
        events.direct.append([rows({2: "b"})])
        assert ids(one.poll()) == [2]
    assert not [finding.message for finding in lake.check() if "no commit names" in finding.message]


def test_a_delete_ends_subscriptions_and_their_places(lake: Lakehouse, events: TableClient) -> None:
    events.direct.append([rows({1: "a", 2: "b"})])
    with lake.subscribe(ALL_EVENTS) as one:
        one.poll()
        place = one.seq
        events.direct.edit(removing(1), operation="DELETE", predicate="id = 1")
        with pytest.raises(Ended):
            one.poll()
    with pytest.raises(InvalidArgument, match="no longer holds"):
        lake.subscribe(ALL_EVENTS, from_seq=place)
    with lake.subscribe(ALL_EVENTS) as again:
        assert ids(again.poll()) == [2]
