"""FL.B and FL.F, as far as they are about topics."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from deltalake import write_deltalake

from lakewarden import Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.cli.main import main
from lakewarden.errors import AlreadyExists, Ended, InvalidArgument, NotFound, StorageUnavailable
from lakewarden.serve.tokens import operator_token
from lakewarden.sql.results import Result, ResultRows
from lakewarden.storage.kafka_topics import Topic, create_topic, partitions_of
from tests.fixtures.kafka import KafkaServer
from tests.fixtures.patience import PATIENCE
from tests.fixtures.servers import free_port
from tests.serve.process import served
from tests.storage.kafka.topics import Found, committed

Sql = Callable[[str], list[Result]]


def _with(servers: str, **more: str) -> str:
    options = {"log.system": "kafka", "log.kafka.bootstrap.servers": servers, **more}
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())


def _read(kafka: KafkaServer, topic: str, partitions: int = 1) -> list[Found]:
    return committed(kafka.servers, topic, partitions)


def _away() -> str:
    return _with(f"127.0.0.1:{free_port()}", **{"log.kafka.socket.timeout.ms": "50"})


def test_fl_020_a_topic_comes_and_goes_with_its_table(sql: Sql, kafka: KafkaServer) -> None:
    create = f"CREATE DYNAMIC TABLE k20 (id INT PRIMARY KEY) WITH ({_with(kafka.servers, bucket='3')})"
    topic = Topic(kafka.broker, "n.k20")
    for _ in range(2):
        sql(create)
        assert partitions_of(topic) == 3
        (described,) = sql("DESCRIBE TABLE EXTENDED k20")
        assert isinstance(described, ResultRows)
        assert described.to_pylist()[0]["log.kafka.topic"] == "n.k20"
        sql("DROP TABLE k20")
        assert partitions_of(topic) is None
        assert partitions_of(topic.position) is None


def test_fl_021_a_broker_that_is_away_leaves_nothing_of_a_table(lake: Lakehouse, sql: Sql, kafka: KafkaServer) -> None:
    with pytest.raises(StorageUnavailable, match="could not be reached"):
        sql(f"CREATE DYNAMIC TABLE k21 (id INT) WITH ({_away()})")
    assert TableName("n", "k21") not in lake.warehouse.catalog.read().tables
    create_topic(Topic(kafka.broker, "k21.taken"), 1, None)
    taken = _with(kafka.servers, **{"log.kafka.topic": "k21.taken"})
    with pytest.raises(AlreadyExists, match=r"k21\.taken"):
        sql(f"CREATE DYNAMIC TABLE k21 (id INT) WITH ({taken})")
    with pytest.raises(InvalidArgument, match=r"topic's name"):
        sql(f"CREATE DYNAMIC TABLE k21 (id INT) WITH ({_with(kafka.servers, **{'log.kafka.topic': 'a=b'})})")
    assert partitions_of(Topic(kafka.broker, "k21.taken")) == 1
    sql(f"CREATE DYNAMIC TABLE k21 (id INT) WITH ({_with(kafka.servers)})")


def test_fl_022_the_retention_is_the_topics(sql: Sql, kafka: KafkaServer) -> None:
    sql(f"CREATE DYNAMIC TABLE k22 (id INT) WITH ({_with(kafka.servers, **{'log.retention': '7 d'})})")
    admin, resource = AdminClient({"bootstrap.servers": kafka.servers}), ConfigResource(ResourceType.TOPIC, "n.k22")
    assert admin.describe_configs([resource])[resource].result()["retention.ms"].value == str(7 * 24 * 3_600_000)


def test_fl_068_without_a_key_messages_have_none(lake: Lakehouse, sql: Sql, kafka: KafkaServer) -> None:
    sql(f"CREATE DYNAMIC TABLE k68 (id INT, s TEXT) WITH ({_with(kafka.servers)}); INSERT INTO k68 VALUES (1, 'a')")
    lake.relay("n.k68")
    assert [(each.key, each.value["op"]) for each in _read(kafka, "n.k68")] == [(None, "c")]


def test_fl_069_the_key_is_json_and_decides_the_partition(lake: Lakehouse, sql: Sql, kafka: KafkaServer) -> None:
    options = _with(kafka.servers, bucket="4")
    sql(f"CREATE DYNAMIC TABLE k69 (a INT, b TEXT, c INT, PRIMARY KEY (a, b)) WITH ({options})")
    for text in ("x", "y"):
        sql("INSERT INTO k69 VALUES " + ", ".join(f"({number}, '{text}', 0)" for number in range(8)))
        sql("INSERT INTO k69 VALUES " + ", ".join(f"({number}, '{text}', 1)" for number in range(8)))
    lake.relay("n.k69")
    found = _read(kafka, "n.k69", 4)
    assert {tuple(each.key) for each in found} == {("a", "b")}
    places: dict[tuple[object, ...], set[int]] = {}
    for each in found:
        places.setdefault(tuple(each.key.values()), set()).add(each.partition)
    assert {len(each) for each in places.values()} == {1}
    assert len({each.partition for each in found}) > 1


@pytest.mark.parametrize("mode", ["upsert", "all"])
def test_fl_070_values_are_debezium_json(lake: Lakehouse, sql: Sql, kafka: KafkaServer, mode: str) -> None:
    name = f"k70_{mode}"
    options = _with(kafka.servers, **{"log.changelog-mode": mode})
    sql(f"CREATE DYNAMIC TABLE {name} (id INT PRIMARY KEY, s TEXT) WITH ({options})")
    lake.relay(f"n.{name}")
    sql(f"INSERT INTO {name} VALUES (1, 'a')")
    lake.relay(f"n.{name}")
    sql(f"UPDATE {name} SET s = 'b' WHERE id = 1; DELETE FROM {name} WHERE id = 1")
    lake.relay(f"n.{name}")
    first, second = {"id": 1, "s": "a"}, {"id": 1, "s": "b"}
    upsert = [(None, second, "c"), ({"id": 1}, None, "d")]
    every = [(first, second, "u"), (second, None, "d")]
    found = [(each.value["before"], each.value["after"], each.value["op"]) for each in _read(kafka, f"n.{name}")]
    assert found == [(None, first, "c"), *(upsert if mode == "upsert" else every)]


def _said(kafka: KafkaServer, topic: str) -> list[tuple[object, object, str]]:
    return [(each.value["before"], each.value["after"], each.value["op"]) for each in _read(kafka, topic)]


@pytest.mark.parametrize("key", [" PRIMARY KEY", ""])
@pytest.mark.parametrize("mode", ["auto", "upsert", "all"])
def test_fl_070_the_topic_begins_with_its_table(lake: Lakehouse, sql: Sql, kafka: KafkaServer, mode: str, key: str) -> None:
    """All that was written before the first relay is in it, flushed or not."""
    if not key and mode == "upsert":
        return
    name = f"k70_first_{mode}{'' if key else '_keyless'}"
    options = _with(kafka.servers, **{"log.changelog-mode": mode})
    sql(f"CREATE DYNAMIC TABLE {name} (id INT{key}, s TEXT) WITH ({options}); INSERT INTO {name} VALUES (1, 'a')")
    first, second = {"id": 1, "s": "a"}, {"id": 1, "s": "b"}
    expected: list[tuple[object, object, str]] = [(None, first, "c")]
    if key:
        assert [report.fault for report in lake.flush(f"n.{name}")] == [None]
        sql(f"UPDATE {name} SET s = 'b' WHERE id = 1")
        assert [report.fault for report in lake.flush(f"n.{name}")] == [None]
        sql(f"DELETE FROM {name} WHERE id = 1")
        expected += (
            [(first, second, "u"), (second, None, "d")] if mode == "all" else [(None, second, "c"), ({"id": 1}, None, "d")]
        )
    status = lake.topics.relay_status(f"n.{name}")
    assert status.lag > 0
    lake.relay(f"n.{name}")
    assert _said(kafka, f"n.{name}") == expected
    assert lake.topics.relay_status(f"n.{name}").lag == 0


def test_fl_070_a_topic_that_cannot_begin_with_its_table_begins_with_the_rows_of_now(
    lake: Lakehouse, sql: Sql, kafka: KafkaServer
) -> None:
    """The table was restored before the first relay, took over rows, or its relay is to begin elsewhere."""
    options = _with(kafka.servers, **{"log.changelog-mode": "all"})
    create = f"CREATE DYNAMIC TABLE {{}} (id INT PRIMARY KEY, s TEXT) WITH ({options})"
    sql(f"{create.format('k70_back')}; INSERT INTO k70_back VALUES (1, 'a'); STORAGE FLUSH TABLE n.k70_back")
    version = lake.table("n.k70_back").history()[0].version
    sql("UPDATE k70_back SET s = 'b' WHERE id = 1; STORAGE FLUSH TABLE n.k70_back")
    lake.restore("n.k70_back", version=version, dry_run=False)
    sql("INSERT INTO k70_back VALUES (2, 'c')")
    lake.relay("n.k70_back")
    sql("DELETE FROM k70_back WHERE id = 2")
    lake.relay("n.k70_back")
    one, two = {"id": 1, "s": "a"}, {"id": 2, "s": "c"}
    assert _said(kafka, "n.k70_back") == [(None, one, "c"), (None, two, "c"), (two, None, "d")]
    sql(f"{create.format('k70_latest')}; INSERT INTO k70_latest VALUES (1, 'a')")
    lake.relay("n.k70_latest", start="latest")
    sql("INSERT INTO k70_latest VALUES (2, 'c')")
    lake.relay("n.k70_latest")
    assert _said(kafka, "n.k70_latest") == [(None, two, "c")]
    sql("CREATE DYNAMIC TABLE k70_taken (id INT, s TEXT); INSERT INTO k70_taken VALUES (1, 'a')")
    warehouse = lake.warehouse
    place = Path(warehouse.target_of(warehouse.catalog.read(), lake.table("n.k70_taken").table, None).location.uri)
    sql("DROP TABLE k70_taken")
    shutil.rmtree(place)
    write_deltalake(place, pa.table({"id": pa.array([1], pa.int32()), "s": ["a"], "_seq": pa.array([None], pa.int64())}))
    sql(f"CREATE DYNAMIC TABLE IF NOT EXISTS k70_taken (id INT, s TEXT) WITH ({_with(kafka.servers)})")
    lake.relay("n.k70_taken")
    assert _said(kafka, "n.k70_taken") == [(None, one, "c")]


def _eventually(true: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < until
        time.sleep(0.2)


@pytest.mark.slow
def test_what_is_written_is_in_the_topic_wherever_a_server_runs(
    warehouse_uri: str, kafka: KafkaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through two servers at once, a broker that goes away and comes back, and a command: each change once."""

    def lag() -> object:
        with pytest.raises(SystemExit, match="0"):
            main(["--warehouse", warehouse_uri, "--format", "json", "status", "--all"])
        rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)
        return next(row["lag"] for row in rows if "topic" in row)

    def said() -> list[str]:
        return [each.value["op"] for each in _read(kafka, "n.served")]

    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql("CREATE NAMESPACE n")
        tokens = {"root": operator_token(lake.warehouse, "root", "system", timedelta(hours=1))}
        options = _with(kafka.away, **{"log.changelog-mode": "all", "log.kafka.socket.timeout.ms": "2000"})
        with served(warehouse_uri, tokens, environment=os.environ) as one, served(warehouse_uri, tokens, environment=os.environ):
            client = one.client("root")

            def sql(text: str) -> None:
                assert client.post("/v1/api/sql", json={"sql": text}).status_code == 200

            sql(f"CREATE DYNAMIC TABLE n.served (id INT PRIMARY KEY, s TEXT) WITH ({options})")
            sql("INSERT INTO n.served VALUES (1, 'a'); UPDATE n.served SET s = 'b' WHERE id = 1")
            _eventually(lambda: said() == ["c", "u"])
            with kafka.line.cut("refused"):
                sql("DELETE FROM n.served WHERE id = 1")
                time.sleep(3)
                assert client.get("/ready").status_code == 200, "a broker that is away stops no server"
                assert lag() is None, "and the status says why"
                assert said() == ["c", "u"]
            _eventually(lambda: said() == ["c", "u", "d"])
            words = [str(Path(sys.executable).parent / "lakewarden"), "--warehouse", warehouse_uri, "relay", "--follow"]
            with subprocess.Popen([*words, "n.served"]) as third, subprocess.Popen(words) as fourth:
                lake.relay("n.served")
                sql("INSERT INTO n.served VALUES (2, 'a')")
                _eventually(lambda: said() == ["c", "u", "d", "c"])
                time.sleep(5)
                sql("INSERT INTO n.served VALUES (3, 'a')")
                _eventually(lambda: said() == ["c", "u", "d", "c", "c"])
                assert lag() == 0
                assert (third.poll(), fourth.poll()) == (None, None), "one that stands by goes on"
                third.terminate()
                fourth.terminate()
                assert (third.wait(PATIENCE), fourth.wait(PATIENCE)) == (0, 0)


