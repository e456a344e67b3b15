"""Blocks, as drivers use them: kept by the connection, decided at COMMIT."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from lakewarden import Lakehouse
from tests.serve.conftest import PASSWORD
from tests.serve.postgres.conftest import address


def _status(client: psycopg.Connection) -> TransactionStatus:
    return client.info.transaction_status


@pytest.fixture(scope="module", autouse=True)
def dora(lake: Lakehouse) -> str:
    """An administrator."""
    lake.sql(f"CREATE USER dora WITH PASSWORD '{PASSWORD}' ROLE dba")
    return "dora"


@pytest.fixture
def other(port: int) -> Iterator[psycopg.Connection]:
    """Another connection of the same user, outside a block."""
    with psycopg.connect(address(port, "ann"), autocommit=True) as made:
        yield made


def _bodies(client: psycopg.Connection, low: int, high: int) -> list[tuple[object, ...]]:
    return client.execute("SELECT id, body FROM notes WHERE id BETWEEN %s AND %s ORDER BY id", (low, high)).fetchall()


def test_a_block_that_only_read_is_rolled_back(port: int) -> None:
    with psycopg.connect(address(port, "ann")) as client:
        client.execute("SELECT 1")
        assert _status(client) == TransactionStatus.INTRANS
        client.rollback()
        assert _status(client) == TransactionStatus.IDLE


def test_a_rollback_leaves_nothing_and_a_commit_all(port: int, other: psycopg.Connection) -> None:
    """psycopg's default mode: the first statement begins a block."""
    with psycopg.connect(address(port, "ann")) as client:
        client.execute("INSERT INTO notes VALUES (701, 'a'), (702, 'b')")
        assert client.execute("UPDATE notes SET body = 'c' WHERE id = 702").rowcount == 1
        assert _bodies(client, 701, 702) == [(701, "a"), (702, "c")]
        assert _bodies(other, 701, 702) == []
        client.rollback()
        assert _bodies(client, 701, 702) == []
        client.execute("INSERT INTO notes VALUES (701, 'a')")
        client.execute("INSERT INTO notes VALUES (702, 'b')")
        client.execute("DELETE FROM notes WHERE id = 701")
        assert client.execute("SELECT count(*) FROM notes WHERE id BETWEEN 701 AND 702").fetchone() == (1,)
        client.commit()
        assert _bodies(other, 701, 702) == [(702, "b")]


def test_an_error_of_the_program_rolls_back(port: int, other: psycopg.Connection) -> None:
    class _OfTheProgram(Exception):
        pass

    def fails() -> None:
        with psycopg.connect(address(port, "ann")) as client:
            client.execute("INSERT INTO notes VALUES (711, 'never')")
            raise _OfTheProgram

    with pytest.raises(_OfTheProgram):
        fails()
    assert _bodies(other, 711, 711) == []
    with psycopg.connect(address(port, "ann")) as client:
        client.execute("INSERT INTO notes VALUES (711, 'committed at the end of the context')")
    assert len(_bodies(other, 711, 711)) == 1


def test_a_connection_that_is_lost_leaves_nothing(port: int, other: psycopg.Connection) -> None:
    client = psycopg.connect(address(port, "ann"))
    client.execute("INSERT INTO notes VALUES (712, 'never')")
    client.close()
    assert _bodies(other, 712, 712) == []


def test_nothing_runs_behind_an_error_and_a_commit_answers_rollback(port: int, other: psycopg.Connection) -> None:
    with psycopg.connect(address(port, "ann")) as client:
        client.execute("INSERT INTO notes VALUES (721, 'never')")
        with pytest.raises(psycopg.errors.SyntaxError):
            client.execute("SELEC")
        assert _status(client) == TransactionStatus.INERROR
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            client.execute("INSERT INTO notes VALUES (722, 'never')")
        assert client.execute("COMMIT").statusmessage == "ROLLBACK"
        assert _status(client) == TransactionStatus.IDLE
    assert _bodies(other, 721, 722) == []


