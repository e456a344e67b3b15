"""A block beside what else happens to its table; and what a block refuses, or keeps within."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta

import pytest

from lakewarden import Lakehouse
from lakewarden.base.clock import system_clock
from lakewarden.base.setting_sections import LogSettings, SqlSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import (
    BadSyntax,
    BeingErased,
    Conflict,
    FailedPrecondition,
    LakewardenError,
    NotFound,
    Unsupported,
)
from lakewarden.sql.results import AffectedRows, ResultRows, StatementDone
from lakewarden.sql.session import SqlSession
from lakewarden.sql.session_block import FailedBlock, IdleBlock, NoBlock, NoSavepoint, ReadOnlyBlock
from tests.fixtures.examples import examples

_SETTINGS = Settings(sql=SqlSettings(block_bytes=1 << 16, block_idle_seconds=60), log=LogSettings(segment_max_rows=4))


_BLOCKS_EACH = examples(5, gate=3)


class _Clock:
    def __init__(self) -> None:
        self.moved = timedelta(0)

    def __call__(self) -> datetime:
        return system_clock() + self.moved


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def lake(warehouse_uri: str, clock: _Clock) -> Iterator[Lakehouse]:
    with Lakehouse.open(warehouse_uri, settings=_SETTINGS, clock=clock) as opened:
        opened.sql(
            "CREATE NAMESPACE n; CREATE USER TABLE n.u (id BIGINT PRIMARY KEY, v TEXT);"
            " CREATE SHARED TABLE n.s (id BIGINT PRIMARY KEY, v TEXT);"
            " CREATE STREAM TABLE n.events (id BIGINT, v TEXT) WITH (TTL_SECONDS = 600)"
        )
        yield opened


@pytest.fixture
def ann(lake: Lakehouse) -> SqlSession:
    return lake.session(user="ann", role="dba")


def _ids(session: SqlSession, table: str) -> list[object]:
    found = session.sql(f"SELECT id FROM {table} ORDER BY id")[-1]
    assert isinstance(found, ResultRows)
    return found.table.column("id").to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("table", ["n.u", "n.s", "n.events"])
def test_a_block_has_one_position_however_many_rows_it_has(lake: Lakehouse, ann: SqlSession, table: str) -> None:
    ann.sql(
        f"BEGIN; INSERT INTO {table} SELECT range, 'v' FROM range(5); INSERT INTO {table} SELECT 10 + range, 'w' FROM range(5)"
    )
    assert _ids(lake.session(user="ann", role="dba"), table) == []
    ann.sql("COMMIT")
    found = ann.sql(f"SELECT min(_seq) // 268435456 AS first, max(_seq) // 268435456 AS last, count(*) AS n FROM {table}")[-1]
    assert isinstance(found, ResultRows)
    assert found.to_pylist() == [{"first": found.table[0][0].as_py(), "last": found.table[0][0].as_py(), "n": 10}]


def test_rows_of_a_stream_are_removed_again_within_the_block(ann: SqlSession) -> None:
    ann.sql("INSERT INTO n.events VALUES (1, 'committed'), (2, 'committed')")
    ann.sql("BEGIN; INSERT INTO n.events VALUES (3, 'x'), (4, 'x'); DELETE FROM n.events WHERE id IN (1, 3)")
    assert _ids(ann, "n.events") == [2, 4]
    ann.sql("COMMIT")
    assert _ids(ann, "n.events") == [2, 4]


def test_a_flush_and_a_compaction_beside_a_block_do_no_harm(lake: Lakehouse, ann: SqlSession) -> None:
    ann.sql("INSERT INTO n.u VALUES (1, 'a')")
    lake.flush()
    ann.sql("INSERT INTO n.u VALUES (2, 'b')")
    ann.sql("BEGIN; UPDATE n.u SET v = 'mine' WHERE true; DELETE FROM n.u WHERE id = 2")
    lake.flush()
    lake.compact()
    assert _ids(ann, "n.u") == [1]
    assert ann.sql("COMMIT") == [StatementDone("COMMIT")]
    assert _ids(ann, "n.u") == [1]


def test_what_a_block_saw_of_a_row_first_counts(lake: Lakehouse, ann: SqlSession) -> None:
    """Its own row hides what others write meanwhile."""
    ann.sql("INSERT INTO n.u VALUES (1, 'a')")
    ann.sql("BEGIN; UPDATE n.u SET v = v || '1' WHERE id = 1")
    lake.sql("UPDATE n.u SET v = 'theirs' WHERE id = 1", user="ann")
    ann.sql("UPDATE n.u SET v = v || '2' WHERE id = 1")
    found = ann.sql("SELECT v FROM n.u")[-1]
    assert isinstance(found, ResultRows)
    assert found.to_pylist() == [{"v": "a12"}]
    with pytest.raises(Conflict, match="run it again"):
        ann.sql("COMMIT")


@pytest.mark.parametrize("table", ["n.u", "n.s"])
def test_a_restore_of_the_rows_that_a_block_writes_is_a_conflict(lake: Lakehouse, ann: SqlSession, table: str) -> None:
    user = "ann" if table == "n.u" else None
    ann.sql(f"INSERT INTO {table} VALUES (1, 'old')")
    lake.flush()
    ann.sql(f"UPDATE {table} SET v = 'new' WHERE id = 1")
    lake.flush()
    ann.sql(f"BEGIN; UPDATE {table} SET v = v || '!' WHERE id = 1")
    lake.restore(table, user=user, version=0, dry_run=False)
    with pytest.raises(Conflict, match="run it again"):
        ann.sql("COMMIT")
    found = ann.sql(f"SELECT v FROM {table}")[-1]
    assert isinstance(found, ResultRows)
    assert found.to_pylist() == [{"v": "old"}]


@pytest.mark.parametrize("table", ["n.u", "n.events"])
def test_an_erasure_ends_the_blocks_that_began_before_it(lake: Lakehouse, ann: SqlSession, table: str) -> None:
    ann.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    ann.sql(f"BEGIN; INSERT INTO {table} VALUES (2, 'of before')")
    lake.erase("ann")
    with pytest.raises((Conflict, BeingErased)):
        ann.sql("COMMIT")
    assert _ids(ann, table) == []
    ann.sql(f"BEGIN; INSERT INTO {table} VALUES (3, 'of now'); COMMIT")
    assert _ids(ann, table) == [3]


@pytest.mark.parametrize("change", ["ADD COLUMN w TEXT", "DROP COLUMN v", "RENAME COLUMN v TO x"])
def test_an_alter_ends_the_blocks_that_wrote_before_it(lake: Lakehouse, ann: SqlSession, change: str) -> None:
    ann.sql("BEGIN; INSERT INTO n.u VALUES (1, 'a')")
    lake.sql(f"ALTER TABLE n.u {change}")
    with pytest.raises(Conflict, match="altered"):
        ann.sql("COMMIT")
    ann.sql("BEGIN; INSERT INTO n.u (id) VALUES (1)")
    lake.sql("ALTER TABLE n.u ADD COLUMN more TEXT")
    with pytest.raises(Conflict, match="altered"):
        ann.sql("INSERT INTO n.u (id) VALUES (2)")
    ann.sql("ROLLBACK")
    assert _ids(ann, "n.u") == []


def test_a_table_that_was_dropped_takes_nothing(lake: Lakehouse, ann: SqlSession) -> None:
    ann.sql("BEGIN; INSERT INTO n.u VALUES (1, 'a')")
    lake.sql("DROP TABLE n.u")
    with pytest.raises(NotFound, match=r"there is no table n\.u"):
        ann.sql("COMMIT")
    lake.sql("CREATE USER TABLE n.u (id BIGINT PRIMARY KEY, v TEXT)")
    ann.sql("BEGIN; INSERT INTO n.u VALUES (1, 'a')")
    lake.sql("DROP TABLE n.u; CREATE USER TABLE n.u (id BIGINT PRIMARY KEY, v TEXT)")
    with pytest.raises(Conflict, match="altered or replaced"):
        ann.sql("COMMIT")
    assert _ids(ann, "n.u") == []


def test_a_block_writes_to_one_scope(lake: Lakehouse, ann: SqlSession) -> None:
    lake.sql("CREATE SHARED TABLE n.keyless (id BIGINT); CREATE USER TABLE n.filed (id BIGINT PRIMARY KEY, f FILE)")
    refused = {
        "INSERT INTO n.s VALUES (1, 'x')": "writes to one table",
        "EXECUTE AS USER 'bob' (INSERT INTO n.u VALUES (1, 'x'))": "rows of one user",
        "INSERT INTO n.keyless VALUES (1)": "writes to one table",
        "ALTER TABLE n.s ADD COLUMN w TEXT": "COMMIT first",
        "CREATE NAMESPACE m": "COMMIT first",
    }
    for text, why in refused.items():
        ann.sql("BEGIN; INSERT INTO n.u VALUES (7, 'kept')")
        with pytest.raises(Unsupported, match=why):
            ann.sql(text)
        assert ann.sql("COMMIT") == [StatementDone("ROLLBACK")]
    for text in ("INSERT INTO n.keyless VALUES (1)", "TRUNCATE TABLE n.s", "INSERT INTO n.filed VALUES (1, NULL)"):
        with pytest.raises(Unsupported, match="outside a block"):
            ann.sql(f"BEGIN; {text}")
        ann.sql("ROLLBACK")
    assert _ids(ann, "n.u") == _ids(ann, "n.s") == _ids(ann, "n.keyless") == []
    ann.sql(
        "BEGIN; UPDATE n.s SET v = 'none' WHERE id = 1; INSERT INTO n.u SELECT id, v FROM n.s; INSERT INTO n.u VALUES (1, 'a')"
    )
    assert ann.sql("SELECT u.id FROM n.u u LEFT JOIN n.s s ON s.id = u.id; COMMIT")[-1] == StatementDone("COMMIT")
    assert _ids(ann, "n.u") == [1]


def test_a_block_is_within_its_bound(ann: SqlSession) -> None:
    ann.sql("BEGIN; INSERT INTO n.u VALUES (1, 'a'); SAVEPOINT a")
    with pytest.raises(Unsupported, match=r"sql\.block_bytes"):
        ann.sql("INSERT INTO n.u SELECT 2 + range, repeat('x', 100) FROM range(1000)")
    ann.sql("ROLLBACK TO a; COMMIT")
    assert _ids(ann, "n.u") == [1]


def test_a_block_that_was_idle_is_dropped(ann: SqlSession, clock: _Clock) -> None:
    ann.sql("BEGIN; INSERT INTO n.u VALUES (1, 'a'); SAVEPOINT A")
    clock.moved += timedelta(seconds=31)
    ann.sql("SELECT 1")
    clock.moved += timedelta(seconds=31)
    ann.sql("SELECT 1")
    clock.moved += timedelta(seconds=61)
    with pytest.raises(IdleBlock, match=r"sql\.block_idle_seconds"):
        ann.sql("COMMIT")
    with pytest.raises(NoSavepoint):
        ann.sql("ROLLBACK TO a")
    with pytest.raises(FailedBlock):
        ann.sql("INSERT INTO n.u VALUES (2, 'b')")
    with pytest.raises(FailedBlock):
        ann.table("n.u").write([{"id": 3, "v": "c"}])
    assert ann.sql("COMMIT") == [StatementDone("ROLLBACK")]
    assert _ids(ann, "n.u") == []


def test_a_block_that_failed_waits_for_its_end(ann: SqlSession) -> None:
    for wrong, error in {"SELEC": BadSyntax, "SELECT * FROM n.nowhere": NotFound, "SELECT 1 // 'x'": LakewardenError}.items():
        ann.sql("BEGIN; INSERT INTO n.u VALUES (1, 'never')")
        with pytest.raises(error):
            ann.sql(wrong)
        with pytest.raises(FailedBlock):
            ann.sql("SELECT 1")
        assert ann.sql("ROLLBACK") == [StatementDone("ROLLBACK")]
        assert _ids(ann, "n.u") == []


def test_statements_of_blocks_where_they_do_not_belong(lake: Lakehouse, ann: SqlSession) -> None:
    for text in ("COMMIT", "ROLLBACK", "SAVEPOINT a", "RELEASE SAVEPOINT a", "ROLLBACK TO a", "BEGIN; BEGIN"):
        with pytest.raises(NoBlock):
            ann.sql(text)
        if text == "BEGIN; BEGIN":
            ann.sql("ROLLBACK")
    with pytest.raises(NoSavepoint):
        ann.sql("BEGIN; SAVEPOINT a; RELEASE a; ROLLBACK TO a")
    ann.sql("ROLLBACK")
    with pytest.raises(ReadOnlyBlock):
        ann.sql("START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY; INSERT INTO n.u VALUES (1, 'a')")
    ann.sql("ABORT WORK")
    for text in ("EXECUTE AS USER 'bob' (BEGIN)", "BEGIN LATER", "COMMIT AND MORE"):
        with pytest.raises(BadSyntax):
            ann.sql(text)
    with pytest.raises(FailedPrecondition, match="end it with COMMIT"):
        lake.sql("BEGIN; INSERT INTO n.s VALUES (1, 'a')")
    assert _ids(ann, "n.s") == []
    lake.sql("BEGIN; INSERT INTO n.s VALUES (1, 'a'); COMMIT; INSERT INTO n.s VALUES (2, 'b')")
    assert _ids(ann, "n.s") == [1, 2]


def test_a_block_carries_what_its_caller_attached(lake: Lakehouse, ann: SqlSession) -> None:
    for how in ('SET commit_metadata = \'{"by": "set"}\'; COMMIT', "COMMIT"):
        ann.sql("BEGIN")
        ann.table("n.u").write([{"id": 1, "v": how}], metadata={"by": "table"})
        ann.sql(how)
        ann.sql("SET commit_metadata = '{}'")
        lake.flush()
    assert [entry.metadata for entry in lake.table("n.u").history(user="ann")] == [{"by": "table"}, {"by": "set"}]


def test_temporary_tables_are_set_back(ann: SqlSession) -> None:
    ann.sql("CREATE TEMPORARY TABLE n.t (id BIGINT); INSERT INTO n.t VALUES (1)")
    ann.sql("BEGIN; INSERT INTO n.t VALUES (2); SAVEPOINT a; DROP TEMPORARY TABLE n.t; ROLLBACK TO a")
    assert _ids(ann, "n.t") == [1, 2]
    ann.sql("INSERT INTO n.u SELECT id, 'from it' FROM n.t; ROLLBACK")
    assert _ids(ann, "n.t") == [1]
    assert _ids(ann, "n.u") == []


@pytest.mark.slow
def test_large_and_small_writes_meet_in_one_block(ann: SqlSession) -> None:
    """More than a hundred keys are compared by a scan."""
    ann.sql("INSERT INTO n.u SELECT range, 'v' FROM range(150)")
    found = ann.sql(
        "BEGIN; UPDATE n.u SET v = 'w' WHERE id % 2 = 0; DELETE FROM n.u WHERE id >= 140; INSERT INTO n.u VALUES (140, 'x')"
    )
    assert [each for each in found if isinstance(each, AffectedRows)] == [AffectedRows(75), AffectedRows(10), AffectedRows(1)]
    ann.sql("COMMIT")
    counted = ann.sql("SELECT v, count(*) AS n FROM n.u GROUP BY v ORDER BY v")[-1]
    assert isinstance(counted, ResultRows)
    assert counted.to_pylist() == [{"v": "v", "n": 70}, {"v": "w", "n": 70}, {"v": "x", "n": 1}]


def _counts(opened: Lakehouse, table: str, number: int) -> None:
    """Raises the counter in so many blocks, each with a row of its own, and runs a block again that lost its race."""
    session, done = opened.session(user="ann", role="system"), 0
    while done < _BLOCKS_EACH:
        session.sql(f"BEGIN; UPDATE {table} SET v = (v::INT + 1)::TEXT WHERE id = 0")
        session.sql(f"INSERT INTO {table} VALUES ({100 * number + done + 1}, 'of {number}')")
        with suppress(Conflict):
            session.sql("COMMIT")
            done += 1


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.parametrize("table", ["n.u", "n.s"])
def test_no_count_of_many_blocks_at_once_is_lost(lake: Lakehouse, warehouse_uri: str, table: str) -> None:
    """Of two handles of the warehouse, as two processes have them, with two threads each."""
    lake.sql(f"INSERT INTO {table} VALUES (0, '0')", user="ann")
    with Lakehouse.open(warehouse_uri, settings=_SETTINGS) as other, ThreadPoolExecutor(4) as pool:
        for ran in [pool.submit(_counts, opened, table, number) for number, opened in enumerate((lake, other) * 2)]:
            ran.result()
    found = lake.sql(f"SELECT max(v) FILTER (id = 0) AS v, count(*) AS n FROM {table}", user="ann")[-1]
    assert isinstance(found, ResultRows)
    assert found.to_pylist() == [{"v": str(4 * _BLOCKS_EACH), "n": 4 * _BLOCKS_EACH + 1}]
