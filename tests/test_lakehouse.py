"""The Python client as interface.md shows it, and how a warehouse says how it stands."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.clock import random_id
from lakewarden.base.scope import Scope, TableName
from lakewarden.base.setting_sections import MaintenanceSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.errors import Conflict, ConstraintViolation, Corrupt, InUse, InvalidArgument, NotFound
from lakewarden.tables.pins import Tag
from tests.fixtures.bucket import copy_tree, path_of, remove_tree
from tests.fixtures.children import CONTEXT, exit_statuses
from tests.fixtures.clock import Clock
from tests.fixtures.lakes import NOTES, eventual, keys, lake_fixture, make_notes, notes, scope_path, strong
from tests.fixtures.patience import PATIENCE

_START = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> Clock:
    return Clock(_START)


lake = lake_fixture(clock=True)


def test_the_interface_page(warehouse_uri: str) -> None:
    lake = Lakehouse.open(warehouse_uri)
    lake.create_namespace("chat")
    lake.create_table(
        "chat.messages",
        type="USER",
        columns=[Column("id", "BIGINT", default="SNOWFLAKE_ID()"), Column("content", "TEXT", nullable=False)],
        primary_key=["id"],
        options={"FLUSH_POLICY": "rows:1000,interval:60"},
    )
    messages = lake.table("chat.messages")
    assert messages.write([{"id": 7, "content": "a"}, {"content": "b"}], user="u_42").rows == 2
    messages.write(
        [{"id": 1, "content": "c", "tenant": "u_42"}, {"id": 1, "content": "d", "tenant": "u_43"}], user_column="tenant"
    )
    messages.write([{"id": 9, "content": "e"}], user="u_42", mode="insert")
    with pytest.raises(ConstraintViolation, match="already"):
        messages.write([{"id": 9, "content": "f"}], user="u_42", mode="insert")
    messages.delete([{"id": 7}], user="u_42")

    rows = messages.read(user="u_42", freshness="strong")
    assert isinstance(rows, pa.Table)
    assert rows.column_names == ["id", "content"]
    assert set(rows["content"].to_pylist()) == {"b", "c", "e"}
    assert messages.read(user="u_42", freshness="eventual").num_rows == 0
    assert {(str(one.table), one.user) for one in lake.pending()} == {("chat.messages", "u_42"), ("chat.messages", "u_43")}

    assert [report.outcome for report in lake.flush("chat.messages")] == ["done", "done"]
    assert messages.read(user="u_42", freshness="eventual").num_rows == 3
    assert [entry.version for entry in messages.history(user="u_42", limit=20, before_version=None)] == [0]
    assert messages.users() == ["u_42", "u_43"]
    messages.delete([{"id": 1}, {"id": 9}], user="u_42")
    lake.flush("chat.messages")
    (plan,) = lake.restore("chat.messages", user="u_42", version=0, dry_run=True)
    assert plan.outcome == "planned"
    assert messages.read(user="u_42").num_rows == 1
    lake.restore("chat.messages", user="u_42", version=0, dry_run=False)
    assert messages.read(user="u_42").num_rows == 3
    lake.close()


@pytest.mark.parametrize("shape", ["dicts", "pandas", "polars", "arrow"])
def test_rows_of_any_shape(lake: Lakehouse, shape: str) -> None:
    rows = notes({1: "a", 2: "b"})
    given = {"dicts": rows, "pandas": pd.DataFrame(rows), "polars": pl.DataFrame(rows), "arrow": pa.Table.from_pylist(rows)}[
        shape
    ]
    table = make_notes(lake)
    table.write(given, user="ann")
    assert strong(table, "ann") == {1: "a", 2: "b"}


def test_no_rows_are_no_write(lake: Lakehouse) -> None:
    table = make_notes(lake)
    assert table.write([], user="ann").rows == 0
    assert table.delete([], user="ann").rows == 0
    assert lake.pending() == []
    assert lake.flush() == []


# How it stands


def test_pending_and_status(lake: Lakehouse, clock: Clock) -> None:
    table = make_notes(lake)
    table.write(notes({1: "a"}), user="late")
    lake.flush()
    clock.now += timedelta(seconds=5)
    table.write(notes({1: "a", 2: "b"}), user="early")
    clock.now += timedelta(seconds=10)
    table.write(notes({2: "a"}), user="late")
    table.delete(keys([1]), user="late")
    clock.now += timedelta(seconds=20)

    pending = lake.pending()
    assert [(one.user, one.rows, one.oldest) for one in pending] == [
        ("early", 2, _START + timedelta(seconds=5)),
        ("late", 2, _START + timedelta(seconds=15)),
    ]
    assert all(one.bytes > 0 for one in pending)
    early, late = lake.status()
    assert (early.user, early.pending_rows, early.oldest_pending_age, early.version, early.files) == ("early", 2, 30.0, None, 0)
    assert (late.user, late.oldest_pending_age, late.version, late.files, late.last_operation) == ("late", 20.0, 0, 1, "WRITE")
    lake.flush()
    assert lake.status() == []


def test_a_table_that_cannot_be_opened_hides_no_other_in_the_status(lake: Lakehouse) -> None:
    table = make_notes(lake)
    table.write(notes({1: "a"}), user="ann")
    lake.flush()
    (scope_path(lake, "ann") / "_delta_log" / f"{0:020}.json").write_bytes(b"no commit")
    for user in ("ann", "bob"):
        table.write(notes({2: "b"}), user=user)
    ann, bob = sorted(lake.status(), key=lambda one: str(one.user))
    assert (ann.pending_rows, ann.version, bob.pending_rows, bob.error) == (1, None, 1, None)
    assert "ann" in str(ann.error)
    lake.flush(NOTES, user="bob")
    (scope_path(lake, "bob") / "_delta_log" / f"{1:020}.json").write_bytes(b"")
    table.write(notes({3: "c"}), user="bob")
    (bob,) = (one for one in lake.status() if one.user == "bob")
    assert bob.version == 0
    assert "version 1, is torn" in str(bob.error)


@pytest.mark.parametrize(
    ("policy", "rows", "seconds", "reason"),
    [
        ("rows:3", 2, 10_000, None),
        ("rows:3", 3, 0, "3 pending rows of rows:3"),
        ("interval:60", 500, 59, None),
        ("interval:60", 1, 60, "oldest row 1 min old of interval:60"),
        ("rows:3,interval:60", 2, 59, None),
        ("rows:3,interval:60", 3, 0, "3 pending rows of rows:3"),
        ("rows:3,interval:60", 1, 61, "oldest row 1 min 1 s old of interval:60"),
        (None, 1_000, 1_000_000, None),
    ],
)
def test_due(lake: Lakehouse, clock: Clock, policy: str | None, rows: int, seconds: int, reason: str | None) -> None:
    table = make_notes(lake, options={"FLUSH_POLICY": policy} if policy else None)
    table.write(notes(dict.fromkeys(range(rows), "a")), user="ann")
    clock.now += timedelta(seconds=seconds)
    assert [one.reason for one in lake.due()] == ([reason] if reason else [])
    assert [(plan.operation, plan.reason) for plan in lake.plan()] == ([("flush", reason)] if reason else [])
    assert lake.flush_scopes([one.pending.scope for one in lake.due()]) == [] or reason
    assert bool(lake.pending()) == (reason is None)


def test_flush_of_some_scopes(lake: Lakehouse) -> None:
    table = make_notes(lake)
    for user in ("ann", "bob", "cyd"):
        table.write(notes({1: user}), user=user)
    scopes = [Scope(TableName.parse(NOTES), user) for user in ("ann", "nobody")]
    assert [report.scope.user for report in lake.flush_scopes(scopes)] == ["ann"]
    assert [report.scope.user for report in lake.flush(NOTES, user="bob")] == ["bob"]
    assert [one.user for one in lake.pending()] == ["cyd"]


@pytest.mark.slow
def test_plan_says_what_maintenance_would_do_and_does_nothing(lake: Lakehouse, clock: Clock) -> None:
    clock.now = datetime.now(UTC)
    table = make_notes(lake)
    for number in range(6):
        table.write(notes({number: "a"}), user="ann")
        lake.flush()
    table.write(notes({0: "b"}), user="ann")
    lake.flush()
    clock.now += timedelta(days=9)
    planned = {plan.operation: plan for plan in lake.plan(NOTES)}
    assert planned.keys() == {"compact", "optimize", "vacuum"}
    assert all(plan.outcome == "planned" and plan.reason for plan in planned.values())
    assert len(table.history(user="ann")) == 7
    assert lake.plan(NOTES) == list(planned.values())
    with pytest.raises(NotFound):
        lake.plan("chat.nope")


# Check


def _bad(lake: Lakehouse) -> list[tuple[str, str, str]]:
    return [(finding.subject, finding.check, finding.code) for finding in lake.check() if not finding.passed]


def test_check_finds_nothing_wrong(lake: Lakehouse) -> None:
    table = make_notes(lake)
    table.write(notes({1: "a"}), user="ann")
    lake.flush()
    table.write(notes({2: "a"}), user="bob")
    assert _bad(lake) == []
    assert {finding.subject for finding in lake.check()} >= {"storage local", f"{NOTES}[ann]"}
    assert lake.check("local") == lake.check()


def test_check_finds_an_unreadable_file(lake: Lakehouse) -> None:
    table = make_notes(lake)
    for user in ("ann", "bob"):
        table.write(notes({1: "a"}), user=user)
    lake.flush()
    (data,) = scope_path(lake, "ann").glob("*.parquet")
    data.write_bytes(data.read_bytes()[:100] + b"\0" * 500)
    assert _bad(lake) == [(f"{NOTES}[ann]", "readable", "CORRUPT")]
    data.unlink()
    assert _bad(lake) == [(f"{NOTES}[ann]", "readable", "CORRUPT")]


def test_check_finds_a_table_that_was_copied_over(lake: Lakehouse) -> None:
    """A younger copy's log gives the same numbers out again: what was flushed from it would be taken for done already."""
    table = make_notes(lake)
    for number in range(3):
        table.write(notes({number: "a"}), user="ann")
        lake.flush()
    remove_tree(path_of(lake.warehouse.uri) / "_lakewarden" / "log")
    assert _bad(lake) == [(NOTES, "floor", "CORRUPT"), (f"{NOTES}[ann]", "log_and_table_agree", "CORRUPT")]


