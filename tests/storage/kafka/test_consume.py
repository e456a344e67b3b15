"""From a topic into a table: each message once, whatever dies; what does not fit is a reject."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from lakewarden import Column, Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.cli.main import main
from lakewarden.errors import Conflict, FailedPrecondition, InvalidArgument, LostPlace, NotFound
from lakewarden.ingest.consume import ConsumeRequest, consuming
from lakewarden.ingest.record_formats import ValueFormat
from lakewarden.ingest.topic_report import ConsumeReport
from lakewarden.storage.kafka_topics import Broker, Topic, create_topic, delete_topic
from lakewarden.tables.dynamic import StreamingWriter, give_back, holder_of, take_place
from tests.fixtures.children import KILLED, exit_status, killed_at
from tests.fixtures.kafka import KafkaServer
from tests.storage.kafka.topics import topic_for

NAME = TableName("n", "t")
_KEYLESS = [Column("id", "BIGINT", nullable=False), Column("text", "TEXT"), Column("data", "BYTES"), Column("x", "DOUBLE")]


@pytest.fixture
def lake(warehouse_uri: str) -> Lakehouse:
    lake = Lakehouse.open(warehouse_uri)
    lake.create_namespace("n")
    return lake


@pytest.fixture
def topic(kafka: KafkaServer, request: pytest.FixtureRequest) -> Topic:
    made = topic_for(kafka, request)
    create_topic(made, 1, None)
    return made


def send(topic: Topic, values: Sequence[object], keys: Sequence[object] = (), partition: int = 0) -> None:
    """Another program's producer."""
    producer = Producer({"bootstrap.servers": topic.broker.servers})
    for at, value in enumerate(values):
        key = json.dumps(keys[at]).encode() if keys else None
        data = value if isinstance(value, bytes) else None if value is None else json.dumps(value).encode()
        producer.produce(topic.name, data, key, partition)
    assert producer.flush() == 0


def created(row: Mapping[str, object]) -> dict[str, object]:
    return {"before": None, "after": row, "op": "c"}


def take(lake: Lakehouse, topic: Topic, format: ValueFormat = "debezium-json", *, skip_lost: bool = False) -> ConsumeReport:
    return lake.consume("n.t", topic.name, brokers=topic.broker.servers, format=format, skip_lost=skip_lost)


def ids(lake: Lakehouse) -> list[int]:
    return sorted(lake.table("n.t").read().column("id").to_numpy())


def _consume(uri: str, servers: str, name: str, place: str = "", batch_messages: int = 4) -> None:
    request = ConsumeRequest(NAME, Topic(Broker.at(servers), name), "json", batch_messages=batch_messages)
    with consuming(Lakehouse.open(uri).warehouse, request, killed_at(place)) as consumer:
        consumer.look()


def test_a_message_is_a_row_once(lake: Lakehouse, topic: Topic) -> None:
    lake.create_table("n.t", columns=_KEYLESS)
    send(topic, [created({"id": 1, "text": "a", "data": "AAE=", "x": "NaN"}), created({"id": 2, "x": 1.5})])
    first = take(lake, topic)
    assert (first.messages, first.written, first.removed, first.rejected, first.lag) == (2, 2, 0, 0, 0)
    assert take(lake, topic).messages == 0
    rows = sorted(lake.table("n.t").read().to_pylist(), key=lambda row: row["id"])
    assert (rows[0]["text"], rows[0]["data"], str(rows[0]["x"])) == ("a", b"\0\1", "nan")
    assert rows[1] == {"id": 2, "text": None, "data": None, "x": 1.5}


def test_what_was_not_committed_is_not_taken(lake: Lakehouse, topic: Topic) -> None:
    lake.create_table("n.t", columns=_KEYLESS)
    producer = Producer({"bootstrap.servers": topic.broker.servers, "transactional.id": topic.name})
    producer.init_transactions()
    for number, end in ((1, producer.abort_transaction), (2, producer.commit_transaction), (3, producer.flush)):
        producer.begin_transaction()
        producer.produce(topic.name, json.dumps({"id": number}))
        producer.flush()
        end()
    assert take(lake, topic, "json").messages == 1
    assert ids(lake) == [2]
    producer.commit_transaction()
    take(lake, topic, "json")
    assert ids(lake) == [2, 3]


@pytest.mark.parametrize("key", [[], ["id"]])
@pytest.mark.parametrize("place", ["consume:rejected", "consume:taken"])
def test_a_death_at_any_step_leaves_each_message_once(lake: Lakehouse, topic: Topic, place: str, key: list[str]) -> None:
    lake.create_table("n.t", columns=_KEYLESS, primary_key=key)
    send(topic, [{"id": 1}, b"no JSON", {"id": 2}])
    assert exit_status(_consume, lake.warehouse.uri, topic.broker.servers, topic.name, place) == KILLED
    send(topic, [{"id": 3}, {"id": "not a number"}, {"id": 4}, {"id": 5}])  # the next batch has others than the one that died
    assert exit_status(_consume, lake.warehouse.uri, topic.broker.servers, topic.name, "", 5) == 0
    assert ids(lake) == [1, 2, 3, 4, 5]
    rejects = lake.table("n.t_rejects").read().sort_by("object")
    assert rejects.column("object").to_pylist() == [f"{topic.name}/0/1", f"{topic.name}/0/4"]
    assert "not JSON" in rejects.column("error")[0].as_py()
    assert "not a number" in rejects.column("error")[1].as_py()


