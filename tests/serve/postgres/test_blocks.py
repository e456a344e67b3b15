"""Blocks and run-time parameters, as drivers use them."""

from __future__ import annotations

import threading

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from lakewarden import Lakehouse
from tests.serve.postgres.conftest import address


def _status(client: psycopg.Connection) -> TransactionStatus:
    return client.info.transaction_status


def test_a_block_that_only_read_is_rolled_back(port: int) -> None:
    with psycopg.connect(address(port, "ann")) as client:
        client.execute("SELECT 1")
        assert _status(client) == TransactionStatus.INTRANS
        client.rollback()
        assert _status(client) == TransactionStatus.IDLE
        client.execute("INSERT INTO notes VALUES (701, 'kept')")
        client.commit()
        with client.transaction(), client.transaction():  # with a savepoint
            client.execute("SELECT * FROM notes WHERE id = 701")


def test_what_a_block_wrote_stays_and_a_rollback_says_so(port: int, ann: psycopg.Connection) -> None:
    with psycopg.connect(address(port, "ann")) as client:
        client.execute("INSERT INTO notes VALUES (711, 'stays')")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="nothing was rolled back"):
            client.rollback()
        assert _status(client) == TransactionStatus.IDLE
    assert ann.execute("SELECT body FROM notes WHERE id = 711").fetchall() == [("stays",)]


def test_nothing_runs_behind_an_error_in_a_block(port: int) -> None:
    with psycopg.connect(address(port, "ann")) as client:
        with pytest.raises(psycopg.errors.SyntaxError):
            client.execute("SELEC")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            client.execute("INSERT INTO notes VALUES (721, 'never')")
        client.rollback()
        assert client.execute("SELECT count(*) FROM notes WHERE id = 721").fetchone() == (0,)


def test_a_savepoint_is_undone_where_nothing_was_written_behind_it(ann: psycopg.Connection) -> None:
    for text in ("BEGIN", "INSERT INTO notes VALUES (731, 'x')", "SAVEPOINT a", "SELECT 1", "ROLLBACK TO SAVEPOINT a", "COMMIT"):
        ann.execute(text)
    ann.execute("BEGIN; SAVEPOINT a; INSERT INTO notes VALUES (732, 'x')")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        ann.execute("ROLLBACK TO a")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        ann.execute("RELEASE b")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        ann.execute("ROLLBACK")


def test_a_read_only_block_takes_no_writes(port: int) -> None:
    with psycopg.connect(address(port, "ann")) as client:
        client.read_only = True
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            client.execute("INSERT INTO notes VALUES (741, 'x')")


def test_parameters_are_kept_and_those_that_would_change_answers_refused(ann: psycopg.Connection) -> None:
    assert ann.execute("SHOW server_version").fetchone() == ("14.0",)
    assert ann.execute("SET application_name = 'a tool'").statusmessage == "SET"
    assert ann.execute("SHOW application_name").fetchone() == ("a tool",)
    assert ann.info.parameter_status("application_name") == "a tool"
    ann.execute("SET extra_float_digits = 3; SET client_encoding TO 'UTF8'; SET TIME ZONE 'UTC'; SET DateStyle = 'ISO, DMY'")
    for text in ("SET TIME ZONE 'Europe/Berlin'", "SET client_encoding = 'LATIN1'", "SET standard_conforming_strings = off"):
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            ann.execute(text)
    ann.execute("RESET ALL")
    assert ann.execute("SHOW application_name").fetchone() == ("",)
    ann.execute("SET freshness = 'eventual'")
    assert ann.execute("SHOW TRANSACTION ISOLATION LEVEL").fetchone() == ("read committed",)


def test_a_query_ends_at_its_timeout(ann: psycopg.Connection) -> None:
    ann.execute("SET statement_timeout = '100ms'")
    with pytest.raises(psycopg.errors.QueryCanceled):  # a second of a core
        ann.execute("SELECT count(*) FROM range(200000000) WHERE (range * range) % 7 = 3")


def test_a_query_ends_by_request(ann: psycopg.Connection) -> None:
    ended = threading.Event()

    def cancel() -> None:
        while not ended.wait(0.1):
            ann.cancel_safe()

    asking = threading.Thread(target=cancel)
    asking.start()
    try:
        with pytest.raises(psycopg.errors.QueryCanceled):
            ann.execute("SELECT count(*) FROM range(200000000) WHERE (range * range) % 7 = 4")
    finally:
        ended.set()
        asking.join()
    assert ann.execute("SELECT 1").fetchone() == (1,)


def test_what_a_connection_attaches_to_commits_goes_when_a_pool_hands_it_on(lake: Lakehouse, ann: psycopg.Connection) -> None:
    for reset in ("RESET commit_metadata", "RESET ALL", "DISCARD ALL"):
        ann.execute('SET commit_metadata = \'{"job": "night"}\'')
        assert ann.execute("SHOW commit_metadata").fetchone() == ('{"job":"night"}',)
        ann.execute(reset)
        assert ann.execute("SHOW commit_metadata").fetchone() == ("",)
    ann.execute('SET SESSION commit_metadata TO \'{"job": "night"}\'')
    ann.execute("INSERT INTO notes VALUES (791, 'x')")
    lake.flush("app.notes", user="ann")
    assert lake.table("app.notes").history(user="ann")[0].metadata == {"job": "night"}
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="JSON object"):
        ann.execute("SET commit_metadata = '[]'")
