"""Values at the edges of their types, by stock clients in text and in binary."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count

import asyncpg
import psycopg
import pytest

from lakewarden import Lakehouse
from tests.serve.conftest import PASSWORD

_NINES = Decimal("-" + "9" * 28 + "." + "9" * 10)


@pytest.fixture(scope="module")
def edges(lake: Lakehouse) -> Iterator[int]:
    lake.sql(
        "CREATE USER TABLE app.edges (id BIGINT PRIMARY KEY, d DOUBLE, f FLOAT, m DECIMAL(38, 10), day DATE, moment TIMESTAMP)"
    )
    return iter(count())


def _asked(port: int, text: str, *values: object) -> list[tuple[object, ...]]:
    async def ask() -> list[tuple[object, ...]]:
        client = await asyncpg.connect(host="127.0.0.1", port=port, user="ann", password=PASSWORD, database="app")
        try:
            return [tuple(row) for row in await client.fetch(text, *values)]
        finally:
            await client.close()

    return asyncio.run(ask())


@pytest.mark.parametrize("mark", ["%s", "%b"])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("m", value) for value in (_NINES, _NINES.copy_negate(), Decimal("-0.0000000001"))),
        *(("d", value) for value in (float("nan"), float("inf"), float("-inf"), -0.0, -5e-324, 1.7976931348623157e308)),
        *(("f", value) for value in (float("nan"), float("-inf"), -0.0)),
        *(("day", value) for value in (date.min, date.max)),
        *(("moment", value) for value in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))),
    ],
    ids=repr,
)  # fmt: skip
def test_a_bound_value_arrives_as_it_was_sent(
    edges: Iterator[int], ann: psycopg.Connection, mark: str, column: str, value: object
) -> None:
    number = next(edges)
    ann.execute(f"INSERT INTO edges (id, {column}) VALUES (%s, {mark})", (number, value))
    found = ann.execute(f"SELECT {column} FROM edges WHERE id = %s AND {column} = {mark}", (number, value), binary=mark == "%b")
    assert [repr(row[0]) for row in found] == [repr(value)]


def test_asyncpg_binds_a_negative_decimal_of_38_digits_and_nan(edges: Iterator[int], port: int) -> None:
    number = next(edges)
    _asked(port, "INSERT INTO edges (id, m, d) VALUES ($1, $2, $3)", number, _NINES, float("nan"))
    found = _asked(port, "SELECT m, d FROM edges WHERE id = $1 AND m = $2 AND d = $3", number, _NINES, float("nan"))
    assert str(found) == f"[({_NINES!r}, nan)]"


def test_a_decimal_of_38_digits_stays_one_in_a_query(ann: psycopg.Connection) -> None:
    """Its last group of four digits is filled with zeros in binary, and a number of more than 38 digits is a DOUBLE there."""
    assert ann.execute("SELECT %b, %s", (_NINES, _NINES)).fetchall() == [(_NINES, _NINES)]


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "sNaN"])
def test_a_decimal_that_is_no_number_is_refused_by_a_decimal_and_taken_by_a_double(
    edges: Iterator[int], ann: psycopg.Connection, value: str
) -> None:
    with pytest.raises(psycopg.IntegrityError, match=r"'m'.*does not fit DECIMAL\(38,10\)"):
        ann.execute("INSERT INTO edges (id, m) VALUES (%s, %s)", (next(edges), Decimal(value)))
    number = next(edges)
    ann.execute("INSERT INTO edges (id, d) VALUES (%s, %s)", (number, Decimal(value)))
    assert (
        str(ann.execute("SELECT d FROM edges WHERE id = %s", (number,)).fetchall()) == f"[({float(Decimal(value.lstrip('s')))},)]"
    )


def test_a_cast_of_a_parameter_keeps_its_digits(ann: psycopg.Connection, port: int) -> None:
    for value in (Decimal("1.23456"), _NINES):
        assert ann.execute("SELECT %s::NUMERIC, CAST(%b AS DECIMAL)", (value, value)).fetchall() == [(value, value)]
        assert _asked(port, "SELECT $1::numeric", value) == [(value,)]


_FAR = "SELECT {} FROM (SELECT 'infinity'::DATE a, '-infinity'::DATE b, 'infinity'::TIMESTAMP c, '-infinity'::TIMESTAMPTZ d)"


@pytest.mark.usefixtures("edges")
def test_infinity_is_postgresqls(ann: psycopg.Connection, port: int) -> None:
    """asyncpg reads it as the ends of Python's calendar, and psycopg refuses it, as of PostgreSQL itself."""
    ends = datetime.max, datetime.min  # noqa: DTZ901  # as asyncpg has them, without a zone
    assert _asked(port, _FAR.format("a, b, c, d")) == [(date.max, date.min, *ends)]
    assert _asked(port, "SELECT id FROM edges WHERE day <= $1 AND day > $1", date.max) == []  # which it sends as infinity
    for column, kind in (("a", "date"), ("b", "date"), ("c", "timestamp"), ("d", "timestamp")):
        for binary in (True, False):
            with pytest.raises(psycopg.DataError, match=f"{kind} too (large|small)"):
                ann.execute(_FAR.format(column), binary=binary).fetchall()


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("DATE '0044-03-15 (BC)'", "0044-03-15 BC"),
        ("DATE '0001-12-31 (BC)'", "0001-12-31 BC"),
        ("DATE '10000-01-01'", "10000-01-01"),
        ("TIMESTAMP '0044-03-15 (BC) 10:00:00'", "0044-03-15 10:00:00.000000 BC"),
        ("TIMESTAMPTZ '0044-03-15 (BC) 10:00:00+00'", "0044-03-15 10:00:00.000000+00 BC"),
        ("'infinity'::TIMESTAMPTZ", "infinity"),
    ],
)
def test_a_moment_outside_pythons_calendar_is_written_as_postgresql_writes_it(
    ann: psycopg.Connection, written: str, text: str
) -> None:
    cursor = ann.execute(f"SELECT {written}")
    result = cursor.pgresult
    assert result is not None
    assert result.get_value(0, 0) == text.encode()


