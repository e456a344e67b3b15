"""The change feed against a model: readers that hold nothing but what they read end with the table's rows.

They begin with a snapshot or continue, read in batches of any size, and go away for long, while rows are written, deleted,
flushed, compacted, vacuumed and restored. What a reader holds is the oracle of each before image.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden import Column, Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.errors import Ended
from lakewarden.tables.changes.feed import ChangeFeed
from lakewarden.tables.client import TableClient
from tests.fixtures.examples import campaign

_USERS = ("ada", "bob")
_Row = tuple[str | None, int]

_STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("write",) * 5
            + (
                "delete",
                "delete",
                "flush",
                "flush",
                "flush one",
                "compact",
                "vacuum",
                "restore",
                "come",
                "read",
                "read",
                "read all",
            )
        ),
        st.sampled_from(_USERS),
        st.lists(st.tuples(st.integers(0, 4), st.sampled_from("xyz")), min_size=1, max_size=3),
        st.integers(1, 3),
    ),
    min_size=8,
    max_size=30,
)


@dataclass
class Reader:
    """Holds the rows of one user or of all, and nothing else."""

    table: TableClient
    user: str | None
    feed: ChangeFeed | None = None
    """Of a SHARED table, whose batches are divided."""
    upto: int | None = None
    rows: dict[_Row, str] = field(default_factory=dict)
    last: int = -1

    def read(self, limit: int | None = None) -> None:
        try:
            found = self.table.changes(user=self.user, after=self.upto, limit=limit)
        except Ended:
            self.upto, self.rows, self.last = None, {}, -1
            found = self.table.changes(user=self.user)
        again = self.table.changes(user=self.user, after=self.upto, limit=limit) if self.upto is not None and limit else found
        assert again.rows.equals(found.rows), "a batch can be read again"
        if self.upto is not None and self.feed is not None:
            ends = self.feed.divided(self.upto, found.upto, 1)
            parts = [self.feed.changes(start, end).rows for start, end in pairwise([self.upto, *ends])]
            assert pa.concat_tables([found.rows.slice(0, 0), *parts]).equals(found.rows), "the parts are the whole"
        self.take(found.rows)
        assert self.upto is None or found.upto >= self.upto
        self.upto = found.upto

    def take(self, rows: pa.Table) -> None:
        begins = self.upto is None
        pre: _Row | None = None
        for row in rows.to_pylist():
            key, text = (row.get("_user"), row["id"]), row["text"]
            match row["_change_type"]:
                case "insert":
                    assert key not in self.rows
                    self.rows[key] = text
                case "update_preimage":
                    assert self.rows[key] == text
                    pre = key
                case "update_postimage":
                    assert pre == key, "the row before it comes first"
                    self.rows[key], pre = text, None
                case "delete":
                    assert self.rows.pop(key) == text
            assert begins or row["_seq"] >= self.last
            self.last = max(self.last, row["_seq"])
        assert pre is None


def _live(table: TableClient, shared: bool) -> dict[_Row, str]:
    users: tuple[str | None, ...] = (None,) if shared else _USERS
    return {(user, row["id"]): row["text"] for user in users for row in table.read(user=user).to_pylist()}


class World:
    def __init__(self, lake: Lakehouse, kind: str) -> None:
        self.lake, self.shared = lake, kind != "user"
        lake.create_namespace("n")
        columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
        if kind == "all":
            options = {"log.changelog-mode": "all", "bucket": "2"}
            self.table = lake.create_table("n.t", columns=columns, primary_key=["id"], dynamic=True, options=options)
        else:
            self.table = lake.create_table("n.t", type="SHARED" if self.shared else "USER", columns=columns, primary_key=["id"])
        self.feed = ChangeFeed(lake.warehouse, TableName.parse("n.t")) if self.shared else None
        self.readers = [Reader(self.table, None, self.feed)]
        self.flushed = False

    def step(self, step: tuple[str, str, list[tuple[int, str]], int]) -> None:
        what, user, rows, limit = step
        owner = None if self.shared else user
        match what:
            case "write":
                self.table.write([{"id": key, "text": text} for key, text in dict(rows).items()], user=owner)
            case "delete":
                self.table.delete([{"id": key} for key in dict(rows)], user=owner)
            case "come":
                self.readers.append(Reader(self.table, owner if len(self.readers) % 2 else None, self.feed))
            case "read":
                self.readers[0].read(limit)
            case "read all":
                for reader in self.readers:
                    reader.read()
            case _:
                self.operate(what, owner)

    def operate(self, what: str, owner: str | None) -> None:
        match what:
            case "flush":
                self.flushed |= any(report.outcome == "done" for report in self.lake.flush("n.t"))
            case "flush one":
                self.lake.flush("n.t", user=owner)
            case "compact":
                self.lake.compact("n.t")
            case "vacuum":
                self.lake.vacuum("n.t", dry_run=False)
            case "restore" if owner in self.table.users() or (self.shared and self.flushed):
                self.lake.restore("n.t", user=owner, version=0, dry_run=False)

    def check(self) -> None:
        live = _live(self.table, self.shared)
        for reader in self.readers:
            reader.read()
            wanted = {key: text for key, text in live.items() if reader.user in (None, key[0])}
            assert reader.rows == wanted


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["user", "shared", "all"])
@campaign(30, gate=10)
@given(steps=_STEPS)
def test_a_reader_of_changes_has_the_rows(kind: str, steps: list[tuple[str, str, list[tuple[int, str]], int]]) -> None:
    with TemporaryDirectory() as place, Lakehouse.open(str(Path(place) / "warehouse")) as lake:
        world = World(lake, kind)
        for step in steps:
            world.step(step)
        world.check()
