"""`idempotency-key`: a write that a driver sends again is answered, and not done again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count

import pyarrow as pa
import pytest
from adbc_driver_flightsql import DatabaseOptions, StatementOptions, dbapi
from adbc_driver_manager import Error

from lakewarden import Lakehouse
from lakewarden.serve.tokens import operator_token

pytestmark = pytest.mark.xdist_group("flight")

_KEY = f"{StatementOptions.RPC_CALL_HEADER_PREFIX.value}idempotency-key"
_NUMBERS = count()


@pytest.fixture(scope="module", autouse=True)
def table(lake: Lakehouse) -> None:
    lake.sql("CREATE NAMESPACE keyed; CREATE SHARED TABLE keyed.plain (id BIGINT)")
    lake.sql("CREATE SHARED TABLE keyed.known (id BIGINT PRIMARY KEY)")


@pytest.fixture
def number() -> int:
    return next(_NUMBERS)


@pytest.fixture
def keyed(flight: str, lake: Lakehouse, number: int) -> Iterator[dbapi.Cursor]:
    """A cursor whose statements all have the same key, of a user who may write SHARED tables."""
    token = operator_token(lake.warehouse, "root", "system", timedelta(hours=1))
    header = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {token}"}
    with dbapi.connect(flight, db_kwargs=header, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{_KEY: f"flight-{number}"})
        yield cursor


def times(lake: Lakehouse, number: int) -> object:
    return lake.sql(f"SELECT count(*) AS n FROM keyed.plain WHERE id = {number}")[0].to_pylist()[0]["n"]  # type: ignore[union-attr]


def test_an_insert(keyed: dbapi.Cursor, lake: Lakehouse, number: int) -> None:
    answers = [_answer(keyed, f"INSERT INTO keyed.plain VALUES ({number})") for _ in range(2)]
    assert answers == [[(1, None)]] * 2
    assert times(lake, number) == 1


def test_rows_of_parameters(keyed: dbapi.Cursor, lake: Lakehouse, number: int) -> None:
    for _ in range(2):
        keyed.executemany("INSERT INTO keyed.plain VALUES (?)", [(number,), (number,)])
    assert times(lake, number) == 2
    with pytest.raises(Error, match="another request"):
        keyed.executemany("INSERT INTO keyed.plain VALUES (?)", [(number,)])
    assert times(lake, number) == 2


def test_bulk_ingest(keyed: dbapi.Cursor, lake: Lakehouse, number: int) -> None:
    rows = pa.table({"id": [10 * number, 10 * number + 1]})
    for _ in range(2):  # without the key, the second one would find the rows
        assert keyed.adbc_ingest("known", rows, mode="append", db_schema_name="keyed") == 2
    with pytest.raises(Error, match="another request"):
        keyed.adbc_ingest("known", pa.table({"id": [10 * number + 2]}), mode="append", db_schema_name="keyed")
    found = lake.sql(f"SELECT id FROM keyed.known WHERE id >= {10 * number} AND id < {10 * number + 10} ORDER BY id")
    assert found[0].to_pylist() == rows.to_pylist()  # type: ignore[union-attr]


def test_another_statement_under_the_key_is_refused(keyed: dbapi.Cursor, lake: Lakehouse, number: int) -> None:
    _answer(keyed, f"INSERT INTO keyed.plain VALUES ({number})")
    with pytest.raises(Error, match="another request"):
        _answer(keyed, f"INSERT INTO keyed.plain VALUES ({number}), ({number})")
    assert times(lake, number) == 1


def test_the_rows_of_a_query_behind_a_write_are_not_kept(keyed: dbapi.Cursor, lake: Lakehouse, number: int) -> None:
    text = f"INSERT INTO keyed.plain VALUES ({number}); SELECT id FROM keyed.plain WHERE id = {number}"
    assert [_answer(keyed, text) for _ in range(2)] == [[(number,)], []]
    assert times(lake, number) == 1


def test_a_query_ignores_the_key(keyed: dbapi.Cursor, number: int) -> None:
    assert [_answer(keyed, f"SELECT {number + each}") for each in range(2)] == [[(number,)], [(number + 1,)]]


def _answer(cursor: dbapi.Cursor, text: str) -> list[tuple[object, ...]]:
    cursor.execute(text)
    return [tuple(row) for row in cursor.fetchall()]
