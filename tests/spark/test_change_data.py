"""Delta's change data feed with Spark: what its reader finds of our commits, and what flushes that Spark does write for it."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.setting_sections import FlushSettings
from lakewarden.base.settings import Settings
from lakewarden.storage.location import join
from tests.fixtures.change_data import Change, Values, applied, counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.disk

_COLUMNS = ("id", "v", "p")


@pytest.fixture
def lake(warehouse_uri: str, spark: SparkSession) -> Iterator[Lakehouse]:
    large = Settings(flush=FlushSettings(large_scope_bytes=1))
    with Lakehouse.open(warehouse_uri, settings=large, spark=lambda: spark) as opened:
        opened.create_namespace("n")
        yield opened


def _read(spark: SparkSession, uri: str, since: int) -> dict[int, list[Change]]:
    """The changes of each version, as Spark reads them."""
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", since).load(uri)
    found: dict[int, list[Change]] = defaultdict(list)
    for row in feed.select("_commit_version", "_change_type", *_COLUMNS).collect():
        found[row[0]].append((row[1], tuple(row[2:])))
    return found


def test_flushes_in_spark_say_what_they_change(lake: Lakehouse, spark: SparkSession) -> None:
    columns = [Column("id", "INT"), Column("v", "INT"), Column("p", "TEXT")]
    options = {"CHANGE_DATA_FEED": "on"}
    table = lake.create_table("n.keyed", type="SHARED", columns=columns, primary_key=["id"], partition_by=["p"], options=options)
    choose, model = random.Random(5), dict[int, Values]()
    states: dict[int, Counter[Values]] = {}
    for step in range(2):
        given = {key: (key, step, choose.choice("xy")) for key in choose.sample(range(40), 15)}
        gone = choose.sample(range(40), 5)
        table.write([dict(zip(_COLUMNS, row, strict=True)) for row in given.values()])
        table.delete([{"id": key} for key in gone])
        model = {key: row for key, row in (model | given).items() if key not in gone}
        assert lake.flush("n.keyed")[0].outcome == "done"
        states[table.history(limit=1)[0].version] = Counter(model.values())
    changes = _read(spark, join(lake.warehouse.uri, "data/n/keyed"), min(states))
    before = Counter[Values]()
    for version, rows in states.items():
        assert applied(before, changes[version]) == rows
        before = rows
    assert {"insert", "update_preimage", "update_postimage", "delete"} == counted(changes[max(states)]).keys()


def test_spark_reads_what_direct_writes_change(lake: Lakehouse, spark: SparkSession) -> None:
    lake.sql("CREATE SHARED TABLE n.plain (id INT, v INT, p TEXT) PARTITION BY (p) WITH (CHANGE_DATA_FEED = on)")
    lake.sql("INSERT INTO n.plain VALUES (1, 1, 'x'), (2, 2, 'x'), (3, 3, 'y')")
    uri = join(lake.warehouse.uri, "data/n/plain")
    first = lake.table("n.plain").history(limit=1)[0].version
    lake.sql("UPDATE n.plain SET p = 'z' WHERE id = 1")
    lake.sql("DELETE FROM n.plain WHERE id = 2")
    lake.sql("INSERT OVERWRITE n.plain VALUES (4, 4, 'x')")
    lake.restore("n.plain", version=first, dry_run=False)
    changes = _read(spark, uri, first)
    assert [sorted(changes[version]) for version in range(first + 1, first + 4)] == [
        [("update_postimage", (1, 1, "z")), ("update_preimage", (1, 1, "x"))],
        [("delete", (2, 2, "x"))],
        [("delete", (1, 1, "z")), ("delete", (3, 3, "y")), ("insert", (4, 4, "x"))],
    ]
    assert applied(Counter([(4, 4, "x")]), changes[first + 4]) == Counter([(1, 1, "x"), (2, 2, "x"), (3, 3, "y")])
