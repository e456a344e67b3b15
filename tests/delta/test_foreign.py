"""Tables in which somebody else committed: read right, merged with theirs as the oldest, or refused in so many words."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.reading.rows import read_rows
from lakewarden.errors import Unsupported
from lakewarden.storage.steps import alone
from tests.delta.scopes import at, flush, people, rows_of, table_of, target
from tests.fixtures.bucket import path_of

_FEATURE = ["deletionVectors"]
DELETION_VECTORS = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": _FEATURE, "writerFeatures": _FEATURE}
"""The protocol of a table in which others delete rows by vectors."""


def _theirs(*ids: int, name: str = "theirs") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"{name}{id_}" for id_ in ids]})


def _append(scope: ScopeTarget, *ids: int, name: str = "theirs") -> None:
    write_deltalake(scope.uri, _theirs(*ids, name=name), mode="append", schema_mode="merge")


def test_their_rows_are_read_and_have_no_seq(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    _append(scope, 2)
    assert rows_of(scope) == [*people(1), *people(2, name="theirs")]
    found = read_rows(table_of(scope), scope.schemas, ["id", "_seq"]).to_pylist()
    assert {row["id"]: row["_seq"] for row in found} == {1: 0, 2: None}


def test_their_rows_are_the_oldest_and_their_duplicates_are_settled(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1, 2))
    _append(scope, 2, 3)
    _append(scope, 2, 4)
    assert [row["id"] for row in rows_of(scope)] == [1, 2, 2, 2, 3, 4]
    flush(scope, people(2, name="new"), first_seq=2)
    assert [(row["id"], row["name"]) for row in rows_of(scope)] == [(1, "n1"), (2, "new2"), (3, "theirs3"), (4, "theirs4")]


@pytest.mark.disk
def test_a_file_without_statistics_may_hold_any_key(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    pq.write_table(_theirs(500), tmp_path / "t" / "odd name%.parquet")
    delta = DeltaTable(scope.uri)
    delta.create_write_transaction([AddAction("odd name%.parquet", 1, {}, 1, True, "{}")], "append", delta.schema())
    assert table_of(scope).state(scope.app_id).rows == 2
    applied = flush(scope, people(500, name="new"), first_seq=1).applied
    assert applied is not None
    assert applied.operation == "MERGE"
    assert rows_of(scope) == [*people(1), *people(500, name="new")]


def test_a_column_of_theirs_stops_the_scope_with_a_reason(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    write_deltalake(scope.uri, _theirs(2).append_column("extra", pa.array([1])), mode="append", schema_mode="merge")
    for act in (lambda: rows_of(scope), lambda: flush(scope, people(3), first_seq=1)):
        with pytest.raises(Unsupported, match="extra"):
            act()
    assert rows_of(scope, 0) == people(1)


def test_column_mapping_is_refused(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))

    def map_columns(metadata: dict[str, Any]) -> None:
        metadata["configuration"] |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"}
        fields = json.loads(metadata["schemaString"])
        for number, field in enumerate(fields["fields"]):
            field["metadata"] |= {"delta.columnMapping.id": number + 1, "delta.columnMapping.physicalName": field["name"]}
        fields["fields"][1]["name"] = "renamed"
        metadata["schemaString"] = json.dumps(fields)

    commit_by_hand(scope, {"minReaderVersion": 2, "minWriterVersion": 5}, map_columns)
    for act in (lambda: rows_of(scope), lambda: flush(scope, people(3), first_seq=1)):
        with pytest.raises(Unsupported, match="column mapping"):
            act()


def test_deletion_vectors_are_read_right_and_a_rewrite_is_refused(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1, 2, 3))
    delete_row_by_vector(scope, row=1)
    assert rows_of(scope) == people(1, 3)
    with pytest.raises(Unsupported, match="deletion vectors"):
        flush(scope, people(3), first_seq=3)


def test_a_table_that_they_partitioned_is_read_and_a_rewrite_is_refused(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1, 2))
    flush(scope, deletes=[{"id": 1}, {"id": 2}], first_seq=2)
    theirs = pa.table({"id": [1, 2], "name": ["a", "b"], "_seq": pa.array([None, None], pa.int64())})
    write_deltalake(scope.uri, theirs, mode="overwrite", schema_mode="overwrite", partition_by=["name"])
    assert rows_of(scope) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    with pytest.raises(Unsupported, match="partitions"):
        flush(scope, people(2), first_seq=4)
    table = table_of(scope)
    with pytest.raises(Unsupported, match="partitions"):  # an optimize, or a restore
        alone(table.commit(CommitChange(CommitStamp("J", "OPTIMIZE"), removes=table.files()), schemas=scope.schemas, **at()))


def test_a_partition_by_a_column_of_theirs_cannot_be_undone_by_us(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    write_deltalake(scope.uri, pa.table({"x": [1], "p": ["a"]}), mode="overwrite", schema_mode="overwrite", partition_by=["p"])
    table = table_of(scope)
    with pytest.raises(Unsupported, match="partitions"):
        alone(table.commit(CommitChange(CommitStamp("J", "RESTORE"), removes=table.files()), schemas=scope.schemas, **at()))
    assert table_of(scope).version == 1


def commit_by_hand(
    scope: ScopeTarget, protocol: dict[str, Any], change: Callable[[dict[str, Any]], None], *actions: object
) -> None:
    """The next commit, with the first one's metadata changed."""
    log = path_of(scope.uri) / "_delta_log"
    lines = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
    metadata = next(line["metaData"] for line in lines if "metaData" in line)
    change(metadata)
    every = [{"protocol": protocol}, {"metaData": metadata}, *actions]
    (log / f"{table_of(scope).version + 1:020d}.json").write_text("\n".join(json.dumps(action) for action in every))


def delete_row_by_vector(scope: ScopeTarget, row: int, version: int = 0) -> None:
    """As Spark does it: the file that this version added again, with a bitmap of its deleted rows."""
    log = path_of(scope.uri) / "_delta_log"
    add = next(json.loads(line)["add"] for line in (log / f"{version:020d}.json").read_text().splitlines() if '"add"' in line)
    # a portable RoaringBitmapArray: magic, one bitmap with key 0, of one array container with one value
    bitmap = struct.pack("<IQI", 1681511377, 1, 0) + struct.pack("<IIHHIH", 12346, 1, 0, 0, 16, row)
    vector = {"storageType": "i", "pathOrInlineDv": _z85(bitmap), "sizeInBytes": len(bitmap), "cardinality": 1}
    gone = {"path": add["path"], "deletionTimestamp": 1, "dataChange": True, "size": add["size"], "partitionValues": {}}
    commit_by_hand(scope, DELETION_VECTORS, lambda _: None, {"remove": gone}, {"add": add | {"deletionVector": vector}})


def _z85(data: bytes) -> str:
    letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    padded = data + b"\0" * (-len(data) % 4)
    words = struct.unpack(f">{len(padded) // 4}I", padded)
    return "".join(letters[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))
