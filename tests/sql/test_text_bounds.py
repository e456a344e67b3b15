"""A text of a session other than the operator's is bounded before anything of it is parsed."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sqlglot import exp

from lakewarden import Lakehouse, Settings
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.errors import BadSyntax, InvalidArgument
from lakewarden.sql import parse
from lakewarden.sql.parse import parse as parsed
from lakewarden.sql.queries import literals
from lakewarden.sql.results import AffectedRows, ResultRows
from lakewarden.sql.statements.query import Query
from lakewarden.sql.text_bounds import TextBounds
from tests.fixtures.lakes import lake_fixture

_TABLE = "CREATE NAMESPACE app; CREATE USER TABLE app.t (id BIGINT PRIMARY KEY, v TEXT)"
_BOUNDS = TextBounds(bytes=100, tokens=20, statements=3)

_TOO_LONG = {
    "an INSERT of 10 MB": (f"INSERT INTO app.t VALUES (1, '{'x' * 10_000_000}')", "sql.text_bytes"),
    "an IN list of a million": (f"SELECT 1 WHERE 1 IN ({', '.join(map(str, range(1_000_000)))})", "sql.text_bytes"),
    "20,000 statements": ("SELECT 1;" * 20_000, "sql.text_statements"),
    "60,000 rows of VALUES": (f"INSERT INTO app.t VALUES {', '.join(f'({n}, n)' for n in range(60_000))}", "sql.text_tokens"),
    "brackets": ("(" * 200_000, "sql.text_tokens"),
}


lake = lake_fixture(sql=_TABLE, scope="module")


@pytest.mark.slow
@pytest.mark.parametrize(("text", "setting"), _TOO_LONG.values(), ids=_TOO_LONG)
def test_a_text_beyond_its_bounds_is_refused_before_it_is_parsed(
    lake: Lakehouse, monkeypatch: pytest.MonkeyPatch, text: str, setting: str
) -> None:
    def statement(*_: object) -> None:
        raise AssertionError("the text is parsed")

    monkeypatch.setattr(parse, "_statement", statement)
    session = lake.session(user="nobody", role="anonymous")
    for call in (session.sql, session.subscribe):
        with pytest.raises(InvalidArgument, match=rf"are allowed \({setting}\): send several smaller texts"):
            call(text)


@pytest.mark.parametrize(
    ("within", "beyond"),
    [
        ("SELECT '" + "x" * 91 + "'", "SELECT '" + "x" * 92 + "'"),
        ("SELECT '" + "é" * 45 + "'", "SELECT '" + "é" * 46 + "'"),
        ("SELECT 1;" * 3, "SELECT 1;" * 4),
        ("SELECT " + "1 + " * 9 + "1", "SELECT " + "1 + " * 9 + "1 a"),
    ],
)
def test_the_bounds_are_exact(within: str, beyond: str) -> None:
    assert parsed(within, _BOUNDS)
    with pytest.raises(InvalidArgument):
        parsed(beyond, _BOUNDS)


def test_the_settings_set_the_bounds(warehouse_uri: str) -> None:
    settings = Settings(sql=SqlSettings(text_bytes=2000, text_tokens=200, text_statements=2))
    with Lakehouse.open(warehouse_uri, settings=settings) as lake:
        session = lake.session(user="ada")
        for text in ("SELECT '" + "x" * 2000 + "'", "SELECT " + "1, " * 100 + "1", "SHOW TABLES; " * 3):
            with pytest.raises(InvalidArgument):
                session.sql(text)
            assert lake.sql(text), "the operator's texts have no bounds"


@pytest.mark.slow
def test_many_rows_are_written_by_texts_within_the_bounds_or_as_arrow(lake: Lakehouse) -> None:
    session = lake.session(user="ada")
    (done,) = session.sql(f"INSERT INTO app.t VALUES {', '.join(f'({n}, NULL)' for n in range(10_000))}")
    assert done == AffectedRows(10_000)
    session.table("app.t").write(pa.table({"id": range(10_000, 110_000), "v": ["x"] * 100_000}))
    (found,) = session.sql("SELECT count(*) AS n FROM app.t")
    assert isinstance(found, ResultRows)
    assert found.to_pylist() == [{"n": 110_000}]


@pytest.mark.slow
def test_the_search_for_secrets_in_a_wrong_text_looks_at_each_word_once(lake: Lakehouse) -> None:
    """It looks for a password after each of these words: one expression for both took minutes."""
    with pytest.raises(BadSyntax, match=r"is not closed, or a number is invalid, near "):
        lake.session(user="ada").sql("USER " * 200_000 + "'")


@pytest.mark.slow
def test_columns_of_one_name_are_told_apart(lake: Lakehouse) -> None:
    (found,) = lake.session(user="ada").sql("SELECT 1 AS a, 2 AS a_1, 3 AS a, 4 AS a, 5 AS b")
    assert isinstance(found, ResultRows)
    assert found.columns == ["a", "a_1", "a_2", "a_3", "b"]
    (wide,) = lake.session(user="ada").sql(f"SELECT {', '.join(['1'] * 3000)}")
    assert isinstance(wide, ResultRows)
    assert len(set(wide.columns)) == 3000


@pytest.mark.parametrize("call", ["DATE (", "row("])
def test_a_nesting_that_would_be_tried_in_ever_more_ways_is_refused(lake: Lakehouse, call: str) -> None:
    """sqlglot tries some calls as two things, and each call within them as two."""
    with pytest.raises(BadSyntax, match="too many ways"):
        lake.session(user="ada").sql(f"SELECT {call * 60}1{')' * 60}")


def test_a_column_is_looked_for_once_in_each_select(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through CTEs that name the one before twice there are 2 to the power of their number ways to it."""
    later = ", ".join(f"c{n} AS (SELECT * FROM c{n - 1} a, c{n - 1} b)" for n in range(1, 20))
    text = f"WITH c0 AS (SELECT * FROM t), {later} SELECT * FROM c19 WHERE id = '550E8400-E29B-41D4-A716-446655440000'"
    (statement,) = parsed(text)
    assert isinstance(statement, Query)
    query = statement.query
    (table,) = (node for node in query.find_all(exp.Table) if node.name == "t")
    schema = TableSchema(1, (SchemaColumn(1, "id", ColumnType.parse("UUID"), True, None),), ("id",))
    looked: list[str] = []
    of_source = literals.ColumnTypes._of_source

    def counted(columns: literals.ColumnTypes, source: exp.Expr, name: str, depth: int) -> ColumnType | None:
        looked.append(name)
        return of_source(columns, source, name, depth)

    monkeypatch.setattr(literals.ColumnTypes, "_of_source", counted)
    literals.take_kept_forms(query, literals.ColumnTypes({id(table): schema}))
    assert len(looked) < 100
    assert "550e8400-e29b-41d4-a716-446655440000" in query.sql()
