"""What a statement that writes says of itself, and what one past the log does beside rows that wait in it (K3-77 to K3-100)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable

from lakewarden import Column, Lakehouse
from lakewarden.errors import Conflict, ConstraintViolation, NotFound
from lakewarden.maintenance.admin import create_table
from lakewarden.sql.results import AffectedRows, ResultRows
from lakewarden.sql.session import SqlSession, open_session
from lakewarden.sql.statements import create_as
from lakewarden.tables.client.direct import DirectWrites
from tests.fixtures.lakes import lake_fixture

_TABLES = """
CREATE NAMESPACE app;
CREATE SHARED TABLE app.t (id INT PRIMARY KEY, n INT, v TEXT);
CREATE USER TABLE app.mine (id INT PRIMARY KEY, v TEXT);
INSERT INTO app.t VALUES (1, 1, 'one'), (2, 2, 'two'), (3, 3, 'three');
"""


lake = lake_fixture(sql=_TABLES)


@pytest.fixture
def k3(lake: Lakehouse) -> SqlSession:
    """A session by K3's rules, in the namespace of the tables."""
    session = open_session(lake._parts.services, "root", "system", rules="k3")
    session.sql("USE app")
    return session


def write(session: SqlSession | Lakehouse, text: str) -> AffectedRows:
    (found,) = session.sql(text)
    assert isinstance(found, AffectedRows)
    return found


def rows(lake: Lakehouse, query: str = "SELECT v FROM app.t ORDER BY id") -> list[object]:
    (found,) = lake.sql(query)
    assert isinstance(found, ResultRows)
    return found.table.column(0).to_pylist()


def _positions(lake: Lakehouse) -> int:
    return lake.table("app.t").log.view().end


def test_a_write_says_how_it_was_done(lake: Lakehouse) -> None:
    done = write(lake, "UPDATE app.t SET n = 9 WHERE id = 1")
    assert (done.rows, done.strategy.wire, done.pending_drain, done.version) == (1, "WRITE_STRATEGY_KEYED_UPDATE", True, None)
    assert done.warnings == ()
    assert "gives one value to each column of the key (id)" in done.strategy_reason


def test_a_range_is_one_call_and_without_keys_none(lake: Lakehouse) -> None:
    before = _positions(lake)
    assert write(lake, "UPDATE app.t SET n = n + 10 WHERE id BETWEEN 1 AND 2").rows == 2
    once = _positions(lake)
    none = write(lake, "DELETE FROM app.t WHERE id > 100")
    assert (none.rows, none.strategy.name, none.pending_drain) == (0, "KEYED_RANGE_DELETE", False)
    assert _positions(lake) == once
    assert len(lake.table("app.t").log.view().pending) == 1
    assert once > before
    merged = "MERGE INTO app.t USING (VALUES (1), (7)) AS s(id) ON t.id = s.id"
    write(lake, f"{merged} WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'seven')")
    assert _positions(lake) - once == once - before, "one position, as the range"
    assert rows(lake) == ["two", "three", "seven"]


@pytest.mark.slow
def test_k_3_s_update_past_the_log_is_undone_by_a_flush_unless_one_came_first(lake: Lakehouse, k3: SqlSession) -> None:
    lake.flush("app.t")
    write(k3, "UPDATE t SET v = 'pending' WHERE id = 1")
    done = write(k3, "UPDATE t SET v = 'direct' WHERE n = 1")
    assert (done.rows, done.strategy.name, done.pending_drain, done.version) == (1, "NON_KEYED_UPDATE", False, 1)
    assert "flush the table first" in done.warnings[0]
    lake.flush("app.t")
    assert rows(lake)[0] == "pending", "K3-96"
    write(k3, "UPDATE t SET v = 'pending too' WHERE id = 1")
    lake.flush("app.t")
    write(k3, "UPDATE t SET v = 'direct' WHERE n = 1")
    lake.flush("app.t")
    assert rows(lake)[0] == "direct", "K3-97"


def test_k_3_needs_no_where(lake: Lakehouse, k3: SqlSession) -> None:
    lake.flush("app.t")
    done = write(k3, "UPDATE t SET v = 'all'")
    assert (done.rows, done.strategy.name) == (3, "NON_KEYED_UPDATE")
    assert rows(lake) == ["all"] * 3
    assert (write(k3, "DELETE FROM t").rows, rows(lake)) == (3, [])


def test_k_3_s_rules_are_not_for_user_tables(k3: SqlSession) -> None:
    write(k3, "INSERT INTO mine VALUES (1, 'one')")
    assert write(k3, "UPDATE mine SET v = 'all'").strategy.name == "KEYED_RANGE"


def test_a_merge_counts_the_rows_of_its_source_by_k_3_s_rules(lake: Lakehouse, k3: SqlSession) -> None:
    text = (
        "MERGE INTO app.t USING (VALUES (1, 'one'), (2, 'TWO')) AS s(id, v) ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
    )
    assert write(k3, text).rows == 2
    assert write(lake, text).rows == 0


def test_an_overwrite_flushes_what_waits_and_is_one_commit(lake: Lakehouse) -> None:
    done = write(lake, "INSERT OVERWRITE app.t VALUES (9, 9, 'nine')")
    history = lake.table("app.t").history()
    assert (done.version, done.pending_drain) == (1, False)
    assert [entry.version for entry in history] == [1, 0]
    lake.flush("app.t")
    assert rows(lake) == ["nine"]