def test_fl_071_replayed_duplicates_end_in_the_right_state(lake: Lakehouse, sql: Sql, kafka: KafkaServer) -> None:
    options = _with(kafka.servers, **{"log.consistency": "eventual", "log.changelog-mode": "upsert"})
    sql(f"CREATE DYNAMIC TABLE k71 (id INT PRIMARY KEY, s TEXT) WITH ({options})")
    sql("CREATE DYNAMIC TABLE k71_copy (id INT PRIMARY KEY, s TEXT)")
    lake.relay("n.k71")
    for _ in range(2):  # a writer that died, and says it all again
        sql("INSERT INTO k71 VALUES (1, 'a'), (2, 'a'); INSERT INTO k71 VALUES (1, 'b')")
    lake.relay("n.k71")
    lake.consume("n.k71_copy", "n.k71", brokers=kafka.servers)
    assert sorted(tuple(row.values()) for row in lake.table("n.k71_copy").read().to_pylist()) == [(1, "b"), (2, "a")]


@pytest.mark.slow
def test_fl_020_a_drop_whose_broker_is_away_finishes_when_it_is_back(lake: Lakehouse, sql: Sql, kafka: KafkaServer) -> None:
    options = _with(kafka.away, **{"log.kafka.socket.timeout.ms": "2000"})
    sql(f"CREATE DYNAMIC TABLE k20_away (id INT PRIMARY KEY) WITH ({options})")
    with kafka.line.cut("refused"):
        with pytest.raises(StorageUnavailable, match="could not be reached"):
            sql("DROP TABLE k20_away")
        with pytest.raises(NotFound):
            lake.table("n.k20_away")
    sql(f"CREATE DYNAMIC TABLE k20_away (id INT PRIMARY KEY) WITH ({_with(kafka.away)})")
    sql("DROP TABLE k20_away")
    assert partitions_of(Topic(kafka.broker, "n.k20_away")) is None


