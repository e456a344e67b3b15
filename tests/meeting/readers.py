"""What each reader finds when all is flushed, and all changes are carried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import httpx

from lakewarden.base.setting_sections import SparkSettings
from lakewarden.client import Lakehouse
from lakewarden.spark import register
from lakewarden.spark.session import start_session
from lakewarden.storage.kafka_topics import Topic
from tests.meeting.writes import TABLE, Row
from tests.serve.kills.readers import changes_of, delta_table, duckdb_rows, folded
from tests.storage.kafka.topics import committed

Rows = Iterable[Mapping[str, object]]


def readings(lake: Lakehouse, servers: Sequence[httpx.Client], feed: Rows, sent: Rows) -> dict[str, Counter[Row]]:
    """By reader; the strong read is the first.

    Args:
        feed: the change feed from its first change.
        sent: the changes in the topic.
    """
    delta = delta_table(lake, TABLE, None)
    found: dict[str, Rows] = {
        "strong read": lake.table(TABLE).read().to_pylist(),
        "delta-rs": delta.to_pyarrow_table().to_pylist(),
        "DuckDB": duckdb_rows(delta),
        "folded feed": folded(feed),
        "folded topic": folded(sent),
        **{f"HTTP at {server.base_url}": _http(server) for server in servers},
        **dict(_spark(lake.warehouse.uri, delta.table_uri)),
    }
    return {name: Counter((row["id"], row["value"]) for row in rows) for name, rows in found.items()}


def differences(found: Mapping[str, Counter[Row]]) -> Iterator[tuple[str, str]]:
    """Of each reader from the first."""
    first, *others = found
    for name in others:
        more, less = found[name] - found[first], found[first] - found[name]
        if more or less:
            yield name, f"{sorted(more.items())} too many, {sorted(less.items())} missing beside the {first}"


def times_of(changes: Rows) -> Counter[Row]:
    """How often each was heard: the id and the value behind it, None for a delete."""
    after = [change for change in changes if change["_change_type"] != "update_preimage"]
    return Counter((change["id"], None if change["_change_type"] == "delete" else change["value"]) for change in after)


def feed_of(lake: Lakehouse) -> list[Mapping[str, object]]:
    return [*changes_of(lake, TABLE, None)]


def sent_to(topic: Topic) -> list[Mapping[str, object]]:
    """What other consumers find in the topic, as the change feed has it."""
    return [_change(each.key["id"], each.value) for each in committed(topic.broker.servers, topic.name)]


def _change(key: object, envelope: Mapping[str, object]) -> Mapping[str, object]:
    after = envelope["after"]
    return {**after, "_change_type": "update_postimage"} if isinstance(after, Mapping) else {"id": key, "_change_type": "delete"}


def _http(server: httpx.Client) -> Rows:
    answer = server.post("/v1/api/sql", json={"sql": f"SELECT id, value FROM {TABLE}"})
    assert answer.status_code == 200, answer.text
    rows: list[Mapping[str, object]] = answer.json()["results"][0]["rows"]
    return rows


def _spark(warehouse: str, scope: str) -> Iterator[tuple[str, Rows]]:
    """Through Lakewarden's source, and Delta's own."""
    spark = start_session(SparkSettings(driver_memory="512m"))
    register(spark, warehouse)
    frames = {
        "Spark": spark.read.format("lakewarden").option("table", TABLE).load(),
        "Spark, of Delta": spark.read.format("delta").load(scope),
    }
    for name, frame in frames.items():
        yield name, [row.asDict() for row in frame.select("id", "value").collect()]
    spark.stop()