def test_a_scope_of_another_warehouse_is_no_scope_of_ours(lake: Lakehouse, tmp_path: Path) -> None:
    """Its watermark is another log's, which says nothing about our rows: none is read, and none is flushed on top."""
    table = make_notes(lake)
    table.write(notes({1: "ours"}), user="ann")
    lake.flush()
    with Lakehouse.open(str(tmp_path / "other")) as other:
        make_notes(other).write(notes({1: "theirs", 2: "theirs"}), user="ann")
        other.flush()
        remove_tree(scope_path(lake, "ann"))
        copy_tree(scope_path(other, "ann"), scope_path(lake, "ann"))
    assert _bad(lake) == [(f"{NOTES}[ann]", "scope", "CORRUPT")]
    table.write(notes({1: "ours again"}), user="ann")
    for read in (strong, eventual):
        with pytest.raises(Corrupt, match="another scope, not to"):
            read(table, "ann")
    (report,) = lake.flush()
    assert report.fault is not None
    assert report.fault.code == "CORRUPT"
    assert [one.rows for one in lake.pending()] == [1]


def test_check_finds_a_scope_that_was_copied_from_another_user(lake: Lakehouse) -> None:
    table = make_notes(lake)
    for user in ("ann", "bob"):
        table.write(notes({1: f"of {user}"}), user=user)
    lake.flush()
    remove_tree(scope_path(lake, "bob"))
    copy_tree(scope_path(lake, "ann"), scope_path(lake, "bob"))
    (finding,) = [found for found in lake.check() if not found.passed]
    assert finding.subject == f"{NOTES}[bob]"
    assert finding.message == "it was copied here: its last flush was one of user 'ann'"


