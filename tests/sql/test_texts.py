"""Texts as they are read: how deep they may nest, what follows a query, and what the parser would only have warned of."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lakewarden import Lakehouse
from lakewarden.errors import BadSyntax, InvalidArgument, Unsupported
from lakewarden.sql.results import AffectedRows, Events, ResultRows
from tests.fixtures.lakes import lake_fixture

_TABLE = "CREATE NAMESPACE app; CREATE SHARED TABLE app.t (id BIGINT PRIMARY KEY, name TEXT)"


lake = lake_fixture(sql=f"{_TABLE}; INSERT INTO app.t VALUES (1, 'a'), (2, 'b')")


def _rows(lake: Lakehouse, text: str) -> list[tuple[object, ...]]:
    found = lake.sql(text)[-1]
    assert isinstance(found, ResultRows)
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize("deep", [45, 300])
def test_brackets_nest_as_deep_as_people_write_them(lake: Lakehouse, deep: int) -> None:
    one = "(" * deep + "1" + ")" * deep
    before = sys.getrecursionlimit()
    assert _rows(lake, f"SELECT {one}") == [(1,)]
    assert _rows(lake, f"SELECT {'(1+' * deep}1{')' * deep}") == [(deep + 1,)]
    assert _rows(lake, f"SELECT {'abs(' * deep}1{')' * deep}") == [(1,)]
    assert _rows(lake, f"SELECT name FROM app.t WHERE id = {one}") == [("a",)]
    assert lake.sql(f"UPDATE app.t SET name = {'(' * deep}'c'{')' * deep} WHERE id = {one}") == [AffectedRows(1)]
    assert lake.sql(f"INSERT INTO app.t (id) VALUES ({'(' * deep}3{')' * deep})") == [AffectedRows(1)]
    lake.sql(f"CREATE VIEW app.v AS SELECT {one} AS x")
    assert _rows(lake, "SELECT x FROM app.v") == [(1,)]
    assert sys.getrecursionlimit() == before


@pytest.mark.slow
def test_text_that_nests_deeper_is_refused(lake: Lakehouse) -> None:
    for deep in (400, 5_000):
        with pytest.raises(BadSyntax, match="nested too deep"):
            lake.sql(f"SELECT {'(' * deep}1{')' * deep}")
    with pytest.raises(InvalidArgument, match="unknown default"):
        lake.sql(f"CREATE SHARED TABLE app.d (id BIGINT PRIMARY KEY, n BIGINT DEFAULT {'(' * 200}1{')' * 200})")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM app.t OPTIONS (last_rows = 1)",
        "select id from app.t options (last_rows=1)",
        "SELECT id FROM app.t AS t OPTIONS (last_rows = 1)",
        "SELECT options.id FROM app.t options OPTIONS (last_rows = 1)",
        "SELECT id FROM app.t WHERE true OPTIONS (last_rows = 1)",
    ],
)
def test_options_follow_the_query_of_a_subscription(lake: Lakehouse, query: str) -> None:
    (shown,) = lake.sql(f"SUBSCRIBE TO {query}")
    assert isinstance(shown, Events)
    assert [event.row for event in shown.events] == [{"id": 2}]


def test_elsewhere_options_is_an_alias_as_any_other(lake: Lakehouse) -> None:
    assert _rows(lake, "SELECT number FROM (SELECT id FROM app.t) options (number) ORDER BY number") == [(1,), (2,)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM app.t FOR UPDATE",
        "SELECT any_value(name RESPECT NULLS) FROM app.t",
        "SELECT json_object('a': NULL ABSENT ON NULL)",
        "SELECT regexp_replace('bb', 'b', 'x', lower('G'))",
        "SELECT random(1)",
    ],
)
def test_what_duckdb_has_no_words_for_is_refused_and_not_left_out(lake: Lakehouse, query: str) -> None:
    with pytest.raises(Unsupported, match="cannot be written for DuckDB"):
        lake.sql(query)


@pytest.mark.slow
def test_the_parser_writes_nothing_to_stderr(warehouse_uri: str) -> None:
    queries = ["SELECT soundex('a')", "SELECT 1 FOR UPDATE", "SELECT '{}'::JSON -> '$[bad'", "SELECT array_agg(1 LIMIT 1)"]
    told = subprocess.run([sys.executable, "-c", _RUN, warehouse_uri, *queries], capture_output=True, text=True, check=True)
    assert told.stderr == ""
    assert told.stdout.splitlines() == ["INVALID_ARGUMENT", "UNSUPPORTED", "INVALID_ARGUMENT", "SYNTAX_ERROR"]


_RUN = """
import sys
from lakewarden import Lakehouse
from lakewarden.errors import LakewardenError

with Lakehouse.open(sys.argv[1]) as lake:
    for query in sys.argv[2:]:
        try:
            lake.sql(query)
        except LakewardenError as error:
            print(error.code)
"""
