"""The parts of a full start: together all rows, each once, from wherever a relay was left, whatever is flushed meanwhile."""

from __future__ import annotations

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.ingest.relay import snapshot_parts
from lakewarden.storage.kafka_publisher import SnapshotProgress
from lakewarden.tables.changes.feed import ChangeFeed

COLUMNS = [Column("id", "BIGINT", nullable=False), Column("text", "TEXT")]
Listed = list[tuple[str, int]]


def parts(lake: Lakehouse, seq: int, done: SnapshotProgress, most: int) -> list[tuple[Listed, SnapshotProgress | None]]:
    feed = ChangeFeed(lake.warehouse, TableName("n", "t"))
    found = snapshot_parts(feed, feed.table().schema, seq, done, most)
    return [
        ([(row.get("_user", ""), row["id"]) for rows in part.rows for row in rows.to_pylist()], part.reached) for part in found
    ]


@pytest.mark.parametrize("kind", ["USER", "keyed", "keyless"])
def test_a_snapshot_goes_on_anywhere(warehouse_uri: str, kind: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.create_namespace("n")
        key = [] if kind == "keyless" else ["id"]
        table = lake.create_table("n.t", type="USER" if kind == "USER" else "SHARED", columns=COLUMNS, primary_key=key)
        users = ["ann", "bob", "cy"] if kind == "USER" else [None]
        for start in (6, 0, 3):  # in no order, so that the files have none
            for user in users:
                given = [{"id": start + each, "text": str(9 - start - each)} for each in range(3)]
                if kind == "keyless":
                    table.direct.append([table.completed(given, user=None)])
                else:
                    table.write(given, user=user)
            if start == 6 and kind != "keyless":
                lake.flush("n.t")
        seq = ChangeFeed(lake.warehouse, TableName("n", "t")).end()
        whole = [row for rows, _ in parts(lake, seq, SnapshotProgress(), 4) for row in rows]
        assert sorted(whole) == sorted((user or "", key_) for user in users for key_ in range(9))
        cuts = [reached for _, reached in parts(lake, seq, SnapshotProgress(), 4) if reached is not None]
        assert all(len(rows) == 4 for rows, reached in parts(lake, seq, SnapshotProgress(), 4) if reached is not None)
        if kind != "keyless":
            lake.flush("n.t")
            lake.optimize("n.t", zorder=["text"])  # turns their order in the files round
            table.write([{"id": 100, "text": "later"}, {"id": 0, "text": "later"}], user=users[0])
            lake.flush("n.t")
        for number, cut in enumerate(cuts, 1):
            rest = [row for rows, _ in parts(lake, seq, cut, 5) for row in rows]
            assert rest == whole[4 * number :]