# Tags, inserts, drops


def test_a_tag_keeps_a_version_from_the_vacuum(lake: Lakehouse, clock: Clock) -> None:
    clock.now = datetime.now(UTC)
    table = make_notes(lake)
    for text in ("a", "b", "c"):
        for user in ("ann", "bob"):
            table.write(notes({1: text}), user=user)
        lake.flush()
    assert lake.tag(NOTES, "before-c", user="ann", version=1).version == 1
    clock.now += timedelta(days=9)
    assert {report.outcome for report in lake.vacuum(NOTES, dry_run=False)} == {"done"}
    for version, user, works in ((0, "ann", False), (1, "ann", True), (1, "bob", False)):
        (report,) = lake.restore(NOTES, user=user, version=version, dry_run=False)
        assert (report.fault is None) == works, report
    assert eventual(table, "ann") == {1: "b"}
    assert eventual(table, "bob") == {1: "c"}

    assert lake.tags(NOTES) == lake.tags(NOTES, user="ann") == [Tag("before-c", "ann", 1)]
    assert lake.tags(NOTES, user="bob") == []
    with pytest.raises(NotFound, match="no tag 'other'; there are before-c"):
        lake.drop_tag(NOTES, "other", user="ann")
    lake.drop_tag(NOTES, "before-c", user="ann")
    clock.now += timedelta(days=9)
    lake.vacuum(NOTES, dry_run=False)
    (report,) = lake.restore(NOTES, user="ann", version=1, dry_run=False)
    assert report.fault is not None