def test_what_was_written_meanwhile_is_a_serialization_failure(port: int, other: psycopg.Connection) -> None:
    other.execute("INSERT INTO notes VALUES (731, 'first'), (732, 'first')")
    with psycopg.connect(address(port, "ann")) as client:
        client.execute("UPDATE notes SET body = 'mine' WHERE id = 731")
        client.execute("INSERT INTO notes VALUES (733, 'mine')")
        other.execute("UPDATE notes SET body = 'theirs' WHERE id = 731")
        with pytest.raises(psycopg.errors.SerializationFailure, match="run it again"):
            client.commit()
        assert _status(client) == TransactionStatus.IDLE
        assert _bodies(client, 731, 733) == [(731, "theirs"), (732, "first")]
        client.execute("UPDATE notes SET body = 'mine' WHERE id = 731")
        other.execute("UPDATE notes SET body = 'theirs' WHERE id = 732")
        client.commit()
    assert _bodies(other, 731, 733) == [(731, "mine"), (732, "theirs")]


def test_a_savepoint_undoes_what_came_behind_it(port: int, other: psycopg.Connection) -> None:
    """psycopg's nested transactions are savepoints."""
    with psycopg.connect(address(port, "ann")) as client:
        with client.transaction():
            client.execute("INSERT INTO notes VALUES (741, 'kept')")
            with client.transaction(force_rollback=True):
                client.execute("UPDATE notes SET body = 'undone' WHERE id = 741")
                client.execute("INSERT INTO notes VALUES (742, 'undone')")
                assert len(_bodies(client, 741, 742)) == 2
            with pytest.raises(psycopg.errors.IntegrityError), client.transaction():
                client.execute("INSERT INTO notes VALUES (741, 'is there')")
            with client.transaction():
                client.execute("INSERT INTO notes VALUES (743, 'kept')")
            assert _bodies(client, 741, 743) == [(741, "kept"), (743, "kept")]
        assert _bodies(other, 741, 743) == [(741, "kept"), (743, "kept")]
        with pytest.raises(psycopg.errors.InvalidSavepointSpecification):
            client.execute("ROLLBACK TO SAVEPOINT nowhere")


def test_what_takes_effect_by_itself_comes_before_the_rows_of_a_block(lake: Lakehouse, port: int) -> None:
    """And a ROLLBACK says that it stays."""
    lake.sql("CREATE USER TABLE app.second (id BIGINT PRIMARY KEY)")
    lake.sql("CREATE SHARED TABLE app.keyless (id BIGINT) WITH (ACCESS_LEVEL = 'public')")
    with psycopg.connect(address(port, "dora")) as client:
        client.execute("CREATE USER TABLE app.made (id BIGINT PRIMARY KEY)")
        client.execute("INSERT INTO made VALUES (1)")
        client.commit()
        client.execute("INSERT INTO made VALUES (2)")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="COMMIT first"):
            client.execute("CREATE USER TABLE app.more (id BIGINT PRIMARY KEY)")
        client.rollback()
        client.execute("INSERT INTO made VALUES (2)")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="a block writes to one table"):
            client.execute("INSERT INTO second VALUES (2)")
        client.rollback()
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="outside a block"):
            client.execute("INSERT INTO keyless VALUES (2)")
        client.rollback()
        client.execute("DROP TABLE app.made")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="DROP TABLE took effect by itself and stays"):
            client.rollback()
        assert _status(client) == TransactionStatus.IDLE