def test_one_process_relays_every_table_with_a_topic_and_one_that_fails_stops_no_other(
    warehouse_uri: str, kafka: KafkaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def made(name: str) -> str:
        topic = {"log.kafka.topic": f"every.{Path(warehouse_uri).parent.name}.{name}"}
        lake.sql(f"CREATE DYNAMIC TABLE n.{name} (id INT PRIMARY KEY) WITH ({_with(kafka.servers, **topic)})")
        lake.sql(f"INSERT INTO n.{name} VALUES (1)")
        return topic["log.kafka.topic"]

    lake = Lakehouse.open(warehouse_uri)
    lake.sql("CREATE NAMESPACE n; CREATE TABLE n.plain (id INT PRIMARY KEY); INSERT INTO n.plain VALUES (1)")
    topics, every = [made("one"), made("two")], lake.topics.relay_every
    assert [(str(each.table), each.report and each.report.messages) for each in every()] == [("n.one", 1), ("n.two", 1)]
    topics.append(made("three"))
    lake.sql("INSERT INTO n.one VALUES (2); DROP TABLE n.two")
    assert [(str(each.table), each.report and each.report.messages) for each in every()] == [("n.one", 1), ("n.three", 1)]
    lake.restore("n.one", version=0, dry_run=False)
    lake.sql("INSERT INTO n.three VALUES (2)")
    for messages in (1, 0):
        first, second = every()
        assert isinstance(first.error, Ended), "a relay that ended is not begun again"
        assert second.report is not None
        assert second.report.messages == messages
    lake.sql("INSERT INTO n.three VALUES (3)")
    words = ["--warehouse", warehouse_uri, "--format", "json", "relay"]
    with pytest.raises(SystemExit, match="1"):
        main(words)
    shown = capsys.readouterr()
    assert [(row["table"], row["messages"]) for row in json.loads(shown.out.splitlines()[0])] == [("n.three", 1)]
    assert "n.one" in shown.err
    with pytest.raises(SystemExit, match="1"):
        main([*words, "--topic", topics[0]])
    assert len(_read(kafka, topics[2])) == 3