def _insert(uri: str, worker: int, together: Barrier, directory: str) -> None:
    with Lakehouse.open(uri) as lake:
        table = lake.table(NOTES)
        for key in range(20):
            together.wait(PATIENCE)
            try:
                table.write(notes({key: f"by {worker}"}), user="ann", mode="insert")
            except (ConstraintViolation, Conflict):
                continue
            (Path(directory) / f"{key}-{worker}").touch()


@pytest.mark.slow
def test_of_two_inserts_of_one_key_exactly_one_wins(lake: Lakehouse, warehouse_uri: str, tmp_path: Path) -> None:
    table = make_notes(lake)
    won = tmp_path / "won"
    won.mkdir()
    together = CONTEXT.Barrier(2)
    assert exit_statuses([(_insert, warehouse_uri, worker, together, str(won)) for worker in range(2)]) == [0, 0]
    winners = dict(path.name.split("-") for path in won.iterdir())
    assert len(list(won.iterdir())) == len(winners) == 20
    assert strong(table, "ann") == {int(key): f"by {worker}" for key, worker in winners.items()}


def test_a_dropped_table_leaves_its_place_to_another(lake: Lakehouse, warehouse_uri: str) -> None:
    table = make_notes(lake)
    for user in ("ann", "bob"):
        table.write(notes({1: "old"}), user=user)
    lake.flush()
    table.write(notes({2: "hot"}), user="ann")
    lake.drop_table(NOTES)
    assert lake.tables() == []
    with pytest.raises(NotFound):
        table.write(notes({3: "late"}), user="ann")

    again = lake.create_table(
        NOTES, type="USER", columns=[Column("day", "DATE"), Column("id", "TEXT")], primary_key=["day", "id"]
    )
    assert again.read(user="ann").num_rows == again.read(user="ann", freshness="eventual").num_rows == 0
    assert again.users() == []
    rows = [{"day": datetime(2026, 1, 2, tzinfo=UTC).date(), "id": "x"}]
    again.write(rows, user="ann")
    assert [report.outcome for report in lake.flush()] == ["done"]
    assert again.read(user="ann", freshness="eventual").to_pylist() == rows
    assert _bad(lake) == []
    with Lakehouse.open(warehouse_uri) as other:
        assert other.table(NOTES).read(user="ann").to_pylist() == rows


