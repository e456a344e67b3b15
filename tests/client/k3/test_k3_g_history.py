"""K3.G: history and time travel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from lakewarden import Lakehouse
from lakewarden.client.k3 import K3
from lakewarden.errors import InvalidArgument, LakewardenError
from tests.client.k3.tables import BUCKET, event, kinds, make, version

FIELDS = {
    *("version", "timestamp", "operation", "parameters"),
    *("operationMetrics", "userMetadata", "engineInfo", "readVersion"),
}


def place(lake: Lakehouse, table: str) -> Path:
    return Path(lake.warehouse.uri) / "data" / BUCKET / table


@pytest.fixture(scope="module")
def table(k3: K3) -> str:
    """Created, written by key three times, updated and deleted past the keys, optimized, vacuumed, restored."""
    make(k3, "events")
    for number in range(4):
        k3.insert(BUCKET, "events", [event(number)])
        k3.compact(BUCKET, "events")
    k3.insert(BUCKET, "events", [event(0, "x"), event(9)])
    k3.compact(BUCKET, "events")
    k3.update(BUCKET, "events", {"event_type": "y"}, "event_type = 'x'")
    k3.delete_rows(BUCKET, "events", "id = 3 AND event_type = 'click'")
    k3.optimize(BUCKET, "events")
    k3.vacuum(BUCKET, "events", retention_hours=0, force=True)
    k3.restore(BUCKET, "events", version(k3, "events"))
    return "events"


def entries(k3: K3, table: str, operation: str = "") -> list[Any]:
    found = k3.history(BUCKET, table, limit=100)
    return [entry for entry in found if operation in ("", entry["operation"])]


@pytest.mark.slow
def test_k3_102_an_entry_in_full(k3: K3, table: str) -> None:
    for entry in entries(k3, table):
        assert entry.keys() == FIELDS
        texts = (entry["version"], entry["timestamp"], entry["readVersion"])
        assert all(isinstance(text, str) and text.isdecimal() for text in texts)
        assert all(isinstance(entry[name], dict) for name in ("parameters", "operationMetrics", "userMetadata"))
        json.dumps(entry)


@pytest.mark.slow
def test_k3_103_an_entry_for_each_commit(k3: K3, table: str) -> None:
    versions = [int(entry["version"]) for entry in entries(k3, table)]
    assert versions == list(range(version(k3, table), -1, -1))
    assert [len(entries(k3, table, operation)) for operation in ("VACUUM START", "VACUUM END")] == [1, 1]


def test_k3_104_operations_have_deltas_names(k3: K3, table: str) -> None:
    names = {entry["operation"] for entry in entries(k3, table)}
    assert names >= {"CREATE TABLE", "WRITE", "MERGE", "UPDATE", "DELETE", "OPTIMIZE", "VACUUM START", "VACUUM END"}


def test_k3_105_a_predicate_is_as_it_was_written(k3: K3, table: str) -> None:
    (deleted,) = entries(k3, table, "DELETE")
    assert deleted["parameters"] == {"predicate": "id = 3 AND event_type = 'click'"}


def test_k3_106_each_entry_names_the_version_that_it_read(k3: K3, table: str) -> None:
    read = {int(entry["version"]): int(entry["readVersion"]) for entry in entries(k3, table)}
    assert read == {number: max(0, number - 1) for number in read}


def test_k3_107_pages_go_back_and_list_each_version_once(k3: K3, table: str) -> None:
    seen: list[int] = []
    before = None
    while page := k3.history(BUCKET, table, limit="3", before_version=before):
        seen += [int(str(entry["version"])) for entry in page]
        before = str(page[-1]["version"])
    assert seen == list(range(version(k3, table), -1, -1))
    assert k3.history(BUCKET, table, before_version=0) == []
    for argument in ({"before_version": -1}, {"limit": -1}, {"limit": "x"}):
        with pytest.raises(InvalidArgument):
            k3.history(BUCKET, table, **argument)


def test_k3_108_entries_are_in_the_order_of_versions(k3: K3, lake: Lakehouse) -> None:
    make(k3, "skewed")
    for number in range(2):
        k3.insert(BUCKET, "skewed", [event(number)])
        k3.compact(BUCKET, "skewed")
    commit = place(lake, "skewed") / "_delta_log" / f"{1:020}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        line.get("commitInfo", {}).update(timestamp=4_000_000_000_000)  # a writer whose clock is ahead
    commit.write_text("\n".join(map(json.dumps, lines)))
    assert [entry["version"] for entry in k3.history(BUCKET, "skewed")] == ["2", "1", "0"]


def test_k3_109_metrics_have_k3s_names(k3: K3, table: str) -> None:
    merged = entries(k3, table, "MERGE")[0]["operationMetrics"]
    assert (merged["numTargetRowsInserted"], merged["numTargetRowsUpdated"], merged["numTargetRowsDeleted"]) == (1, 1, 0)
    (updated,) = entries(k3, table, "UPDATE")
    (deleted,) = entries(k3, table, "DELETE")
    assert [updated["operationMetrics"][f"numTargetRows{word}"] for word in ("Inserted", "Deleted")] == [0, 0]
    assert updated["operationMetrics"]["numTargetRowsUpdated"] == deleted["operationMetrics"]["numTargetRowsDeleted"] == 1
    packed = entries(k3, table, "OPTIMIZE")[0]["operationMetrics"]
    assert packed["numFilesAdded"] == 1
    assert packed["numFilesRemoved"] > 1


def test_k3_110_user_metadata_is_an_object(k3: K3, lake: Lakehouse) -> None:
    make(k3, "noted", keyed=False)
    rows = pa.table({"id": [1], "user_id": ["u"], "event_type": ["x"], "payload": ["{}"], "_seq": [1]})
    for text in ('{"job": "x"}', "by hand", None):
        noted = None if text is None else CommitProperties(custom_metadata={"userMetadata": text})
        write_deltalake(str(place(lake, "noted")), rows, mode="append", commit_properties=noted)
    found = [entry["userMetadata"] for entry in k3.history(BUCKET, "noted", limit=3)]
    assert found == [{}, {"raw": "by hand"}, {"job": "x"}]


@pytest.mark.slow
def test_k3_110_user_metadata_is_what_the_caller_attached_and_nothing_else(k3: K3) -> None:
    make(k3, "attached")
    k3.insert(BUCKET, "attached", [event(1)], user_metadata={"job": "x"})
    k3.merge(BUCKET, "attached", [event(2)], user_metadata={"merged": True})
    k3.compact(BUCKET, "attached")
    k3.update(BUCKET, "attached", {"event_type": "y"}, "event_type = 'click'", user_metadata={"n": 1.5})
    k3.delete_rows(BUCKET, "attached", "event_type = 'none of them'")
    k3.execute(BUCKET, "UPDATE attached SET event_type = 'z' WHERE payload IS NULL", user_metadata={"sql": [1, None]})
    k3.insert(BUCKET, "attached", [event(3)])
    k3.compact(BUCKET, "attached", user_metadata={"by": "hand"})
    k3.optimize(BUCKET, "attached", z_order_columns=["id"], user_metadata={"by": "night"})
    k3.vacuum(BUCKET, "attached", user_metadata={"by": "day"})
    k3.restore(BUCKET, "attached", 1, user_metadata={"why": "typo"})
    found = [(entry["operation"], entry["userMetadata"]) for entry in reversed(k3.history(BUCKET, "attached"))]
    assert found == [
        ("CREATE TABLE", {}),
        ("WRITE", {"job": "x", "merged": True}),
        ("UPDATE", {"n": 1.5}),
        ("UPDATE", {"sql": [1, None]}),
        ("WRITE", {"by": "hand"}),
        ("OPTIMIZE", {"by": "night"}),
        ("VACUUM START", {"by": "day"}),
        ("VACUUM END", {"by": "day"}),
        ("RESTORE", {"why": "typo"}),
    ]
    for bad in ([1], "text", {"a": float("nan")}, {"a": "x" * 5000}):
        with pytest.raises(InvalidArgument, match="metadata"):
            k3.insert(BUCKET, "attached", [event(9)], user_metadata=bad)  # type: ignore[arg-type]
    assert 9 not in kinds(k3, "attached")


def test_k3_111_restore_brings_a_version_back_as_a_new_one(k3: K3) -> None:
    make(k3, "restored")
    for kind in ("one", "two"):
        k3.insert(BUCKET, "restored", [event(1, kind)])
        k3.compact(BUCKET, "restored")
    assert k3.restore(BUCKET, "restored", "1") == {"version": "3", "restoredVersion": "1"}
    assert kinds(k3, "restored", "EVENTUAL") == {1: "one"}
    newest = entries(k3, "restored")[0]
    assert (newest["operation"], newest["parameters"]["version"]) == ("RESTORE", "1")
    with pytest.raises(LakewardenError, match=r"versions 0 to 3 still work") as unknown:
        k3.restore(BUCKET, "restored", 99)
    assert unknown.value.code == "NOT_FOUND"
    k3.vacuum(BUCKET, "restored", retention_hours=0, force=True)
    end = version(k3, "restored")
    with pytest.raises(LakewardenError, match="version 2"):
        k3.restore(BUCKET, "restored", 2)
    assert version(k3, "restored") == end


def test_k3_111_a_restore_to_the_rows_of_now_is_a_version(k3: K3) -> None:
    make(k3, "stays")
    k3.insert(BUCKET, "stays", [event(1, "one")])
    k3.compact(BUCKET, "stays")
    for expected in ("2", "3"):
        assert k3.restore(BUCKET, "stays", "1") == {"version": expected, "restoredVersion": "1"}
        newest = entries(k3, "stays")[0]
        assert (newest["version"], newest["operation"], newest["parameters"]["version"]) == (expected, "RESTORE", "1")
        assert (newest["operationMetrics"].get("rows_added", 0), kinds(k3, "stays", "EVENTUAL")) == (0, {1: "one"})
    k3.insert(BUCKET, "stays", [event(2, "two")])  # drained first, and then undone
    assert k3.restore(BUCKET, "stays", 3) == {"version": "5", "restoredVersion": "3"}
    assert kinds(k3, "stays", "STRONG") == {1: "one"}
    k3.insert(BUCKET, "stays", [event(3, "three")])
    k3.compact(BUCKET, "stays")
    assert kinds(k3, "stays", "STRONG") == {1: "one", 3: "three"}


def test_k3_112_a_restore_drains_first_and_stays(k3: K3) -> None:
    make(k3, "rewound")
    k3.insert(BUCKET, "rewound", [event(1, "old")])
    k3.compact(BUCKET, "rewound")
    k3.insert(BUCKET, "rewound", [event(1, "pending"), event(2, "pending")])
    k3.restore(BUCKET, "rewound", 1)
    assert kinds(k3, "rewound") == {1: "old"}
    k3.compact(BUCKET, "rewound")
    assert kinds(k3, "rewound", "EVENTUAL") == {1: "old"}


def test_k3_113_the_last_drain_and_the_partitions(k3: K3) -> None:
    make(k3, "looked_at", parted=True)
    drained = ("lastDrainTargetVersion", "lastDrainRowsInserted", "lastDrainRowsUpdated", "lastDrainRowsDeleted", "drainLagSecs")
    found: dict[str, object] = {**k3.describe_table(BUCKET, "looked_at")}
    assert (found["version"], [found[name] for name in drained]) == ("0", ["", "0", "0", "0", "0"])
    assert k3.list_partitions(BUCKET, "looked_at") == []
    k3.insert(BUCKET, "looked_at", [event(1, "a"), event(2, "a/b"), event(3, None)])
    k3.compact(BUCKET, "looked_at")
    k3.insert(BUCKET, "looked_at", [event(1, "b"), event(4, "a")])
    k3.delete_rows(BUCKET, "looked_at", "id = 2 AND user_id = 'u'")
    assert int(str(k3.describe_table(BUCKET, "looked_at")["drainLagSecs"])) >= 0
    k3.compact(BUCKET, "looked_at")
    k3.optimize(BUCKET, "looked_at")
    found = {**k3.describe_table(BUCKET, "looked_at")}
    assert [found[name] for name in drained] == ["2", "1", "1", "1", "0"], "of the drain, not of what came after it"
    partitions = k3.list_partitions(BUCKET, "looked_at")
    assert [(one["values"], one["fileCount"], one["rowCount"]) for one in partitions] == [
        ({"event_type": None}, "1", "1"),
        ({"event_type": "a"}, "1", "1"),
        ({"event_type": "b"}, "1", "1"),
    ]
    make(k3, "whole")
    assert k3.list_partitions(BUCKET, "whole") == []
    with pytest.raises(LakewardenError, match="there is no table") as unknown:
        k3.describe_table(BUCKET, "nowhere")
    assert unknown.value.code == "NOT_FOUND"
