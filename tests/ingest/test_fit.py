"""What messages become, without a broker: each whole or not at all, in their order, and no row under a key that it had."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.ingest.record_fit import MessageFit
from lakewarden.log.record import DELETE, OP, UPSERT, USER
from tests.ingest.fitting import fitted

Message = tuple[bytes | None, bytes | None]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "w")) as opened:
        opened.create_namespace("n")
        columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
        opened.create_table("n.t", type="SHARED", columns=columns, primary_key=["id"])
        opened.create_table("n.mine", type="USER", columns=columns, primary_key=["id"])
        yield opened


def created(**row: object) -> Message:
    return None, json.dumps({"op": "c", "after": row}).encode()


def updated(before: dict[str, object], **after: object) -> Message:
    return None, json.dumps({"op": "u", "before": before, "after": after}).encode()


def rows(found: MessageFit) -> list[tuple[int, str | None, bool]]:
    """The key, the text, and whether the row goes, in order."""
    assert set(found.batch.rows.column(OP).to_pylist()) <= {UPSERT, DELETE}
    return [(row["id"], row["text"], row[OP] == DELETE) for row in found.batch.rows.to_pylist()]


def test_a_message_that_does_not_fit_does_nothing(lake: Lakehouse) -> None:
    """Also where one of its two rows would."""
    found = fitted(lake, "n.t", "debezium-json", created(id=9), updated({"id": 9}, id="x"), updated({"id": 8}, id=None))
    assert (rows(found), found.written, found.removed) == ([(9, None, False)], 1, 0)
    assert [misfit.offset for misfit in found.misfits] == [1, 2]


def test_an_update_removes_the_row_from_before_where_that_had_another_key(lake: Lakehouse) -> None:
    found = fitted(lake, "n.t", "debezium-json", updated({"id": 1, "text": "a"}, id=1, text="b"), updated({"id": 2}, id=3))
    assert rows(found) == [(1, "b", False), (2, None, True), (3, None, False)]
    assert (found.written, found.removed) == (2, 1)


def test_a_row_that_goes_to_another_user_leaves_the_first(lake: Lakehouse) -> None:
    found = fitted(lake, "n.mine", "debezium-json", updated({"_user": "ann", "id": 1}, _user="bob", id=1))
    assert found.batch.rows.column(USER).to_pylist() == ["ann", "bob"]
    assert [gone for _, _, gone in rows(found)] == [True, False]


def test_rows_come_in_the_order_of_their_messages(lake: Lakehouse) -> None:
    gone = (json.dumps({"id": 1}).encode(), None)
    found = fitted(lake, "n.t", "json", (None, b'{"id": 1, "text": "a"}'), gone, (None, b'{"id": 1, "text": "b"}'), gone)
    assert rows(found) == [(1, "a", False), (1, None, True), (1, "b", False), (1, None, True)]
