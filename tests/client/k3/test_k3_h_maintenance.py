"""K3.H: maintenance and its parameters."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakewarden.client.k3 import K3
from lakewarden.errors import InvalidArgument, LakewardenError
from tests.client.k3.tables import BUCKET, event, kinds, make, version

PACKED = {
    *("version", "optimizeType", "filesAdded", "filesRemoved", "bytesAdded", "bytesRemoved"),
    *("partitionsOptimized", "totalConsideredFiles", "totalFilesSkipped"),
}


def filled(k3: K3, name: str, *, parted: bool = False, flushes: int = 3) -> str:
    """As many files a partition as flushes."""
    make(k3, name, parted=parted)
    for number in range(flushes):
        rows = [event(2 * number, "a"), event(2 * number + 1, "b")]
        k3.insert(BUCKET, name, rows)
        k3.compact(BUCKET, name)
    return name


def test_k3_114_optimize_packs_each_partition_to_the_size(k3: K3) -> None:
    filled(k3, "packed", parted=True)
    answer: Any = k3.optimize(BUCKET, "packed")
    assert answer.keys() == PACKED
    counts = {name: answer[name] for name in ("filesAdded", "filesRemoved", "partitionsOptimized", "totalConsideredFiles")}
    assert counts == {"filesAdded": "2", "filesRemoved": "6", "partitionsOptimized": "2", "totalConsideredFiles": "6"}
    assert (answer["optimizeType"], answer["version"]) == ("compact", str(version(k3, "packed")))
    newest: Any = k3.history(BUCKET, "packed", limit=1)[0]
    assert newest["parameters"]["target_file_size"] == str(128 << 20)
    again: Any = k3.optimize(BUCKET, "packed", target_file_size_mb="256")
    assert (again["partitionsOptimized"], again["version"]) == ("0", answer["version"])
    with pytest.raises(InvalidArgument, match="above 0"):
        k3.optimize(BUCKET, "packed", target_file_size_mb=0)


def test_k3_115_optimize_by_columns_sorts(k3: K3) -> None:
    filled(k3, "ordered", parted=True)
    for bad in ("event_type", "nothing"):
        with pytest.raises(InvalidArgument, match=bad):
            k3.optimize(BUCKET, "ordered", z_order_columns=[bad])
    answer = k3.optimize(BUCKET, "ordered", z_order_columns=["id"])
    assert (answer["optimizeType"], answer["filesRemoved"]) == ("z_order", "6")
    assert k3.optimize(BUCKET, "ordered", z_order_columns=[])["optimizeType"] == "compact"


def test_k3_116_vacuum_keeps_a_week_unless_it_is_forced(k3: K3) -> None:
    filled(k3, "vacuumed")
    k3.optimize(BUCKET, "vacuumed")
    with pytest.raises(InvalidArgument, match="168"):
        k3.vacuum(BUCKET, "vacuumed", retention_hours=1)
    assert k3.vacuum(BUCKET, "vacuumed")["filesDeleted"] == "0"
    end = version(k3, "vacuumed")
    listed: Any = k3.vacuum(BUCKET, "vacuumed", retention_hours=0, force=True, dry_run=True)
    assert (len(listed["files"]), listed["filesDeleted"], version(k3, "vacuumed")) == (3, "0", end)
    assert k3.vacuum(BUCKET, "vacuumed", retention_hours="0", force=True)["filesDeleted"] == "3"
    with pytest.raises(LakewardenError, match="version 1"):
        k3.restore(BUCKET, "vacuumed", 1)


def test_k3_117_compact_drains_the_log(k3: K3) -> None:
    make(k3, "compacted")
    k3.insert(BUCKET, "compacted", [event(1), event(2)])
    assert k3.compact(BUCKET, "compacted") == {"version": "1", "rowsDrained": "2", "pendingDrain": False}
    assert k3.compact(BUCKET, "compacted") == {"version": "1", "rowsDrained": "0", "pendingDrain": False}
    assert version(k3, "compacted") == 1


def test_k3_118_two_operations_at_once_harm_no_row(k3: K3) -> None:
    filled(k3, "raced")

    def packed(_: int) -> str:
        try:
            return str(k3.optimize(BUCKET, "raced", z_order_columns=["id"])["optimizeType"])
        except LakewardenError as error:
            return error.code

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(packed, range(2)))
    assert set(outcomes) <= {"z_order", "CONFLICT"}
    assert "z_order" in outcomes
    assert kinds(k3, "raced", "EVENTUAL").keys() == set(range(6))
