"""FL.A: temporary tables, which belong to one session."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import (
    AlreadyExists,
    ConstraintViolation,
    InvalidArgument,
    LakewardenError,
    NotFound,
    PermissionDenied,
    Unsupported,
)
from lakewarden.sql.results import AffectedRows, Result, ResultRows
from lakewarden.sql.session import SqlSession
from tests.fixtures.bucket import path_of

Sql = Callable[[str], list[Result]]


def rows(session: SqlSession, query: str) -> list[tuple[object, ...]]:
    (found,) = session.sql(query)
    assert isinstance(found, ResultRows)
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.fixture
def session(lake: Lakehouse) -> SqlSession:
    return lake.session(user="root", role="system")


def test_fl_009_drop_temporary_drops_temporary_tables_alone(sql: Sql, session: SqlSession) -> None:
    sql("CREATE DYNAMIC TABLE t9 (a INT PRIMARY KEY); INSERT INTO t9 VALUES (1)")
    with pytest.raises(InvalidArgument, match="table of the warehouse"):
        session.sql("DROP TEMPORARY TABLE n.t9")
    session.sql("CREATE TEMPORARY TABLE n.t9 (a INT PRIMARY KEY); INSERT INTO n.t9 VALUES (2)")
    with pytest.raises(InvalidArgument, match="DROP TEMPORARY TABLE"):
        session.sql("DROP TABLE n.t9")
    assert rows(session, "SELECT a FROM n.t9") == [(2,)]
    session.sql("DROP TEMPORARY TABLE n.t9")
    assert rows(session, "SELECT a FROM n.t9") == [(1,)]
    with pytest.raises(NotFound):
        session.sql("DROP TEMPORARY TABLE n.t9b")
    session.sql("DROP TEMPORARY TABLE IF EXISTS n.t9; DROP TABLE n.t9")


def test_fl_011_a_temporary_table_is_its_sessions_own(lake: Lakehouse) -> None:
    """In the memory of the session, whatever its role may do with tables of the warehouse; nothing is written."""
    lake.sql("CREATE DYNAMIC TABLE n.t11 (id INT PRIMARY KEY, v TEXT); INSERT INTO n.t11 VALUES (1, 'all')")
    version = lake.warehouse.catalog.read().version
    mine, other = (lake.session(user=name, role="user") for name in ("ann", "bob"))
    made = mine.sql(
        "USE n; CREATE TEMPORARY DYNAMIC TABLE T11 (id INT PRIMARY KEY, v TEXT DEFAULT 'x') WITH ('bucket' = '4');"
        "INSERT INTO t11 (id) VALUES (1), (2); INSERT INTO t11 VALUES (2, 'y')"
    )
    assert made[2:] == [AffectedRows(2), AffectedRows(1)]
    assert rows(mine, "SELECT t.id, v, _seq FROM n.t11 AS t ORDER BY id") == [(1, "x", 1), (2, "y", 3)]
    mine.sql(
        "CREATE TEMPORARY TABLE few (id BIGINT); INSERT INTO few SELECT id FROM t11 WHERE v = 'y'; INSERT INTO few VALUES (7)"
    )
    assert rows(mine, "SELECT id, v FROM few LEFT JOIN t11 USING (id) ORDER BY id") == [(2, "y"), (7, None)]
    with pytest.raises(NotFound):
        other.sql("SELECT * FROM n.few")
    with pytest.raises(PermissionDenied):
        other.sql("SELECT * FROM n.t11")
    assert rows(lake.session(user="root", role="system"), "SELECT v FROM n.t11") == [("all",)]
    mine.sql("DROP TEMPORARY TABLE t11")
    with pytest.raises(PermissionDenied):
        mine.sql("SELECT * FROM t11")
    assert lake.warehouse.catalog.read().version == version
    assert not [path for path in path_of(lake.warehouse.uri).rglob("*") if "few" in path.name]


def test_one_that_a_text_creates_shadows_in_its_later_statements(lake: Lakehouse) -> None:
    session = lake.session(user="ann", role="user")
    found = session.sql(
        "CREATE TEMPORARY TABLE n.late (a INT); INSERT INTO n.late VALUES (1); SELECT a FROM n.late;"
        "DROP TEMPORARY TABLE n.late; CREATE TEMP TABLE n.late (b TEXT); SELECT * FROM n.late"
    )
    assert [result.columns for result in found if isinstance(result, ResultRows)] == [["a"], ["b"]]


def test_a_table_of_the_warehouse_takes_its_rows(session: SqlSession) -> None:
    session.sql("USE n; CREATE TEMPORARY TABLE draft (a INT, b TEXT); INSERT INTO draft VALUES (1, 'x'), (2, 'y')")
    session.sql("CREATE TABLE final PRIMARY KEY (a) AS SELECT * FROM draft")
    session.sql("MERGE INTO final AS f USING draft AS d ON f.a = d.a WHEN MATCHED AND d.a = 2 THEN DELETE")
    session.sql("UPDATE final SET b = 'z' WHERE a IN (SELECT a FROM draft)")
    assert rows(session, "SELECT * FROM final") == [(1, "z")]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("CREATE TEMPORARY TABLE n.own (a INT)", AlreadyExists),
        ("CREATE TEMPORARY TABLE nowhere.t (a INT)", NotFound),
        ("CREATE TEMPORARY TABLE n.x (a INT) WITH ('file.path' = '/x')", InvalidArgument),
        ("CREATE TEMPORARY TABLE n.x (a INT PRIMARY KEY) WITH (TYPE = 'USER')", Unsupported),
        ("CREATE TEMPORARY TABLE n.x AS SELECT 1 AS a", Unsupported),
        ("INSERT INTO n.own VALUES (1, 'again')", ConstraintViolation),
        ("INSERT INTO n.own VALUES (NULL, 'no key')", ConstraintViolation),
        ("INSERT INTO n.own VALUES (1, 'x') ON CONFLICT DO NOTHING", Unsupported),
        ("UPDATE n.own SET v = 'x' WHERE a = 1", Unsupported),
        ("DELETE FROM n.own WHERE a = 1", Unsupported),
        ("INSERT OVERWRITE n.own VALUES (1, 'x')", Unsupported),
        ("ALTER TABLE n.own ADD COLUMN b INT", Unsupported),
        ("ALTER TABLE n.own COMPACT", Unsupported),
        ("STORAGE FLUSH TABLE n.own", Unsupported),
        ("DESCRIBE HISTORY n.own", Unsupported),
        ("CREATE VIEW n.w AS SELECT * FROM n.own", Unsupported),
        ("SUBSCRIBE TO n.own", Unsupported),
        ("SELECT * FROM n.own VERSION AS OF 1", Unsupported),
    ],
)
def test_what_it_does_not_take_changes_nothing(session: SqlSession, text: str, error: type[LakewardenError]) -> None:
    session.sql("CREATE TEMPORARY TABLE n.own (a INT PRIMARY KEY, v TEXT); INSERT INTO n.own VALUES (1, 'kept')")
    with pytest.raises(error):
        session.sql(text)
    assert rows(session, "SELECT * FROM n.own") == [(1, "kept")]


def test_its_rows_are_bounded(warehouse_uri: str) -> None:
    settings = Settings(sql=SqlSettings(temporary_bytes=10_000))
    with Lakehouse.open(warehouse_uri, settings=settings) as lake:
        lake.create_namespace("n")
        session = lake.session(user="root", role="system")
        session.sql("CREATE TEMPORARY TABLE n.a (a BIGINT); INSERT INTO n.a SELECT * FROM range(300)")
        session.sql("CREATE TEMPORARY TABLE n.b (a BIGINT)")
        with pytest.raises(Unsupported, match=r"sql\.temporary_bytes"):
            session.sql("INSERT INTO n.b SELECT * FROM range(600)")
        assert rows(session, "SELECT count(*) FROM n.a, n.b") == [(0,)]
        session.sql("DROP TEMPORARY TABLE n.a; INSERT INTO n.b SELECT * FROM range(600)")


def test_another_user_of_the_session_has_the_same(lake: Lakehouse) -> None:
    session = lake.session(user="svc", role="service")
    lake.sql("CREATE USER TABLE n.notes (id INT PRIMARY KEY); EXECUTE AS USER 'eve' (INSERT INTO n.notes VALUES (5))")
    session.sql("CREATE TEMPORARY TABLE n.seen (id INT); EXECUTE AS USER 'eve' (INSERT INTO n.seen SELECT id FROM n.notes)")
    assert rows(session, "SELECT id FROM n.seen") == [(5,)]
    with pytest.raises(NotFound):
        session.execute_as("eve").sql("SELECT * FROM n.seen")