def test_rows_of_messages_come_with_those_before_them(lake: Lakehouse, topic: Topic) -> None:
    lake.create_table("n.t", columns=_KEYLESS, primary_key=["id"], dynamic=True, options={"log.changelog-mode": "all"})
    for text in ("a", "b"):
        send(topic, [{"id": 1, "text": text}])
        take(lake, topic, "json")
    found = lake.table("n.t").changes(after=-1).rows.to_pylist()
    assert [(row["_change_type"], row["text"]) for row in found] == [
        ("insert", "a"),
        ("update_preimage", "a"),
        ("update_postimage", "b"),
    ]


def test_what_a_table_without_a_key_cannot_take_is_a_reject(lake: Lakehouse, topic: Topic) -> None:
    lake.create_table("n.t", columns=_KEYLESS)
    row = {"id": 1}
    bad: list[object] = [
        {"before": row, "after": row, "op": "u"},
        {"before": row, "after": None, "op": "d"},
        {"op": "t"},
        {"op": "c", "after": 7},
        {"op": "c", "after": {"id": 1, "unknown": 2}},
        {"op": "c", "after": {"id": None}},
        [1],
        b"\xff",
        b"[" * 100_000,
    ]
    send(topic, [*bad, None, created(row), {"schema": {}, "payload": created({"id": 2})}])
    made = take(lake, topic)
    assert (made.written, made.rejected) == (2, len(bad) + 1)
    assert ids(lake) == [1, 2]


def test_changes_of_a_table_with_a_key_are_taken_in_order(lake: Lakehouse, topic: Topic) -> None:
    lake.create_table("n.t", columns=_KEYLESS, primary_key=["id"])
    rows = [{"id": number, "text": text} for number, text in ((1, "a"), (2, "a"), (3, "a"), (1, "b"), (9, "b"))]
    values: list[object] = [*map(created, rows[:3])]
    values += [{"before": rows[0], "after": rows[3], "op": "u"}, {"before": {"id": 2}, "after": None, "op": "d"}]
    values += [{"before": rows[2], "after": rows[4], "op": "u"}, {"before": {"id": 9}, "after": {"id": "x"}, "op": "u"}]
    send(topic, [*values, None, None, b"{}"], [{"id": 0}] * 7 + [{"id": 4}, None, {"id": 4}])
    made = take(lake, topic)
    assert (made.messages, made.rejected) == (10, 3)
    found = {row["id"]: row["text"] for row in lake.table("n.t").read().to_pylist()}
    assert found == {1: "b", 9: "b"}


def test_old_messages_do_not_come_back_over_newer_rows(lake: Lakehouse, topic: Topic) -> None:
    lake.create_table("n.t", columns=_KEYLESS, primary_key=["id"])
    send(topic, [{"id": 1, "text": "from the topic"}])
    take(lake, topic, "json")
    lake.table("n.t").write([{"id": 1, "text": "newer"}])
    lake.flush("n.t")
    take(lake, topic, "json")
    assert lake.table("n.t").read().column("text").to_pylist() == ["newer"]


def test_messages_name_their_users(lake: Lakehouse, topic: Topic) -> None:
    lake.create_table("n.t", type="USER", columns=_KEYLESS, primary_key=["id"])
    rows: list[object] = [created({"_user": user, "id": 1, "text": user}) for user in ("ann", "bob")]
    send(topic, [*rows, created({"id": 2}), {"before": {"_user": "bob", "id": 1}, "after": None, "op": "d"}])
    made = take(lake, topic)
    assert (made.written, made.removed, made.rejected) == (2, 1, 1)
    assert lake.table("n.t").read(user="ann").column("text").to_pylist() == ["ann"]
    assert lake.table("n.t").read(user="bob").num_rows == 0


def test_two_ingests_at_once_take_each_message_once(lake: Lakehouse, topic: Topic) -> None:
    lake.create_table("n.t", columns=_KEYLESS)
    send(topic, [{"id": number} for number in range(6)])
    mine = ConsumeRequest(NAME, topic, "json", batch_messages=4)
    theirs = ConsumeRequest(NAME, topic, "json", batch_messages=3)
    met: list[ConsumeReport] = []

    def meet(place: str) -> None:
        if place == "consume:rejected" and not met:
            with consuming(lake.warehouse, theirs) as other:
                met.append(other.look())

    with consuming(lake.warehouse, mine, meet) as consumer:
        consumer.look()
    assert ids(lake) == list(range(6))
    assert met[0].messages == 6


