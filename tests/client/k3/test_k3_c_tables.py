"""K3.C: tables of a bucket."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from lakewarden import Lakehouse
from lakewarden.client.k3 import K3
from lakewarden.errors import AlreadyExists, InvalidArgument
from tests.client.k3.tables import BUCKET, COLUMNS, column, event, kinds, make, run, strategy, version

FIELDS = {
    *("tableId", "bucket", "engineId", "name", "description", "columns", "partitionColumns", "mergeKeys", "source"),
    *("deltaVersion", "rowCount", "sizeBytes", "status", "createdAt", "updatedAt", "pipelineId"),
}


def place(lake: Lakehouse, table: str) -> Path:
    return Path(lake.warehouse.uri) / "data" / BUCKET / table


def test_k3_018_a_table_in_full(k3: K3) -> None:
    table = k3.get_table(BUCKET, make(k3, "whole"))
    assert table.keys() == FIELDS
    assert str(table["tableId"]).startswith("tbl_")
    assert table["engineId"] == k3.get_engine(BUCKET)["engineId"]
    assert table["columns"] == [
        {"name": each["name"], "type": each["type"], "nullable": each["nullable"], "defaultExpression": ""} for each in COLUMNS
    ]
    assert (table["mergeKeys"], table["partitionColumns"]) == (["id", "user_id"], [])
    assert table in k3.list_tables(BUCKET)


def test_k3_019_a_manual_table_is_there_at_version_0(k3: K3, lake: Lakehouse) -> None:
    table = k3.create_table(BUCKET, "manual", COLUMNS, merge_keys=["id", "user_id"])
    shown = {name: table[name] for name in ("source", "deltaVersion", "status", "pipelineId", "rowCount")}
    assert shown == {
        "source": "TABLE_SOURCE_MANUAL",
        "deltaVersion": "0",
        "status": "TABLE_STATUS_ACTIVE",
        "pipelineId": "",
        "rowCount": "0",
    }
    assert DeltaTable(str(place(lake, "manual"))).version() == 0
    assert k3.list_rules(BUCKET) == []


def test_k3_020_a_table_needs_columns(k3: K3) -> None:
    with pytest.raises(InvalidArgument, match="columns is empty"):
        k3.create_table(BUCKET, "none", [])
    with pytest.raises(InvalidArgument, match="columns is empty"):
        k3.create_table(BUCKET, "none")


def test_k3_021_a_name_is_taken_once(k3: K3) -> None:
    before = k3.get_table(BUCKET, make(k3, "taken"))
    with pytest.raises(AlreadyExists):
        k3.create_table(BUCKET, "taken", [column("other", "INT")])
    assert k3.get_table(BUCKET, "taken") == before
    with pytest.raises(InvalidArgument, match="twice"):
        k3.create_table(BUCKET, "twice", [column("a", "INT"), column("A", "INT")])


def test_k3_027_merge_keys_are_a_composite_key(k3: K3) -> None:
    make(k3, "composite")
    k3.insert(BUCKET, "composite", [event(1, "a", "u"), event(1, "b", "v")])
    k3.insert(BUCKET, "composite", [event(1, "c", "u")])
    found = run(k3, "SELECT user_id, event_type FROM composite ORDER BY user_id")["rows"]
    assert [(row["user_id"], row["event_type"]) for row in found] == [("u", "c"), ("v", "b")]
    refused: Mapping[str, list[str]] = {"not a column": ["nothing"], "nullable": ["event_type"], "JSON": ["doc"]}
    for why, keys in refused.items():
        with pytest.raises(InvalidArgument, match=why):
            k3.create_table(BUCKET, "bad_key", [*COLUMNS, column("doc", "JSON", nullable=False)], merge_keys=keys)


def test_k3_028_a_condition_on_the_keys_goes_through_the_log_and_any_other_into_delta(k3: K3) -> None:
    make(k3, "planned")
    k3.insert(BUCKET, "planned", [event(1), event(2)])
    k3.compact(BUCKET, "planned")
    by_key = k3.update(BUCKET, "planned", {"event_type": "x"}, "id = 1 AND user_id = 'u'")
    assert (strategy(by_key), by_key["pendingDrain"], version(k3, "planned")) == ("KEYED_UPDATE", True, 1)
    by_other = k3.update(BUCKET, "planned", {"event_type": "y"}, "event_type = 'click' AND id = 2")
    assert (strategy(by_other), by_other["pendingDrain"], version(k3, "planned")) == ("NON_KEYED_UPDATE", False, 2)


def test_k3_029_partition_columns_are_directories(k3: K3, lake: Lakehouse) -> None:
    make(k3, "parted", parted=True)
    k3.insert(BUCKET, "parted", [event(1, "click"), event(2, "buy now"), event(3, None)])
    k3.compact(BUCKET, "parted")
    there = {path.name for path in place(lake, "parted").iterdir() if path.is_dir() and "=" in path.name}
    assert there == {"event_type=click", "event_type=buy%20now", "event_type=__HIVE_DEFAULT_PARTITION__"}
    for why, name in {"no(t there| column)|there is no|not there": "nothing", "JSON": "payload"}.items():
        with pytest.raises(InvalidArgument, match=why):
            k3.create_table(BUCKET, "bad_part", COLUMNS, partition_columns=[name])
    with pytest.raises(InvalidArgument, match="FLOAT"):
        k3.create_table(BUCKET, "bad_part", [column("f", "FLOAT"), *COLUMNS], partition_columns=["f"])


def test_k3_030_a_condition_on_the_partition_reads_its_files_only(k3: K3, lake: Lakehouse) -> None:
    make(k3, "pruned", parted=True)
    k3.insert(BUCKET, "pruned", [event(1, "click"), event(2, "buy")])
    k3.compact(BUCKET, "pruned")
    for path in place(lake, "pruned").glob("event_type=buy/*.parquet"):
        path.unlink()
    with Lakehouse.open(lake.warehouse.uri) as fresh:  # nothing of it is kept in memory
        rows = run(fresh.k3, "SELECT id FROM pruned WHERE event_type = 'click'", "FRESHNESS_EVENTUAL")["rows"]
    assert rows == [{"id": 1}]


def test_k3_031_a_keyed_write_that_changes_the_partition_moves_the_row(k3: K3, lake: Lakehouse) -> None:
    make(k3, "moving", parted=True)
    k3.insert(BUCKET, "moving", [event(1, "click"), event(2, "click")])
    k3.compact(BUCKET, "moving")
    k3.insert(BUCKET, "moving", [event(1, "buy")])
    k3.update(BUCKET, "moving", {"event_type": "sell"}, "id = 2 AND user_id = 'u'")
    k3.compact(BUCKET, "moving")
    assert kinds(k3, "moving", "EVENTUAL") == {1: "buy", 2: "sell"}
    theirs = DeltaTable(str(place(lake, "moving"))).to_pyarrow_table().to_pylist()
    assert {(row["id"], row["event_type"]) for row in theirs} == {(1, "buy"), (2, "sell")}
    assert len(theirs) == 2


def test_k3_032_the_version_advances_with_each_commit_and_not_without(k3: K3) -> None:
    make(k3, "versions")
    seen = [version(k3, "versions")]

    def note() -> None:
        seen.append(version(k3, "versions"))

    for number in range(3):
        k3.insert(BUCKET, "versions", [event(number)])
        k3.compact(BUCKET, "versions")
        note()
    k3.optimize(BUCKET, "versions")
    note()
    assert k3.optimize(BUCKET, "versions")["partitionsOptimized"] == "0"
    assert version(k3, "versions") == seen[-1], "an optimize with nothing to do makes no commit"
    k3.vacuum(BUCKET, "versions", retention_hours=0, force=True)
    note()
    k3.vacuum(BUCKET, "versions")
    note()
    k3.execute(BUCKET, "ALTER TABLE versions ADD COLUMN n INT")
    note()
    k3.insert(BUCKET, "versions", [event(3)])
    k3.compact(BUCKET, "versions")
    note()
    k3.restore(BUCKET, "versions", seen[-2])
    note()
    assert seen == sorted(set(seen))


def test_k3_033_rows_and_bytes_are_those_of_the_last_drain(k3: K3, lake: Lakehouse) -> None:
    make(k3, "sized")
    k3.insert(BUCKET, "sized", [event(1), event(2)])
    k3.compact(BUCKET, "sized")
    k3.insert(BUCKET, "sized", [event(3)])
    k3.delete_rows(BUCKET, "sized", "id = 1 AND user_id = 'u'")
    table = k3.get_table(BUCKET, "sized")
    adds = DeltaTable(str(place(lake, "sized"))).get_add_actions(flatten=True)
    size = pc.sum(pa.table(adds)["size_bytes"]).as_py()
    assert (table["rowCount"], table["sizeBytes"]) == ("2", str(size))
    k3.compact(BUCKET, "sized")
    assert k3.get_table(BUCKET, "sized")["rowCount"] == "2"


def test_k3_034_a_description_is_kept(k3: K3) -> None:
    k3.create_table(BUCKET, "described", COLUMNS, description="Click + purchase events")
    assert k3.get_table(BUCKET, "described")["description"] == "Click + purchase events"
