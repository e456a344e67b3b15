"""Statements over Flight SQL, by ADBC's driver."""

from __future__ import annotations

import pytest
from adbc_driver_flightsql import ConnectionOptions, dbapi
from adbc_driver_manager import Error

from lakewarden import Lakehouse
from lakewarden.serve.flight.messages_pb2 import ErrorInfo

pytestmark = pytest.mark.xdist_group("flight")

OWN_ID = "0a1b2c3d-0000-4000-8000-123456789abc"


def test_a_query_is_answered_with_its_types(cursor: dbapi.Cursor) -> None:
    cursor.execute("SELECT 7::BIGINT AS n, 'x' AS t, current_user() AS u, NULL::DATE AS d")
    assert cursor.fetchall() == [(7, "x", "ann", None)]


def test_a_query_without_rows_has_its_columns(cursor: dbapi.Cursor) -> None:
    cursor.execute("SELECT id, body FROM app.notes WHERE id < 0")
    assert cursor.fetch_arrow_table().column_names == ["id", "body"]


def test_a_write_is_done_once_by_query_and_by_update(cursor: dbapi.Cursor) -> None:
    cursor.execute("INSERT INTO app.notes VALUES (1, 'a'), (2, 'b')")
    assert cursor.fetchall() == [(2, None)]
    cursor.adbc_statement.set_sql_query("UPDATE app.notes SET body = 'c' WHERE id = 2; DELETE FROM app.notes WHERE id = 1")
    assert cursor.adbc_statement.execute_update() == 2
    cursor.execute("SELECT id, body FROM app.notes")
    assert cursor.fetchall() == [(2, "c")]


def test_names_may_begin_with_the_catalog(cursor: dbapi.Cursor) -> None:
    cursor.execute("INSERT INTO lakewarden.app.notes VALUES (77, 'x')")
    cursor.execute("SELECT lakewarden.app.notes.body FROM lakewarden.app.notes WHERE lakewarden.app.notes.id = 77")
    assert cursor.fetchall() == [("x",)]
    cursor.execute("DELETE FROM lakewarden.app.notes WHERE id = 77")


def test_a_million_rows_come_whole_and_in_order(cursor: dbapi.Cursor) -> None:
    cursor.execute("SELECT range AS n, 'the row with the number ' || range AS t FROM range(1000000)")
    found = cursor.fetch_arrow_table()
    assert found.num_rows == 1_000_000
    assert found.column("n").to_numpy().tolist() == list(range(1_000_000))
    assert found.nbytes > 32 << 20  # of which a part was in a file


def test_headers_choose_namespace_and_freshness(cursor: dbapi.Cursor) -> None:
    for name, value in (("namespace", "app"), ("freshness", "eventual")):
        cursor.adbc_statement.set_options(**{f"{ConnectionOptions.RPC_CALL_HEADER_PREFIX.value}lakewarden-{name}": value})
    cursor.execute("SELECT count(*) FROM notes")
    assert cursor.fetchone() == (0,)  # nothing was flushed


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("SELEC 1", "INVALID_ARGUMENT", "SYNTAX_ERROR"),
        ("SELECT * FROM app.absent", "NOT_FOUND", "NOT_FOUND"),
        ("SELECT * FROM system.users", "UNAUTHORIZED", "PERMISSION_DENIED"),
        ("INSERT INTO app.notes VALUES (NULL, 'a')", "INVALID_ARGUMENT", "CONSTRAINT_VIOLATION"),
        ("SELECT 1; SELECT 2", "INVALID_ARGUMENT", "INVALID_ARGUMENT"),
        ("SELECT ?", "INVALID_ARGUMENT", "INVALID_ARGUMENT"),
        ("BEGIN", "NOT_IMPLEMENTED", "UNSUPPORTED"),
        ("", "INVALID_ARGUMENT", "INVALID_ARGUMENT"),
    ],
)
def test_an_error_has_its_status_and_code(cursor: dbapi.Cursor, text: str, status: str, code: str) -> None:
    with pytest.raises(Error, match=f"{code}: ") as raised:
        cursor.execute(text or "-- nothing")
    assert raised.value.status_code.name == status
    assert [
        detail for _, detail in raised.value.details if ErrorInfo(reason=code, domain="lakewarden").SerializeToString() in detail
    ]


def test_the_audit_log_names_the_request(cursor: dbapi.Cursor, lake: Lakehouse) -> None:
    prefix = ConnectionOptions.RPC_CALL_HEADER_PREFIX.value
    cursor.adbc_statement.set_options(**{f"{prefix}x-request-id": OWN_ID})
    with pytest.raises(Error) as raised:
        cursor.execute("DROP TABLE app.notes")
    assert OWN_ID.encode() in [value for _, value in raised.value.details]
    found = lake.sql(f"SELECT count(*) AS n FROM system.audit_log WHERE request_id = '{OWN_ID}'")[0]
    assert found.to_pylist() == [{"n": 1}]  # type: ignore[union-attr]  # a SELECT has rows