def test_messages_that_expired_are_not_passed_over_in_silence(lake: Lakehouse, topic: Topic) -> None:
    lake.create_table("n.t", columns=_KEYLESS)
    send(topic, [{"id": 1}])
    take(lake, topic, "json")
    send(topic, [{"id": 2}, {"id": 3}])
    _expire(topic, 2)
    with pytest.raises(FailedPrecondition, match="skip_lost"):
        take(lake, topic, "json")
    take(lake, topic, "json", skip_lost=True)
    assert ids(lake) == [1, 3]


def _expire(topic: Topic, before: int) -> None:
    from confluent_kafka import TopicPartition

    admin = AdminClient({"bootstrap.servers": topic.broker.servers})
    for gone in admin.delete_records([TopicPartition(topic.name, 0, before)]).values():
        gone.result()


def test_a_topic_made_again_is_another_source_and_partitions_may_come(lake: Lakehouse, topic: Topic) -> None:
    lake.create_table("n.t", columns=_KEYLESS)
    send(topic, [{"id": 1}])
    take(lake, topic, "json")
    delete_topic(topic)
    create_topic(topic, 1, None)
    admin = AdminClient({"bootstrap.servers": topic.broker.servers})
    admin.create_partitions([NewPartitions(topic.name, 2)])[topic.name].result()
    send(topic, [{"id": 2}])
    send(topic, [{"id": 3}], partition=1)
    take(lake, topic, "json")
    assert ids(lake) == [1, 2, 3]


def test_the_command_says_what_was_taken(lake: Lakehouse, topic: Topic, capsys: pytest.CaptureFixture[str]) -> None:
    lake.create_table("n.t", columns=_KEYLESS)
    send(topic, [{"id": 1}, b"no JSON"])
    words = ["--warehouse", lake.warehouse.uri, "--format", "json", "consume", "n.t", topic.name]
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--brokers", topic.broker.servers, "--value-format", "json", "--client", "client.id=a"])
    (row,) = json.loads(capsys.readouterr().out)
    assert {name: row[name] for name in ("messages", "written", "rejected", "lag")} == {
        "messages": 2,
        "written": 1,
        "rejected": 1,
        "lag": 0,
    }


@pytest.mark.disk
def test_the_command_stops_behind_a_repair_that_lost_rows_until_it_is_told(
    lake: Lakehouse, topic: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.create_table("n.t", columns=_KEYLESS)
    send(topic, [{"id": 1}, {"id": 2}])
    take(lake, topic, "json")
    (file,) = Path(lake.warehouse.uri).glob("data/n/t/*.parquet")
    file.unlink()
    assert [one for one in lake.repair("n.t") if one.writers_uncertain]
    words = ["--warehouse", lake.warehouse.uri, "--format", "json", "consume", "n.t", topic.name]
    words += ["--brokers", topic.broker.servers, "--value-format", "json"]
    with pytest.raises(SystemExit, match="1"):
        main(words)
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "FAILED_PRECONDITION"
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--resume", "repeat"])
    assert ids(lake) == [1, 2]
    assert take(lake, topic, "json").messages == 0


def test_what_does_not_exist_is_refused(lake: Lakehouse, topic: Topic) -> None:
    lake.create_table("n.t", columns=_KEYLESS)
    with pytest.raises(NotFound, match="topic no-such"):
        lake.consume("n.t", "no-such", brokers=topic.broker.servers)
    with pytest.raises(InvalidArgument, match="debezium-json or json"):
        lake.consume("n.t", topic.name, brokers=topic.broker.servers, format="avro")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="SHARED"):
        lake.consume("n.t", topic.name, brokers=topic.broker.servers, user="u_1")


def test_an_ingest_into_a_dynamic_table_is_its_one_stream(lake: Lakehouse, topic: Topic) -> None:
    lake.sql("CREATE DYNAMIC TABLE n.t (id INT PRIMARY KEY, text TEXT)")
    catalog, stream = lake.warehouse.catalog, f"topic {topic.name}"
    with lake.topics.consuming("n.t", topic.name, brokers=topic.broker.servers) as consumer:
        with pytest.raises(Conflict, match=f"streaming writer already, {stream}"):
            StreamingWriter.take(catalog, NAME, "other")
        send(topic, [created({"id": 1, "text": "x"})])
        assert consumer.look().written == 1
        give_back(catalog, NAME, stream)  # as where it was paused
        other = take_place(lake.warehouse, catalog.read().tables[NAME], "other")
        send(topic, [created({"id": "no number"}), created({"id": 2, "text": "y"})])
        with pytest.raises(LostPlace, match=f"{stream} .* to other"):
            consumer.look()
        assert [row["id"] for row in lake.table("n.t").read().to_pylist()] == [1]
        assert TableName("n", "t_rejects") not in catalog.read().tables, "nothing of it was written, rejects neither"
    assert other is not None
    other.writer.release(catalog)
    report = take(lake, topic)
    assert (report.written, report.rejected) == (1, 1)
    assert holder_of(catalog, NAME) is None
