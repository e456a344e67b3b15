"""An insert refuses the keys of live rows, and no others, wherever those rows are and whoever wrote them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from lakewarden import Column, Lakehouse
from lakewarden.errors import ConstraintViolation, StorageUnavailable
from lakewarden.log.table_log import TableLog
from lakewarden.storage.local import LocalObjects
from lakewarden.tables.client import TableClient
from lakewarden.tables.keys.pending import PendingKeys
from tests.fixtures.lakes import NOTES, keys, lake_fixture, make_notes, notes, strong

USER = "ann"


lake = lake_fixture(make_notes)


@pytest.fixture
def other(lake: Lakehouse) -> Iterator[Lakehouse]:
    """Another process, as far as the log can tell."""
    with Lakehouse.open(lake.warehouse.uri) as opened:
        yield opened


def insert(lake: Lakehouse, *ids: int, user: str = USER) -> bool:
    """Whether the rows were taken."""
    try:
        lake.table(NOTES).write(notes(dict.fromkeys(ids, "inserted")), user=user, mode="insert")
    except ConstraintViolation:
        return False
    return True


def write(lake: Lakehouse, *ids: int) -> None:
    lake.table(NOTES).write(notes(dict.fromkeys(ids, "written")), user=USER)


def delete(lake: Lakehouse, *ids: int) -> None:
    lake.table(NOTES).delete(keys(ids), user=USER)


def test_a_key_is_taken_once_before_a_flush_and_after_it(lake: Lakehouse) -> None:
    assert insert(lake, 1)
    assert not insert(lake, 1)
    assert insert(lake, 1, user="ben"), "each user has keys of their own"
    lake.flush()
    assert not insert(lake, 1)
    assert insert(lake, 2)
    assert strong(lake.table(NOTES), USER) == {1: "inserted", 2: "inserted"}


def test_a_deleted_key_is_free_again(lake: Lakehouse) -> None:
    for flushed in (lambda: None, lake.flush):
        write(lake, 1)
        flushed()
        assert not insert(lake, 1)
        delete(lake, 1)
        assert insert(lake, 1)
        delete(lake, 1)
        flushed()
        assert insert(lake, 1)


def test_of_several_keys_the_one_that_is_taken_is_named(lake: Lakehouse) -> None:
    write(lake, 5)
    lake.flush()
    write(lake, 7)
    with pytest.raises(ConstraintViolation, match="'id': 7"):
        lake.table(NOTES).write(notes({6: "", 7: ""}), user=USER, mode="insert")
    with pytest.raises(ConstraintViolation, match="'id': 5"):
        lake.table(NOTES).write(notes({6: "", 5: ""}), user=USER, mode="insert")
    assert insert(lake, 6, 8)


def test_what_another_process_wrote_or_deleted_is_seen(lake: Lakehouse, other: Lakehouse) -> None:
    assert insert(lake, 1)
    assert not insert(other, 1)
    write(other, 2)
    assert not insert(lake, 2)
    delete(other, 1, 2)
    assert insert(lake, 1)
    other.flush()
    assert not insert(lake, 1)
    assert insert(lake, 2)
    delete(other, 2)
    other.flush()
    assert insert(lake, 2)


def test_the_keys_of_a_user_who_was_erased_are_free(lake: Lakehouse) -> None:
    assert insert(lake, 1)
    assert insert(lake, 1, user="ben")
    lake.erase(USER)
    assert insert(lake, 1)
    assert not insert(lake, 1, user="ben")


def test_keys_that_a_restore_took_back_are_free(lake: Lakehouse) -> None:
    write(lake, 1)
    lake.flush()
    before = lake.table(NOTES).history(user=USER)[0].version
    write(lake, 2)
    lake.flush()
    assert not insert(lake, 2)
    lake.restore(NOTES, user=USER, version=before, dry_run=False)
    assert insert(lake, 2)
    assert not insert(lake, 1)


def test_rows_that_a_restore_discarded_are_gone_although_the_log_still_has_them(
    lake: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(lake, 1)
    lake.flush()
    assert insert(lake, 2)

    def fail(*_: object, **__: object) -> None:
        raise StorageUnavailable("the log cannot be settled")

    with monkeypatch.context() as patch:
        patch.setattr(TableLog, "settle", fail)
        with suppress(StorageUnavailable):
            newest = lake.table(NOTES).history(user=USER)[0].version
            lake.restore(NOTES, user=USER, version=newest, discard_pending=True, dry_run=False)
    assert USER in lake.table(NOTES).log.view().pending
    assert insert(lake, 2)


def test_a_key_column_may_get_another_name(lake: Lakehouse) -> None:
    assert insert(lake, 1)
    lake.sql(f"ALTER TABLE {NOTES} RENAME COLUMN id TO number")
    table = lake.table(NOTES)
    with pytest.raises(ConstraintViolation, match="'number': 1"):
        table.write([{"number": 1, "text": ""}], user=USER, mode="insert")
    table.write([{"number": 2, "text": ""}], user=USER, mode="insert")


@pytest.mark.parametrize(
    ("type", "one", "two"),
    [
        ("TEXT", "é", "e"),
        ("BYTES", b"\0", b""),
        ("UUID", "0191e3c5-7f4a-7cc2-98a1-3b5e0c9d2f11", "0191E3C5-7F4A-7CC2-98A1-3B5E0C9D2F12"),
        ("DATE", date(2026, 1, 1), date(1, 1, 1)),
        ("TIMESTAMP", datetime(2026, 1, 1, tzinfo=UTC), datetime.fromisoformat("2026-01-01T00:00:00.000001")),
        ("DECIMAL(10,2)", "1.50", "1.51"),
        ("BOOLEAN", True, False),
        ("SMALLINT", -1, 1),
    ],
)
def test_keys_of_every_type(lake: Lakehouse, type: str, one: object, two: object) -> None:
    columns = [Column("k", type), Column("n", "INT")]
    table = lake.create_table("chat.typed", type="SHARED", columns=columns, primary_key=["k", "n"])
    for _ in range(2):
        for key in (one, two):
            if taken(table, {"k": key, "n": 1}):
                assert not taken(table, {"k": key, "n": 1})
        assert not taken(table, {"k": one, "n": 1})
        lake.flush()
    assert taken(table, {"k": one, "n": 2})
    assert table.read().num_rows == 3


def taken(table: TableClient, row: dict[str, Any]) -> bool:
    try:
        table.write([row], mode="insert")
    except ConstraintViolation:
        return False
    return True


@pytest.mark.slow
def test_whatever_comes_before_a_key_is_taken_if_it_is_live(lake: Lakehouse, other: Lakehouse) -> None:
    """Two processes in turn, each with what it keeps of the keys."""
    draw, live = Random(7), set[int]()
    for _ in range(60):
        one, key = draw.choice((lake, other)), draw.randrange(4)
        match draw.choice(("insert", "insert", "insert", "write", "delete", "flush", "flush of all")):
            case "insert":
                assert insert(one, key) == (key not in live)
                live.add(key)
            case "write":
                write(one, key)
                live.add(key)
            case "delete":
                delete(one, key)
                live.discard(key)
            case "flush":
                one.flush(NOTES, user=USER)
            case _:
                one.flush()
    assert set(strong(lake.table(NOTES), USER)) == live


def test_each_pending_chunk_is_read_once(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        write(lake, number)
    read: list[str] = []
    get_range: Callable[..., bytes] = LocalObjects.get_range

    def counted(store: LocalObjects, key: str, start: int, length: int) -> bytes:
        if "/segments/" in key and start:
            read.append(key)
        return get_range(store, key, start, length)

    monkeypatch.setattr(LocalObjects, "get_range", counted)
    assert not insert(lake, 0)
    assert len(read) == 5
    assert insert(lake, 5)
    assert len(read) == 5
    assert not insert(lake, 5)
    assert len(set(read)) == len(read) == 6


def test_what_is_kept_of_keys_is_bounded(lake: Lakehouse) -> None:
    kept, wanted = PendingKeys(most=8), pa.table({"id": range(4)})
    table = lake.table(NOTES)
    for number in range(12):
        user = f"u{number}"
        table.write(notes({1: "", 2: ""}), user=user)
        pending = table.log.view().pending[user]
        assert kept.of(table.log, pending, table.table.schemas, wanted).keys() == {(1,), (2,)}
    assert sum(len(scope.newest) for scope, _ in kept._scopes._values.values()) == 8
    table.write(notes(dict.fromkeys(range(3), "")), user="large")
    large = kept.of(table.log, table.log.view().pending["large"], table.table.schemas, wanted)
    assert large.keys() == {(0,), (1,), (2,)}
    assert all(user != "large" for _, user in kept._scopes._values)