def test_a_block_is_shown_while_it_is_open(port: int) -> None:
    with psycopg.connect(address(port, "ann")) as client, psycopg.connect(address(port, "dora"), autocommit=True) as root:
        client.execute("INSERT INTO notes VALUES (751, 'x'), (752, 'y')")
        shown = "SELECT user_id, status, namespace_id, table_name, scope, rows, bytes > 0 FROM system.transactions"
        mine = f"{shown} WHERE user_id = 'ann' AND rows = 2"
        assert root.execute(mine).fetchall() == [("ann", "open", "app", "notes", "ann", 2, True)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            client.execute(shown)
        client.rollback()
        assert root.execute(mine).fetchall() == []


def test_a_block_that_waits_for_too_long_is_ended(port: int, other: psycopg.Connection) -> None:
    with psycopg.connect(address(port, "ann")) as client:
        client.execute("SET idle_in_transaction_session_timeout = '200ms'")
        client.execute("INSERT INTO notes VALUES (761, 'never')")
        notified = client.notifies(timeout=30)
        with pytest.raises(psycopg.OperationalError):
            list(notified)
        assert client.closed
    assert _bodies(other, 761, 761) == []


def test_a_read_only_block_takes_no_writes(port: int) -> None:
    with psycopg.connect(address(port, "ann")) as client:
        client.read_only = True
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            client.execute("INSERT INTO notes VALUES (741, 'x')")


def test_statements_of_a_block_where_there_is_none(ann: psycopg.Connection) -> None:
    """A pool sends ROLLBACK whatever there is."""
    heard: list[str | None] = []
    ann.add_notice_handler(lambda notice: heard.append(notice.message_primary))
    for text in ("ROLLBACK", "COMMIT", "BEGIN; BEGIN; ROLLBACK"):
        ann.execute(text)
    assert [each for each in heard if each is not None and "in progress" in each] == heard
    assert len(heard) == 3
    with pytest.raises(psycopg.errors.NoActiveSqlTransaction):
        ann.execute("SAVEPOINT a")


def test_a_chained_block_begins_where_the_one_before_ends(ann: psycopg.Connection) -> None:
    """SQL's AND CHAIN: what follows is a block too, with the modes of the one before."""
    for text in ("BEGIN", "INSERT INTO notes VALUES (940, 'kept')", "COMMIT AND CHAIN"):
        ann.execute(text)
    ann.execute("INSERT INTO notes VALUES (941, 'never')")
    for text in ("ROLLBACK AND CHAIN", "INSERT INTO notes VALUES (942, 'never')", "ROLLBACK WORK AND NO CHAIN"):
        ann.execute(text)
    assert ann.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
    assert ann.execute("SELECT id FROM notes WHERE id BETWEEN 940 AND 949").fetchall() == [(940,)]
    ann.execute("BEGIN READ ONLY")
    ann.execute("COMMIT AND CHAIN")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        ann.execute("DELETE FROM notes WHERE id = 940")
    ann.execute("ROLLBACK")
    with pytest.raises(psycopg.errors.NoActiveSqlTransaction):
        ann.execute("COMMIT AND CHAIN")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("COMMIT PREPARED 'x'", psycopg.errors.FeatureNotSupported),
        ("ROLLBACK PREPARED 'x'", psycopg.errors.FeatureNotSupported),
        ("SET TRANSACTION SNAPSHOT 'x'", psycopg.errors.FeatureNotSupported),
        ("COMMIT TOMORROW", psycopg.errors.SyntaxError),
        ("END AND CHAINS", psycopg.errors.SyntaxError),
        ("SET TRANSACTION ISOLATION LEVEL NONE", psycopg.errors.SyntaxError),
    ],
)
def test_what_ends_no_block_is_refused_and_keeps_nothing(ann: psycopg.Connection, text: str, error: type[psycopg.Error]) -> None:
    ann.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ WRITE, NOT DEFERRABLE")
    ann.execute("INSERT INTO notes VALUES (943, 'never')")
    with pytest.raises(error):
        ann.execute(text)
    assert ann.execute("ROLLBACK").statusmessage == "ROLLBACK"
    assert ann.execute("SELECT id FROM notes WHERE id = 943").fetchall() == []
    with pytest.raises(psycopg.errors.SyntaxError):
        ann.execute("BEGIN ISOLATION LEVEL NONE")


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