def test_namespaces_and_storages(lake: Lakehouse, tmp_path: Path) -> None:
    make_notes(lake)
    lake.create_storage(
        "cold", type="filesystem", base=str(tmp_path / "cold"), user_template="{namespace}/{tableName}/u={userId}"
    )
    table = lake.create_table(
        "chat.there", type="USER", columns=[Column("id", "BIGINT")], primary_key=["id"], options={"STORAGE_ID": "cold"}
    )
    table.write(keys([1]), user="ann")
    lake.flush()
    assert (tmp_path / "cold" / "chat" / "there" / "u=ann" / "_delta_log").is_dir()
    assert [one.name for one in lake.namespaces()] == ["chat"]
    assert [one.id for one in lake.storages()] == ["local", "cold"]
    lake.drop_namespace("chat", cascade=True)
    assert lake.tables() == []
    lake.drop_storage("cold")
    assert [one.id for one in lake.storages()] == ["local"]


def test_a_warehouse_moves_by_copying(lake: Lakehouse, warehouse_uri: str) -> None:
    table = make_notes(lake)
    table.write(notes({1: "cold"}), user="ann")
    lake.flush()
    table.write(notes({2: "hot"}), user="ann")
    here = path_of(warehouse_uri)
    copy_tree(here, here.parent / "moved")
    remove_tree(here)
    with Lakehouse.open(str(here.parent / "moved")) as moved:
        there = moved.table(NOTES)
        assert strong(there, "ann") == {1: "cold", 2: "hot"}
        moved.flush()
        assert eventual(there, "ann") == {1: "cold", 2: "hot"}


def test_a_shared_table_knows_no_user(lake: Lakehouse) -> None:
    lake.create_namespace("chat")
    table = lake.create_table("chat.rooms", columns=[Column("id", "BIGINT")], primary_key=["id"])
    with pytest.raises(InvalidArgument, match="SHARED"):
        table.write(keys([1]), user="ann")
    with pytest.raises(InvalidArgument, match="SHARED"):
        table.write(keys([1]), user_column="id")
    table.write(keys([1, 2]))
    lake.flush()
    table.write(keys([3]))
    assert table.read().num_rows == 3
    (report,) = lake.restore("chat.rooms", version=0, dry_run=False, discard_pending=True)
    assert report.fault is None
    assert table.read().num_rows == 2


def test_a_vacuum_lets_go_of_old_jobs_and_acts(warehouse_uri: str, clock: Clock) -> None:
    kept = Settings(maintenance=MaintenanceSettings(job_retention_days=10, audit_retention_days=20))
    with Lakehouse.open(warehouse_uri, clock=clock, settings=kept) as lake:
        table = make_notes(lake)
        lake.sql("CREATE USER ann WITH PASSWORD 'a long enough one' ROLE user", role="dba")
        table.write(notes({1: "a"}), user="ann")
        lake.flush()
        audit = AuditLog(lake.warehouse.state, clock, random_id)

        def left(days: int) -> tuple[list[str], list[str]]:
            clock.now += timedelta(days=days)
            lake.vacuum(dry_run=False)
            return [job.message for job in lake.jobs()], [entry.action for entry in audit.newest()]

        assert left(9) == (["1 done"], ["CREATE_USER"])
        assert left(2) == (["removed 1 jobs and 0 entries of the audit log, which were too old"], ["CREATE_USER"])
        assert left(10)[1] == []


def test_a_warehouse_within_another_is_refused(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        for inside in ("data", "data/chat/notes"):
            with pytest.raises(InUse, match="is inside the one at"):
                Lakehouse.open(f"{lake.warehouse.uri}/{inside}")
            assert not path_of(f"{warehouse_uri}/{inside}/_lakewarden").exists()
    Lakehouse.open(f"{warehouse_uri}-2").close()
