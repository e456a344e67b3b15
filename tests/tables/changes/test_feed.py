"""Where a change feed begins and ends, table by table: keys, no keys, streams, other columns, restores, erasures, retention."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.clock import system_clock
from lakewarden.base.scope import TableName
from lakewarden.base.setting_sections import LogSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.evolution import AddColumn, DropColumn
from lakewarden.errors import Ended, InvalidArgument, NotFound
from lakewarden.log.objects.trail import Trail
from lakewarden.log.table_log import TableLog
from lakewarden.tables.changes.feed import ChangeFeed
from lakewarden.tables.changes.value import Changes, Start
from lakewarden.tables.client import TableClient
from tests.fixtures.clock import Clock
from tests.fixtures.lakes import NOTES, keys, lake_fixture, make_notes, notes

_NAME = TableName.parse(NOTES)


lake = lake_fixture(clock=True)


@pytest.fixture
def table(lake: Lakehouse) -> TableClient:
    return make_notes(lake)


def listed(found: Changes) -> list[tuple[str, object, object]]:
    return [(row["_change_type"], row["id"], row.get("text")) for row in found.rows.to_pylist()]


def feed(lake: Lakehouse, user: str | None = None) -> ChangeFeed:
    return ChangeFeed(lake.warehouse, _NAME, None if user is None else (user,))


def start(lake: Lakehouse, text: str, user: str | None = None) -> int:
    seq = feed(lake, user).start(Start.parse(text))
    assert seq is not None
    return seq


def test_each_kind_of_change_with_the_row_before_it(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "a", 2: "b"}), user="ada")
    lake.flush(NOTES)
    upto = table.changes().upto
    table.write(notes({1: "c", 3: "d"}), user="ada")
    table.write(notes({1: "e"}), user="ada")
    table.delete(keys([2, 9]), user="ada")
    lake.flush(NOTES)
    assert listed(table.changes(after=upto)) == [
        ("update_preimage", 1, "a"),
        ("update_postimage", 1, "c"),
        ("insert", 3, "d"),
        ("update_preimage", 1, "c"),
        ("update_postimage", 1, "e"),
        ("delete", 2, "b"),
    ]


def test_all_users_by_seq_and_one_alone(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "a"}), user="ada")
    table.write(notes({1: "b"}), user="bob")
    lake.flush(NOTES, user="bob")
    table.write(notes({2: "c"}), user="ada")
    rows = table.changes(after=-1).rows
    assert rows.column("_user").to_pylist() == ["ada", "bob", "ada"]
    seqs = rows.column("_seq").to_numpy().tolist()
    assert seqs == sorted(seqs)
    assert listed(table.changes(after=-1, user="ada")) == [("insert", 1, "a"), ("insert", 2, "c")]


def test_a_row_of_one_user_is_not_what_anothers_was_before(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "a", 2: "b"}), user="ada")
    table.write(notes({1: "c"}), user="bob")
    lake.flush(NOTES, user="ada")
    upto = table.changes().upto
    for user in ("bob", "ada", "cyd"):
        table.write(notes({1: f"of {user}", 3: "new"}), user=user)
    table.delete(keys([1, 2]), user="bob")
    found = table.changes(after=upto).rows.to_pylist()
    assert [(row["_user"], row["_change_type"], row["id"], row["text"]) for row in found] == [
        ("bob", "update_preimage", 1, "c"),
        ("bob", "update_postimage", 1, "of bob"),
        ("bob", "insert", 3, "new"),
        ("ada", "update_preimage", 1, "a"),
        ("ada", "update_postimage", 1, "of ada"),
        ("ada", "insert", 3, "new"),
        ("cyd", "insert", 1, "of cyd"),
        ("cyd", "insert", 3, "new"),
        ("bob", "delete", 1, "of bob"),
    ]


def test_parts_of_a_batch_are_the_whole_one_after_the_other(lake: Lakehouse) -> None:
    lake.create_namespace("n")
    columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
    table = lake.create_table("n.shared", type="SHARED", columns=columns, primary_key=["id"])
    table.write(notes({1: "a", 2: "b"}))
    lake.flush("n.shared")
    upto = table.changes().upto
    for text in "cde":
        table.write(notes({1: text, ord(text): text}))
    table.delete(keys([1, 2]))
    whole = table.changes(after=upto)
    feed = ChangeFeed(lake.warehouse, TableName.parse("n.shared"))
    ends = feed.divided(upto, whole.upto, 1)
    assert len(ends) == 4
    parts = [feed.changes(start, end).rows for start, end in pairwise([upto, *ends])]
    assert pa.concat_tables(parts).combine_chunks().equals(whole.rows.combine_chunks())
    assert feed.divided(upto, whole.upto, 1 << 20) == [whole.upto]
    assert feed.divided(whole.upto, whole.upto, 1) == []


def test_a_batch_may_begin_and_end_within_a_call(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "a", 2: "b", 3: "c", 4: "d"}), user="ada")
    first, second, third, _ = table.changes(after=-1).rows.column("_seq").to_numpy().tolist()
    assert listed(feed(lake).changes(first, third)) == [("insert", 2, "b"), ("insert", 3, "c")]
    assert listed(table.changes(after=second, user="ada")) == [("insert", 3, "c"), ("insert", 4, "d")]


def test_what_nothing_was_before_is_an_insert_and_no_delete(table: TableClient) -> None:
    table.delete(keys([1, 9]), user="ada")
    table.write(notes({2: "a"}), user="ada")
    assert listed(table.changes(after=-1)) == [("insert", 2, "a")]
    table.delete(keys([2]), user="ada")
    table.write(notes({2: "b"}), user="ada")
    wanted = [("insert", 2, "a"), ("delete", 2, "a"), ("insert", 2, "b")]
    assert listed(table.changes(after=-1)) == wanted
    table.write(notes({2: "c"}), user="ada")
    assert listed(table.changes(after=-1)) == [*wanted, ("update_preimage", 2, "b"), ("update_postimage", 2, "c")]


def test_a_key_that_is_written_twice_is_an_insert_and_an_update(table: TableClient) -> None:
    for text in "ab":
        table.write(notes({1: text}), user="ada")
    assert listed(table.changes(after=-1)) == [("insert", 1, "a"), ("update_preimage", 1, "a"), ("update_postimage", 1, "b")]


def test_a_batch_ends_behind_a_whole_position(table: TableClient) -> None:
    table.write(notes({1: "a", 2: "b", 3: "c"}), user="ada")
    table.write(notes({4: "d"}), user="ada")
    first = table.changes(after=-1, limit=1)
    assert [row[1] for row in listed(first)] == [1, 2, 3]
    second = table.changes(after=first.upto, limit=1)
    assert [row[1] for row in listed(second)] == [4]
    assert listed(table.changes(after=second.upto)) == []


def test_without_before_images(table: TableClient) -> None:
    table.write(notes({1: "a"}), user="ada")
    table.delete(keys([1]), user="ada")
    assert listed(table.changes(after=-1, images=False)) == [("update_postimage", 1, "a"), ("delete", 1, None)]


def test_rows_of_a_table_without_a_key_are_inserts_and_a_change_of_rows_ends_it(lake: Lakehouse) -> None:
    lake.create_namespace("n")
    table = lake.create_table("n.t", type="SHARED", columns=[Column("id", "BIGINT")], primary_key=[])
    table.direct.append([pa.table({"id": [1, 2]})])
    first = table.changes()
    table.direct.append([pa.table({"id": [3]})])
    lake.compact("n.t")
    assert listed(first) == [("insert", 1, None), ("insert", 2, None)]
    assert listed(table.changes(after=first.upto)) == [("insert", 3, None)]
    assert listed(table.changes(after=-1, limit=1)) == listed(first), "rows of one call stay together"
    lake.sql("DELETE FROM n.t WHERE id = 3")
    with pytest.raises(Ended, match="changed directly"):
        table.changes(after=first.upto)
    again = table.changes()
    assert listed(again) == listed(first)
    assert listed(table.changes(after=again.upto)) == []


def test_a_stream_table_has_inserts_and_the_deletes_of_its_rows(lake: Lakehouse) -> None:
    lake.create_namespace("n")
    columns = [Column("id", "BIGINT")]
    table = lake.create_table("n.s", type="STREAM", columns=columns, options={"TTL_SECONDS": "600"})
    table.write([{"id": 1}, {"id": 2}], user="ada")
    upto = table.changes(user="ada").upto
    seqs = table.changes(user="ada").rows.column("_seq").to_numpy().tolist()
    table.write([{"id": 3}], user="ada")
    table.delete_rows([seqs[0], seqs[0], 7], user="ada")
    table.delete_rows([seqs[0]], user="ada")
    assert listed(table.changes(user="ada", after=upto)) == [("insert", 3, None), ("delete", 1, None)]


def test_changes_have_the_newest_columns(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "a"}), user="ada")
    lake.alter_table(NOTES, AddColumn(Column("mark", "INT")))
    lake.alter_table(NOTES, DropColumn("text"))
    assert lake.table(NOTES).changes(after=-1).rows.column_names == ["id", "mark", "_user", "_change_type", "_seq"]


def test_a_restore_ends_it_and_other_users_go_on(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "a"}), user="ada")
    table.write(notes({1: "b"}), user="bob")
    lake.flush(NOTES)
    table.write(notes({2: "c"}), user="ada")
    lake.flush(NOTES)
    upto = table.changes().upto
    lake.restore(NOTES, user="ada", version=0, dry_run=False)
    for user in (None, "ada"):
        with pytest.raises(Ended, match="restored"):
            table.changes(after=upto, user=user)
    assert listed(table.changes(after=upto, user="bob")) == []
    again = table.changes()
    assert [row[2] for row in listed(again)] == ["a", "b"]
    assert listed(table.changes(after=again.upto)) == []


@pytest.mark.parametrize("flushed", [False, True])
def test_rows_that_a_restore_dropped_do_not_come_back(lake: Lakehouse, table: TableClient, flushed: bool) -> None:
    table.write(notes({1: "a"}), user="ada")
    lake.flush(NOTES)
    table.write(notes({1: "dropped", 2: "dropped"}), user="ada")
    lake.restore(NOTES, user="ada", version=0, discard_pending=True, dry_run=False)
    start = table.changes()
    assert listed(start) == [("insert", 1, "a")]
    table.write(notes({1: "b", 2: "b"}), user="ada")
    if flushed:
        lake.flush(NOTES)
    wanted = [("update_preimage", 1, "a"), ("update_postimage", 1, "b"), ("insert", 2, "b")]
    assert listed(table.changes(after=start.upto)) == wanted
    table.write(notes({1: "c"}), user="ada")
    assert listed(table.changes(after=start.upto))[:3] == wanted
    assert {row[1:] for row in listed(table.changes())} == {(1, "c"), (2, "b")}


def test_a_snapshot_of_many_looks_at_the_log_for_all_of_them(
    lake: Lakehouse, table: TableClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [f"u{number}" for number in range(20)]
    for user in users:
        table.write(notes({1: user}), user=user)
    lake.flush(NOTES, user="u3")
    looks, trail = 0, TableLog.trail

    def counted(*given: Any) -> Trail:
        nonlocal looks
        looks += 1
        return trail(*given)

    monkeypatch.setattr(TableLog, "trail", counted)
    assert [row[2] for row in listed(table.changes())] == sorted(users)
    assert looks <= 3


def test_flushes_during_a_snapshot_change_nothing_and_a_restore_ends_it(lake: Lakehouse, table: TableClient) -> None:
    users = [f"u{number}" for number in range(6)]
    for user in users:
        table.write(notes({1: user}), user=user)
    lake.flush(NOTES)
    table.write([{"id": 2, "text": user, "who": user} for user in users], user_column="who")
    end = feed(lake).end()
    rows = feed(lake).scopes_at(end)
    found = [next(rows)]
    table.write([{"id": 3, "text": "later", "who": user} for user in users], user_column="who")
    lake.flush(NOTES)
    table.write(notes({1: "later"}), user="u1")
    lake.flush(NOTES, user="u1")
    found += [next(rows), next(rows)]
    assert [(user, sorted(each.column("id").to_numpy().tolist())) for user, each in found] == [
        (user, [1, 2]) for user in users[:3]
    ]
    lake.restore(NOTES, user="u4", version=0, dry_run=False)
    next(rows)
    with pytest.raises(Ended, match="restored"):
        next(rows)


@pytest.mark.parametrize("flushed", [False, True])
def test_a_user_who_is_erased_during_a_snapshot_is_not_in_it(lake: Lakehouse, table: TableClient, flushed: bool) -> None:
    for user in ("u0", "u1", "u2"):
        table.write(notes({1: user}), user=user)
    if flushed:
        lake.flush(NOTES)
    end = feed(lake).end()
    rows = feed(lake).scopes_at(end)
    assert next(rows)[0] == "u0"
    lake.erase("u1")
    with suppress(Ended):
        assert [found.num_rows for user, found in rows if user == "u1"] in ([], [0])
    with pytest.raises(Ended):
        table.changes(after=end)


def test_an_erasure_ends_it(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "a"}), user="ada")
    upto = table.changes().upto
    lake.erase("ada")
    with pytest.raises(Ended, match="erased"):
        table.changes(after=upto)
    table.write(notes({1: "b"}), user="bob")
    assert listed(table.changes()) == [("insert", 1, "b")]


def test_another_table_of_the_name_is_another_table(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "a"}), user="ada")
    upto = table.changes().upto
    lake.drop_table(NOTES)
    make_notes(lake)
    with pytest.raises(NotFound, match="another of the same name"):
        table.changes(after=upto)


def test_a_seq_that_was_not_given_out_is_refused(table: TableClient) -> None:
    with pytest.raises(InvalidArgument, match="given out"):
        table.changes(after=1 << 40)


def test_what_is_no_longer_kept_is_refused_with_the_oldest_that_works(warehouse_uri: str, clock: Clock) -> None:
    with Lakehouse.open(warehouse_uri, clock=clock, settings=Settings(log=LogSettings(retention_seconds=60))) as lake:
        table = make_notes(lake)
        table.write(notes({1: "a"}), user="ada")
        old = table.changes().upto
        table.write(notes({2: "b"}), user="ada")
        table.write(notes({9: "z"}), user="cyd")
        lake.flush(NOTES)
        clock.forward(120)
        table.write(notes({3: "c"}), user="ada")
        lake.flush(NOTES)
        clock.forward(1)
        table.write(notes({4: "d"}), user="ada")
        with pytest.raises(InvalidArgument, match="oldest that works") as refused:
            table.changes(after=old)
        for images in (True, False):
            for user in ("ada", "cyd"):
                with pytest.raises(InvalidArgument, match="no longer kept"):
                    feed(lake, user).changes(old, images=images)
        assert feed(lake, "bob").changes(old).rows.num_rows == 0, "nothing of bob's is lost"
        oldest = int(refused.value.message.split()[-1])
        assert [row[1] for row in listed(table.changes(after=oldest))] == [3, 4]
        with pytest.raises(InvalidArgument, match=f"start at timestamp:{(clock.now - timedelta(seconds=60)):%Y-%m-%dT%H:%M:%S}"):
            start(lake, f"timestamp:{(clock.now - timedelta(seconds=121)).isoformat()}")
        moment = (clock.now.replace(microsecond=0)).isoformat()
        assert [row[1] for row in listed(table.changes(after=start(lake, f"timestamp:{moment}")))] == [4]
        assert [row[1] for row in listed(table.changes(after=start(lake, "timestamp:0")))] == [3, 4]
        assert [row[1] for row in listed(table.changes())] == [1, 2, 3, 4, 9]


def test_it_starts_at_the_end_at_a_time_or_at_a_seq(lake: Lakehouse, table: TableClient, clock: Clock) -> None:
    table.write(notes({1: "a"}), user="ada")
    upto = start(lake, "latest")
    clock.forward(10)
    table.write(notes({2: "b"}), user="ada")
    assert [row[1] for row in listed(table.changes(after=upto))] == [2]
    moment = clock.now
    assert [row[1] for row in listed(table.changes(after=start(lake, f"timestamp:{moment.isoformat()}")))] == [2]
    assert [row[1] for row in listed(table.changes(after=start(lake, "timestamp:0")))] == [1, 2]
    later = moment.replace(year=2030)
    assert listed(table.changes(after=start(lake, f"timestamp:{later.isoformat()}"))) == []
    waiting = ChangeFeed(lake.warehouse, _NAME, since=Start.parse(f"timestamp:{later.isoformat()}").at)
    table.write(notes({2: "early"}), user="ada")
    clock.now = later
    table.write(notes({2: "c", 3: "d"}), user="ada")
    assert [row[:2] for row in listed(waiting.changes(upto))] == [("update_preimage", 2), ("update_postimage", 2), ("insert", 3)]
    assert start(lake, f"seq:{upto}") == upto
    assert feed(lake).start(Start.parse("full")) is None
    for wrong in ("earliest", "seq:x", "timestamp:soon", "timestamp:", "full:1"):
        with pytest.raises(InvalidArgument):
            Start.parse(wrong)


def test_a_moment_before_a_restore_starts_behind_it(lake: Lakehouse, table: TableClient, clock: Clock) -> None:
    moment = clock.now
    table.write(notes({1: "a"}), user="ada")
    lake.flush()
    table.write(notes({1: "b"}), user="ada")
    lake.flush()
    lake.restore(NOTES, user="ada", version=0, dry_run=False)
    table.write(notes({2: "c"}), user="ada")
    upto = start(lake, f"timestamp:{moment.isoformat()}")
    assert listed(table.changes(after=upto)) == [("insert", 2, "c")]


@pytest.mark.parametrize("user", [None, "ada"])
def test_a_snapshot_has_users_of_whom_nothing_was_flushed(lake: Lakehouse, table: TableClient, user: str | None) -> None:
    table.write(notes({1: "cold"}), user="ada")
    lake.flush()
    for each in ("ada", "bob"):
        table.write(notes({2: "hot"}), user=each)
    found, upto = feed(lake, user).snapshot()
    rows = sorted((row["_user"], row["id"]) for part in found for row in part.to_pylist())
    assert rows == [row for row in (("ada", 1), ("ada", 2), ("bob", 2)) if user in (None, row[0])]
    table.write(notes({3: "later"}), user="cem")
    assert [row[1] for row in listed(feed(lake).changes(upto))] == [3]


def test_rows_that_a_vacuum_took_away_are_not_read_wrongly(warehouse_uri: str, clock: Clock) -> None:
    clock.now = system_clock()  # by which the store dates the files
    with Lakehouse.open(warehouse_uri, clock=clock, settings=Settings(log=LogSettings(retention_seconds=1e6))) as lake:
        table = make_notes(lake)
        table.write(notes({1: "a"}), user="ada")
        lake.flush(NOTES)
        upto = table.changes().upto
        table.write(notes({1: "b"}), user="ada")
        lake.flush(NOTES)
        clock.forward(4 * 86_400)
        lake.vacuum(NOTES, retain_hours=0, force=True, look=True, dry_run=False)
        with pytest.raises(InvalidArgument, match="no longer be read"):
            table.changes(after=upto)


def test_the_door_of_a_session_opens_for_its_own_rows(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "a"}), user="ada")
    table.write(notes({2: "b"}), user="bob")
    session = lake.session(user="ada", role="user")
    assert listed(session.table(NOTES).changes(after=-1)) == [("insert", 1, "a")]


def test_a_snapshot_that_is_read_late_has_the_rows_of_its_beginning(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "a"}), user="ada")
    lake.flush(NOTES)
    table.write(notes({2: "b"}), user="ada")
    snapshot, upto = feed(lake).snapshot()
    table.write(notes({1: "c"}), user="ada")
    lake.flush(NOTES)
    assert {text for rows in snapshot for text in rows.column("text").to_pylist()} == {"a", "b"}
    assert listed(table.changes(after=upto)) == [("update_preimage", 1, "a"), ("update_postimage", 1, "c")]