@pytest.mark.parametrize(
    "text",
    [
        *(
            "COPY notes TO STDOUT",
            "COPY notes (id) FROM STDIN",
            "LISTEN notes",
            "DECLARE c SCROLL CURSOR FOR SELECT 1",
            "SELECT * FROM notes FOR UPDATE",
            "PREPARE p AS SELECT 1",
        ),
        *("SELECT nextval('s')", "SELECT pg_sleep(0)", "SELECT has_something('a')", "SELECT quote_ident('a')"),
        "SELECT * FROM notes WHERE has_table_privilege('notes', 'SELECT')",
    ],
)
def test_what_postgresql_has_and_we_do_not_is_not_supported(ann: psycopg.Connection, text: str) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        ann.execute(text)


def test_functions_about_rights_and_comments_are_answered_alone(ann: psycopg.Connection) -> None:
    asked = (
        "SELECT has_schema_privilege('app', 'USAGE'), has_table_privilege('a', 'SELECT'), obj_description(1), inet_client_addr()"
    )
    assert ann.execute(asked).fetchall() == [(True, True, None, None)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):  # it reaches outside, whoever asks
        ann.execute("SELECT * FROM read_csv('/etc/passwd')")


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "{'a': 'infinity'::DATE, 'b': ['-infinity'::TIMESTAMP]}",
            {"a": "infinity", "b": ["-infinity"]},
        ),
        ("{'a': DATE '0044-03-15 (BC)'}", {"a": "-0043-03-15"}),
        ("[['infinity'::DATE]]", [["infinity"]]),
        ("MAP {1: '99999-01-01'::DATE}", [[1, "99999-01-01"]]),
        ("TIMESTAMP_NS '1992-01-01 00:00:00.123456789'", "1992-01-01 00:00:00.123456789"),
        ("[TIMESTAMP_NS '1992-01-01 00:00:00.123456789']", ["1992-01-01 00:00:00.123456789"]),
        ("1234567890123456789012345678901234567890123", "1234567890123456789012345678901234567890123"),
        ("340282366920938463463374607431768211455::UHUGEINT", "340282366920938463463374607431768211455"),
        ("TIMETZ '01:00:00+15:59:59'", "01:00:00+15:59:59"),
    ],
)
def test_what_postgresql_has_no_type_for_is_text(ann: psycopg.Connection, text: str, shown: object, binary: bool) -> None:
    assert ann.execute(f"SELECT {text}", binary=binary).fetchall() == [(shown,)]
