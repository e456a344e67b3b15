"""Stock clients: values of every type in text and in binary, parameters, and portals."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import asyncpg
import psycopg
import pytest

from lakewarden import Lakehouse
from tests.serve.conftest import PASSWORD
from tests.serve.postgres.conftest import address

_SHOWN = """
SELECT true AS flag, 1::SMALLINT AS small, -7 AS whole, 1099511627776 AS large, 1.5::FLOAT AS single, 'inf'::DOUBLE AS double,
  -12345678.000901::DECIMAL(20, 6) AS exact, sum(5) AS sum, 'ü' AS text, '\\xAA\\x00'::BLOB AS bytes, DATE '1999-12-31' AS day,
  TIMESTAMPTZ '2026-11-23 10:00:00.000001+01' AS moment, TIMESTAMP '1970-01-01 00:00:00' AS local, TIME '23:59:59.5' AS time,
  ['a "b"', NULL, 'c\\d'] AS texts, NULL AS nothing, {'a': [1]} AS parts, '{"b": 2}'::JSON AS json
"""
_VALUES = (
    *(True, 1, -7, 1 << 40, 1.5, float("inf"), Decimal("-12345678.000901"), Decimal(5), "ü", b"\xaa\0", date(1999, 12, 31)),
    *(datetime(2026, 11, 23, 9, 0, 0, 1, tzinfo=UTC), datetime(1970, 1, 1), time(23, 59, 59, 500_000)),  # noqa: DTZ001  # TIMESTAMP
    *(['a "b"', None, "c\\d"], None, {"a": [1]}, {"b": 2}),
)


def sqlstate_of(client: psycopg.Connection, text: str) -> str | None:
    """Of the error that the text ends in."""
    with pytest.raises(psycopg.Error) as raised:
        client.execute(text)
    return raised.value.sqlstate


@pytest.mark.parametrize("binary", [False, True])
def test_values_of_every_type_arrive(ann: psycopg.Connection, binary: bool) -> None:
    assert ann.execute(_SHOWN, binary=binary).fetchall() == [_VALUES]


def test_names_may_begin_with_the_catalog(ann: psycopg.Connection) -> None:
    ann.execute("INSERT INTO lakewarden.app.notes VALUES (%s, %s)", (77, "x"))
    found = "SELECT lakewarden.app.notes.body FROM lakewarden.app.notes WHERE lakewarden.app.notes.id = %s"
    assert ann.execute(found, (77,)).fetchall() == [("x",)]
    ann.execute("DELETE FROM lakewarden.app.notes WHERE lakewarden.app.notes.id = 77")


def test_reserved_words_are_columns(lake: Lakehouse, ann: psycopg.Connection) -> None:
    lake.sql('CREATE USER TABLE app.words ("order" BIGINT PRIMARY KEY, "select" TEXT)')
    ann.execute('INSERT INTO words ("order", "select") VALUES (%s, %s)', (1, "x"))
    ann.execute('UPDATE words SET "select" = %s WHERE "order" = %s', ("y", 1))
    found = ann.execute('SELECT "order", "select" FROM words WHERE "select" = %s', ("y",))
    assert (found.fetchall(), [column.name for column in found.description or ()]) == ([(1, "y")], ["order", "select"])
    names = "SELECT column_name FROM information_schema.columns WHERE table_name = 'words' ORDER BY ordinal_position"
    assert [name for (name,) in ann.execute(names).fetchall()][:2] == ["order", "select"]


def test_asyncpg_reads_values_in_binary_and_rows_in_portions(port: int) -> None:
    async def ask() -> tuple[list[tuple[object, ...]], list[int]]:
        client = await asyncpg.connect(host="127.0.0.1", port=port, user="ann", password=PASSWORD, database="app")
        asked = "SELECT 0.00012, 90000::DECIMAL(9), 'x', true, DATE '2000-01-01', sum(8) WHERE 'a' < $1 LIMIT $2"
        shown = [tuple(row) for row in await client.fetch(asked, "b", 5)]
        async with client.transaction():
            numbers = [row["x"] async for row in client.cursor("SELECT * FROM range(7) t(x) WHERE x < $1::BIGINT", 6, prefetch=4)]
        await client.close()
        return shown, numbers

    shown, numbers = asyncio.run(ask())
    assert shown == [(Decimal("0.00012"), Decimal(90000), "x", True, date(2000, 1, 1), Decimal(8))]
    assert numbers == [0, 1, 2, 3, 4, 5]


def test_parameters_of_every_type_are_written(lake: Lakehouse, ann: psycopg.Connection) -> None:
    lake.sql(
        "CREATE TABLE app.kinds (id UUID PRIMARY KEY, flag BOOLEAN, small SMALLINT, whole INT, large BIGINT, single FLOAT,"
        " double DOUBLE, exact DECIMAL(20, 6), text TEXT, bytes BYTES, day DATE, moment TIMESTAMP, json JSON)"
        " WITH (TYPE = 'USER')"
    )
    one, two = UUID(int=1), UUID(int=2)
    rows = (
        (True, 1, 2, 1 << 40, 1.5, -2.5, Decimal("-1.000001"), "it's; $1 ?", b"\0'", date(2026, 1, 2), _VALUES[11], '{"a": 1}'),
        (False, -1, -2, -3, 0.5, 1e300, Decimal("1e3"), "", b"", date(1969, 1, 2), _VALUES[11], "null"),
    )
    insert = f"INSERT INTO kinds VALUES ({', '.join(['%b'] * 13)})"
    assert ann.execute(insert, (one, *rows[0])).statusmessage == "INSERT 0 1"
    assert ann.execute(insert.replace("%b", "%s"), (two, *rows[1])).rowcount == 1
    asked = "SELECT * EXCLUDE (id, json), json::TEXT FROM kinds WHERE id = %s AND exact = %s AND day = %s AND bytes = %s"
    for number, row in ((one, rows[0]), (two, rows[1])):
        assert ann.execute(asked, (number, row[6], row[9], row[8])).fetchall() == [row]
    assert ann.execute("UPDATE kinds SET text = %s WHERE id IN (%s,%s)", ("new", one, two)).statusmessage == "UPDATE 2"
    assert ann.execute("DELETE FROM kinds WHERE large > %s", (0,)).statusmessage == "DELETE 1"
    assert ann.execute("SELECT count(*) FROM kinds WHERE text = %s", ("new",)).fetchone() == (1,)


def test_a_statement_that_is_prepared_is_described_without_a_run(ann: psycopg.Connection) -> None:
    for number in range(7):  # from the sixth on, psycopg prepares it
        found = ann.execute("INSERT INTO notes VALUES (%s, %s)", (100 + number, "many"))
        assert found.statusmessage == "INSERT 0 1"
        shown = ann.execute("SELECT id, body FROM notes WHERE id >= %s AND body = %s", (100, "many"), binary=number % 2 == 1)
        assert [column.name for column in shown.description or ()] == ["id", "body"]
        assert len(shown.fetchall()) == number + 1


def test_a_list_is_one_parameter(ann: psycopg.Connection) -> None:
    ann.execute("INSERT INTO notes VALUES (701, 'a'), (702, 'b\"'), (703, 'c'), (704, '')")
    asked = "SELECT id FROM notes WHERE id > 700 AND {} ORDER BY id"
    for condition, given, found in (
        ("id = ANY(%{})", [701, 703, 9], [701, 703]),
        ("id <> ALL(%{})", [701, 703], [702, 704]),
        ("body = ANY(%{})", ['b"', "", "NULL"], [702, 704]),
        ("id = ANY(%{}::bigint[])", [704, None], [704]),
        ("id = ANY(%{})", [], []),
    ):
        for form in "bt":
            rows = ann.execute(asked.format(condition.format(form)), (given,), binary=form == "b").fetchall()
            assert [row[0] for row in rows] == found, (condition, form)
    with pytest.raises(psycopg.Error, match="not a value of type"):
        ann.execute(asked.format("id = ANY(%b)"), ([[1, 2], [3, 4]],))
    ann.execute("DELETE FROM notes WHERE id = ANY(%s)", ([701, 702, 703, 704],))


def test_a_cursor_of_the_server_goes_forward(port: int, ann: psycopg.Connection) -> None:
    """psycopg's, SQLAlchemy's and Django's for results that they do not hold."""
    with psycopg.connect(address(port, "ann")) as client:
        client.execute("INSERT INTO notes VALUES (180, 'own')")
        with client.cursor(name="many") as cursor:
            cursor.execute("SELECT range AS n, %s || range AS t FROM range(1000) WHERE range >= %s", ("row ", 10))
            assert [each.name for each in cursor.description or ()] == ["n", "t"]
            assert cursor.fetchone() == (10, "row 10")
            assert [row[0] for row in cursor.fetchmany(3)] == [11, 12, 13]
            cursor.scroll(5)
            assert cursor.fetchone() == (19, "row 19")
            assert len(list(cursor)) == 980
        with client.cursor(name="own", binary=True) as cursor:
            cursor.execute("SELECT body FROM notes WHERE id = 180")
            client.execute("DELETE FROM notes WHERE id = 180")
            assert cursor.fetchall() == [("own",)], "the rows of when it was declared"
        client.rollback()
        with client.cursor(name="held", withhold=True) as cursor:
            cursor.execute("SELECT * FROM range(5)")
            client.commit()
            assert len(cursor.fetchall()) == 5
        client.execute("DECLARE c CURSOR FOR SELECT 1")
        client.commit()
        for text, state in (
            ("FETCH ALL FROM c", "34000"),
            ("DECLARE c CURSOR FOR DELETE FROM notes WHERE id = 1", "42601"),
            ("DECLARE c CURSOR FOR SELECT 1; DECLARE c CURSOR FOR SELECT 1", "42P03"),
            ("DECLARE c CURSOR FOR SELECT 1; FETCH BACKWARD 1 FROM c", "0A000"),
        ):
            assert sqlstate_of(client, text) == state, text
            client.rollback()
    with pytest.raises(psycopg.errors.NoActiveSqlTransaction):
        ann.execute("DECLARE c CURSOR FOR SELECT 1")