def test_what_fails_writes_nothing(lake: Lakehouse, k3: SqlSession) -> None:
    lake.flush("app.t")
    end = _positions(lake)
    for text in (
        "UPDATE app.t SET n = 3000000000 WHERE n > 1",
        "INSERT OVERWRITE app.t VALUES (1, 1, 'x'), (NULL, 1, 'x')",
        "MERGE INTO app.t USING (VALUES (1), (3)) s(id) ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.id * 1e9::BIGINT",
    ):
        with pytest.raises(ConstraintViolation, match=r"column '(n|id)'"):
            k3.sql(text)
    assert (_positions(lake), len(lake.table("app.t").history())) == (end, 1)
    assert rows(lake) == ["one", "two", "three"]


def test_a_table_that_cannot_be_filled_from_its_query_is_not_left(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise Conflict("others kept writing")

    monkeypatch.setattr(DirectWrites, "overwrite", lost)
    with pytest.raises(Conflict, match="kept writing"):
        lake.sql("CREATE TABLE app.new AS SELECT 1 AS a")
    assert rows(lake, "SELECT table_name FROM system.tables ORDER BY 1") == ["mine", "t"]


class Died(BaseException):
    """The process was killed here."""


@pytest.mark.parametrize("table", ["TABLE", "USER TABLE"])
@pytest.mark.parametrize("at", ["filling", "filled"])
def test_a_table_that_dies_before_it_has_its_rows_never_appeared(
    lake: Lakehouse, monkeypatch: pytest.MonkeyPatch, table: str, at: str
) -> None:
    def dies(*_: object) -> None:
        raise Died

    text = f"CREATE {table} app.new PRIMARY KEY (a) AS SELECT 1 AS a"
    with monkeypatch.context() as patched:
        patched.setattr(*((create_as, "_fill") if at == "filling" else (create_table, "show_table")), dies)
        with pytest.raises(Died):
            lake.sql(text)
    assert rows(lake, "SELECT table_name FROM system.tables ORDER BY 1") == ["mine", "t"]
    with pytest.raises(NotFound):
        lake.sql("SELECT * FROM app.new")
    lake.sql(text)
    assert rows(lake, "SELECT a FROM app.new") == [1]
    lake.flush("app.new")
    assert not [finding for finding in lake.check() if not finding.passed]


def by_sql(lake: Lakehouse) -> None:
    lake.sql("CREATE TABLE app.new (id INT PRIMARY KEY)")


def by_call(lake: Lakehouse) -> None:
    lake.create_table("app.new", columns=[Column("id", "INT")], primary_key=["id"], if_not_exists=True)


@pytest.mark.parametrize("create", [by_sql, by_call])
@pytest.mark.parametrize("drop", [True, False], ids=["dropped", "as it is"])
def test_the_name_of_a_table_that_died_is_free(
    lake: Lakehouse, monkeypatch: pytest.MonkeyPatch, drop: bool, create: Callable[[Lakehouse], None]
) -> None:
    def dies(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(create_table, "show_table", dies)
        with pytest.raises(Died):
            lake.sql("CREATE TABLE app.new AS SELECT 1 AS a")
    if drop:
        lake.drop_table("app.new")
    create(lake)
    assert rows(lake, "SELECT id FROM app.new") == []


def test_nobody_sees_a_table_before_its_rows(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    fill = create_as._fill

    def looks(*given: Any) -> None:
        seen.extend(rows(lake, "SELECT table_name FROM system.tables ORDER BY 1"))
        fill(*given)
        seen.extend(rows(lake, "SELECT table_name FROM system.tables ORDER BY 1"))

    monkeypatch.setattr(create_as, "_fill", looks)
    lake.sql("CREATE TABLE app.new AS SELECT 1 AS a")
    assert seen == ["mine", "t"] * 2


@pytest.mark.slow
def test_rows_of_a_partitioned_table_are_in_the_directories_of_their_values(lake: Lakehouse, k3: SqlSession) -> None:
    lake.sql("CREATE TABLE app.p (id INT PRIMARY KEY, day TEXT, n INT) PARTITION BY (day); INSERT INTO app.p VALUES (1, 'x', 1)")
    lake.flush("app.p")
    write(k3, "UPDATE p SET day = 'c' WHERE n = 1")
    assert _directories(lake, "p") == {"day=c"}
    merged = "MERGE INTO app.p USING (VALUES (1, 'd'), (2, 'e')) AS s(id, day) ON p.id = s.id"
    write(lake, f"{merged} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
    lake.flush("app.p")
    assert _directories(lake, "p") == {"day=d", "day=e"}
    lake.sql("CREATE TABLE app.q PARTITION BY (day) AS SELECT * FROM app.p; DELETE FROM app.q WHERE day = 'd'")
    lake.sql("INSERT INTO app.q (day, id) VALUES (NULL, 7), ('a b', 8)")
    assert _directories(lake, "q") == {"day=e", "day=__HIVE_DEFAULT_PARTITION__", "day=a%20b"}
    assert rows(lake, "SELECT id FROM app.q ORDER BY id") == [2, 7, 8]


def _directories(lake: Lakehouse, name: str) -> set[str]:
    table = DeltaTable(f"{lake.warehouse.uri}/data/app/{name}")
    return {uri.rsplit("/", 2)[1] for uri in table.file_uris()}
