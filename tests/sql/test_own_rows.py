"""What a session reaches: its own rows, in its own place or in another's that it took, and nothing beside tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.evolution import SetOptions
from lakewarden.errors import NotFound, PermissionDenied
from lakewarden.sql.results import ResultRows
from lakewarden.sql.session import SqlSession
from tests.fixtures.lakes import NOTES, make_notes, notes


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    """Two users with a row each, of which one is flushed."""
    with Lakehouse.open(warehouse_uri) as opened:
        table = make_notes(opened)
        table.write(notes({1: "of ann"}), user="ann")
        table.write(notes({1: "of bob"}), user="bob")
        opened.flush(user="ann")
        yield opened


def texts(session: SqlSession, query: str = f"SELECT text FROM {NOTES}") -> list[object]:
    (found,) = session.sql(query)
    assert isinstance(found, ResultRows)
    return found.table.column(0).to_pylist()


@pytest.mark.parametrize("role", ["user", "service", "dba", "system"])
def test_a_session_sees_its_own_rows_whatever_its_role(lake: Lakehouse, role: str) -> None:
    assert texts(lake.session(user="bob", role=role)) == ["of bob"]
    assert texts(lake.session(user="ann", role=role)) == ["of ann"]
    assert texts(lake.session(user="eve", role=role)) == []


def test_in_another_s_place_it_sees_that_user_s_rows_and_that_is_noted(lake: Lakehouse) -> None:
    session = lake.session(user="eve", role="service")
    assert texts(session, f"EXECUTE AS USER 'bob' (SELECT text FROM {NOTES})") == ["of bob"]
    assert texts(session) == []
    noted = "SELECT action FROM system.audit_log WHERE subject_user_id = 'bob'"
    assert texts(lake.session(user="root", role="system"), noted) == ["EXECUTE_AS_USER"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM '{file}'",
        'SELECT * FROM "{file}"',
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM duckdb_tables",
        "SELECT getenv('HOME')",
        "SELECT current_setting('home_directory')",
    ],
)
def test_a_query_reaches_tables_and_nothing_else(lake: Lakehouse, tmp_path: Path, query: str) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")
    with pytest.raises(PermissionDenied):
        lake.session(user="root", role="system").sql(query.format(file=file))


def test_a_text_is_refused_before_any_of_it_has_run(lake: Lakehouse) -> None:
    with pytest.raises(PermissionDenied):
        lake.session(user="bob", role="user").sql(f"DELETE FROM {NOTES} WHERE id = 1; DROP TABLE {NOTES}")
    assert texts(lake.session(user="bob")) == ["of bob"]


def test_a_table_that_a_session_holds_passes_the_gate_at_each_call(lake: Lakehouse) -> None:
    lake.sql("CREATE SHARED TABLE chat.board (id BIGINT PRIMARY KEY) WITH (ACCESS_LEVEL = PUBLIC)")
    board = lake.session(user="bob", role="user").table("chat.board")
    assert board.read().num_rows == 0
    with pytest.raises(PermissionDenied):
        board.write([{"id": 1}])
    lake.alter_table("chat.board", SetOptions({"ACCESS_LEVEL": "PRIVATE"}))
    with pytest.raises(PermissionDenied):
        board.read()
    lake.drop_table("chat.board")
    with pytest.raises(NotFound):
        board.read()