def test_several_lists_are_the_columns_of_unnest(ann: psycopg.Connection) -> None:
    """Django's bulk_create writes so."""
    text = "SELECT * FROM unnest(%s::bigint[], %s::text[]) AS t (id, body)"
    assert ann.execute(text, ([1, 2], ["a"])).fetchall() == [(1, "a"), (2, None)]
    literal = """SELECT * FROM unnest(('{1,NULL}')::bigint[], '{"a, \\"b",NULL}'::text[], '{}'::int[])"""
    assert ann.execute(literal).fetchall() == [(1, 'a, "b', None), (None, None, None)]
    ann.execute("INSERT INTO notes (id, body) SELECT * FROM UNNEST((%s)::bigint[], (%s)::text[])", ([171, 172], ["a", "b"]))
    assert ann.execute("SELECT id, body FROM notes WHERE id IN (171, 172) ORDER BY id").fetchall() == [(171, "a"), (172, "b")]


def test_asyncpg_gives_lists(port: int) -> None:
    async def ask() -> None:
        client = await asyncpg.connect(host="127.0.0.1", port=port, user="ann", password=PASSWORD, database="app")
        try:
            assert await client.fetchval("SELECT count(*) FROM range(10) t(x) WHERE x = ANY($1::bigint[])", [1, 3, 30]) == 2
            assert await client.fetch("SELECT id FROM notes WHERE id = ANY($1) AND body = ANY($2::text[])", [-1], ["x"]) == []
            assert await client.fetchval("SELECT $1::int[]", [4, None]) == [4, None]
            rows = "SELECT id FROM notes WHERE (id, body) = ($1, $2) OR (body, id) IN (($3, $4))"
            assert await client.fetch(rows, -1, "x", "y", -2) == []
        finally:
            await client.close()

    asyncio.run(ask())


