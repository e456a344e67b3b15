"""A table's changes in a topic: each once, in order of each key, whatever dies; what ends them says what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.cli.main import main
from lakewarden.errors import Ended, InUse, InvalidArgument, LakewardenError, NotFound
from lakewarden.ingest.relay import RelayRequest, relaying
from lakewarden.ingest.topic_report import RelayReport
from lakewarden.storage.kafka_topics import Broker, Topic, create_topic, delete_topic
from lakewarden.tables.changes.feed import ChangeFeed
from lakewarden.tables.client import TableClient
from lakewarden.tables.warehouse import find_table
from tests.fixtures.children import KILLED, exit_status, killed_at
from tests.fixtures.kafka import KafkaServer
from tests.storage.kafka.topics import Found, committed, topic_for

_COLUMNS = [Column("id", "BIGINT", nullable=False), Column("text", "TEXT")]


@pytest.fixture
def lake(warehouse_uri: str) -> Lakehouse:
    lake = Lakehouse.open(warehouse_uri)
    lake.create_namespace("n")
    return lake


@pytest.fixture
def topic(kafka: KafkaServer, request: pytest.FixtureRequest) -> Topic:
    return topic_for(kafka, request)


def _table(lake: Lakehouse, **more: Any) -> TableClient:
    return lake.create_table("n.t", columns=_COLUMNS, **{"primary_key": ["id"], **more})


def _relay(lake: Lakehouse, topic: Topic, **more: Any) -> RelayReport:
    return lake.relay("n.t", topic.name, brokers=topic.broker.servers, **more)


def _rows(numbers: range, text: str = "a") -> list[dict[str, object]]:
    return [{"id": number, "text": text} for number in numbers]


def _read(topic: Topic, partitions: int = 1) -> list[Found]:
    return committed(topic.broker.servers, topic.name, partitions)


def _state(found: list[Found]) -> dict[object, object]:
    """What a consumer that keeps the newest row of each key has."""
    rows: dict[object, object] = {}
    for each in found:
        key = json.dumps(each.key)
        if each.value["op"] == "d":
            rows.pop(key, None)
        else:
            rows[key] = each.value["after"]["text"]
    return rows


def test_a_topic_follows_its_table(lake: Lakehouse, topic: Topic) -> None:
    table = _table(lake)
    table.write(_rows(range(2)))
    lake.flush("n.t")
    table.write(_rows(range(1, 3), "b"))
    first = _relay(lake, topic)
    assert (first.messages, first.lag, first.topic) == (3, 0, topic.name)
    table.write(_rows(range(1), "c"))
    table.delete([{"id": 1}])
    lake.flush("n.t")
    assert lake.topics.relay_status("n.t", topic.name, brokers=topic.broker.servers).lag > 0
    assert _relay(lake, topic).messages == 2
    assert _relay(lake, topic).messages == 0
    found = _read(topic)
    assert [(each.key, each.value) for each in found[3:]] == [
        ({"id": 0}, {"before": None, "after": {"id": 0, "text": "c"}, "op": "c"}),
        ({"id": 1}, {"before": {"id": 1}, "after": None, "op": "d"}),
    ]
    assert _state(found) == {'{"id": 0}': "c", '{"id": 2}': "b"}


def test_the_mode_all_has_the_rows_before(lake: Lakehouse, topic: Topic) -> None:
    table = _table(lake)
    table.write(_rows(range(1)))
    _relay(lake, topic, mode="all", start="latest")
    table.write(_rows(range(1), "b"))
    lake.flush("n.t")
    table.delete([{"id": 0}])
    _relay(lake, topic, mode="all")
    first, second = {"id": 0, "text": "a"}, {"id": 0, "text": "b"}
    assert [each.value for each in _read(topic)] == [
        {"before": first, "after": second, "op": "u"},
        {"before": second, "after": None, "op": "d"},
    ]


def test_fl_066_a_topic_takes_the_rows_before_from_the_log(lake: Lakehouse, topic: Topic) -> None:
    """Behind a flush, with the Delta table out of reach: the mode of the table is `all`, and so is that of its topic."""
    table = _table(lake, dynamic=True, options={"log.changelog-mode": "all"})
    table.write(_rows(range(1)))
    _relay(lake, topic, start="latest")
    table.write([*_rows(range(1), "b"), *_rows(range(1), "c")])
    table.delete([{"id": 0}])
    lake.flush("n.t")
    place = Path(table.reader.target(None).uri.removeprefix("file://"))
    place.rename(place.with_name("away"))
    _relay(lake, topic)
    rows = [{"id": 0, "text": text} for text in "abc"]
    assert [each.value for each in _read(topic)] == [
        {"before": rows[0], "after": rows[1], "op": "u"},
        {"before": rows[1], "after": rows[2], "op": "u"},
        {"before": rows[2], "after": None, "op": "d"},
    ]


def test_rows_of_users_name_them_and_keep_to_their_partition(lake: Lakehouse, topic: Topic) -> None:
    table = _table(lake, type="USER")
    for text in ("a", "b"):
        for user in ("ann", "bob", "cy"):
            table.write(_rows(range(4), text), user=user)
    _relay(lake, topic, partitions=3)
    table.write(_rows(range(4), "c"), user="ann")
    _relay(lake, topic)
    found = _read(topic, 3)
    places: dict[str, set[int]] = {}
    for each in found:
        places.setdefault(json.dumps(each.key), set()).add(each.partition)
    assert len(places) == 12
    assert {len(each) for each in places.values()} == {1}
    assert len({each.partition for each in found}) > 1
    assert found[0].value["after"].keys() == {"_user", "id", "text"}
    assert _state(found)['{"_user": "ann", "id": 1}'] == "c"


def test_a_table_without_a_key_has_messages_without_one(lake: Lakehouse, topic: Topic) -> None:
    table = _table(lake, primary_key=[])
    for numbers in (range(2), range(2, 3)):
        table.direct.append([table.completed(_rows(numbers), user=None)])
        _relay(lake, topic)
    found = _read(topic)
    assert [(each.key, each.value["op"], each.value["after"]["id"]) for each in found] == [(None, "c", n) for n in range(3)]
    with pytest.raises(InvalidArgument, match="no primary key"):
        _relay(lake, topic, mode="upsert")


def _relay_in_child(uri: str, servers: str, name: str, place: str, times: int) -> None:
    lake = Lakehouse.open(uri)
    found = find_table(lake.warehouse.catalog.read(), TableName("n", "t"))
    request = RelayRequest(Topic(Broker.at(servers), name), batch_rows=2)
    feed = ChangeFeed(lake.warehouse, found.name)
    with relaying(found, request, feed, lake.warehouse.clock, killed_at(place, times)) as relay:
        relay.look()


@pytest.mark.covering
@pytest.mark.parametrize("place", ["publish:open", "publish:begun", "publish:sent", "publish:position", "publish:committed"])
@pytest.mark.parametrize("begun", [False, True])
def test_a_death_at_any_step_leaves_each_change_once(lake: Lakehouse, topic: Topic, place: str, begun: bool) -> None:
    table = _table(lake)
    table.write(_rows(range(3)))
    if begun:
        _relay(lake, topic)
    table.write(_rows(range(3, 5)))
    table.write(_rows(range(5, 7)))
    times = 1 if begun or place == "publish:open" else 2  # of a snapshot of seven rows, in transactions of two
    assert exit_status(_relay_in_child, lake.warehouse.uri, topic.broker.servers, topic.name, place, times) == KILLED
    lake.flush("n.t")
    table.write([*_rows(range(7, 8)), *_rows(range(2), "b")])
    table.delete([{"id": 6}])
    _relay(lake, topic)
    found = _read(topic)
    first = [] if not begun and place == "publish:open" else [0, 1, 6, 6]  # else the later rows are the first that the topic has
    assert sorted(each.key["id"] for each in found) == sorted([0, 1, 2, 3, 4, 5, 7, *first]), "each once"
    assert _state(found) == {json.dumps({"id": each}): "b" if each < 2 else "a" for each in (0, 1, 2, 3, 4, 5, 7)}


def test_a_second_relay_fences_the_first(lake: Lakehouse, topic: Topic) -> None:
    table = _table(lake)
    with lake.topics.relaying("n.t", topic.name, brokers=topic.broker.servers) as first:
        table.write(_rows(range(1)))
        first.look()
        table.write(_rows(range(1, 2)))
        _relay(lake, topic)
        table.write(_rows(range(2, 3)))
        with pytest.raises(Ended, match="took over"):
            first.look()
    _relay(lake, topic)
    assert sorted(each.key["id"] for each in _read(topic)) == [0, 1, 2]


def _restore(lake: Lakehouse) -> None:
    lake.restore("n.t", version=0, dry_run=False)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [(_restore, Ended, "restored"), (lambda lake: lake.drop_table("n.t"), NotFound, "no table")],
)
def test_what_ends_a_feed_says_what_to_do(
    lake: Lakehouse, topic: Topic, change: Callable[[Lakehouse], None], error: type[LakewardenError], said: str
) -> None:
    table = _table(lake)
    for text in ("a", "b"):
        table.write(_rows(range(2), text))
        lake.flush("n.t")
    _relay(lake, topic)
    change(lake)
    with pytest.raises(error, match=said) as raised:
        _relay(lake, topic)
    if error is Ended:
        assert "relay n.t --restart" in raised.value.message
        assert _relay(lake, topic, restart=True).messages == 2
        assert set(_state(_read(topic)).values()) == {"a"}


def test_an_erasure_ends_it_and_leaves_the_topic_to_its_owner(lake: Lakehouse, topic: Topic) -> None:
    table = _table(lake, type="USER")
    for user in ("ann", "bob"):
        table.write(_rows(range(1)), user=user)
    _relay(lake, topic)
    lake.erase("ann")
    with pytest.raises(Ended, match=r"erased.*--restart"):
        _relay(lake, topic)
    delete_topic(topic)
    with pytest.raises(NotFound, match="deleted"):
        _relay(lake, topic)
    _relay(lake, topic, restart=True)
    assert [each.key["_user"] for each in _read(topic)] == ["bob"]


def test_a_topic_is_one_tables_and_may_be_there_before(lake: Lakehouse, topic: Topic) -> None:
    create_topic(topic, 2, None)
    _table(lake).write(_rows(range(3)))
    lake.create_table("n.u", columns=_COLUMNS, primary_key=["id"])
    assert _relay(lake, topic).messages == 3
    assert len(_read(topic, 2)) == 3
    with pytest.raises(InUse, match="another table"):
        lake.relay("n.u", topic.name, brokers=topic.broker.servers)


def test_the_command_publishes_and_shows_the_lag(lake: Lakehouse, topic: Topic, capsys: pytest.CaptureFixture[str]) -> None:
    _table(lake).write(_rows(range(3)))
    words = ["--warehouse", lake.warehouse.uri, "--format", "json", "relay", "n.t", "--topic", topic.name]
    said = []
    for more in ([], ["--status"]):
        with pytest.raises(SystemExit, match="0"):
            main([*words, "--brokers", topic.broker.servers, *more])
        said += json.loads(capsys.readouterr().out)
    assert [(each["messages"], each["lag"]) for each in said] == [(3, 0), (0, 0)]
    assert said[0]["seq"] == said[1]["seq"]