def test_a_large_result_comes_in_portions(ann: psycopg.Connection) -> None:
    found = ann.execute("SELECT x, repeat('y', 100) FROM range(30000) t(x)").fetchall()
    assert [row[0] for row in found] == list(range(30_000))
    assert {row[1] for row in found} == {"y" * 100}


def test_nobody_sees_rows_of_another(port: int, ann: psycopg.Connection) -> None:
    ann.execute("INSERT INTO notes VALUES (501, 'of ann')")
    with psycopg.connect(address(port, "bob"), autocommit=True) as bob:
        bob.execute("INSERT INTO notes VALUES (501, 'of bob')")
        assert bob.execute("SELECT body FROM notes WHERE id = 501").fetchall() == [("of bob",)]
        assert ann.execute("SELECT body FROM notes WHERE id = %s", (501,)).fetchall() == [("of ann",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            bob.execute("EXECUTE AS USER 'ann' (SELECT * FROM app.notes)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            bob.execute("SELECT * FROM system.users")


def test_errors_have_their_state_and_the_connection_goes_on(ann: psycopg.Connection) -> None:
    for text, state in (
        ("SELEC 1", "42601"),
        ("SELECT * FROM nowhere", "42P01"),
        ("UPDATE app.nowhere SET a = 1 WHERE b = 1", "42P01"),
        ("DROP USER nobody", "42501"),
        ("INSERT INTO notes VALUES (1, 'a'), (1, 'b')", "23505"),
        ("INSERT INTO notes VALUES (690, 'a'); INSERT INTO notes VALUES (690, 'b')", "23505"),
        ("DELETE FROM notes WHERE id = 690; INSERT INTO notes VALUES (NULL, 'a')", "23502"),
        ("INSERT INTO notes VALUES ('no number', 'a')", "23000"),
        ("CREATE NAMESPACE n", "42501"),
        ("COPY notes TO STDOUT", "0A000"),
        ("SUBSCRIBE TO notes", "0A000"),
    ):
        assert sqlstate_of(ann, text) == state, text
    with pytest.raises(psycopg.Error):
        ann.execute("SELECT * FROM notes WHERE id = %s", ("no number",))
    assert ann.execute("SELECT 1").fetchone() == (1,)


def test_several_statements_in_one_text(ann: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.SyntaxError):
        ann.execute("INSERT INTO notes VALUES (601, 'a'); INSERT INTO notes VALUES (602, 'b'); SELEC")
    assert ann.execute("SELECT count(*) FROM notes WHERE id > 600").fetchone() == (0,)
    found = ann.execute("INSERT INTO notes VALUES (601, 'a;b'); SELECT body FROM notes WHERE id = 601; -- no more")
    assert found.statusmessage == "INSERT 0 1"
    assert found.nextset()
    assert found.fetchall() == [("a;b",)]
