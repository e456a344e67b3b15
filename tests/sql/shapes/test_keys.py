"""What the planner calls keyed means the same rows whatever stands beside their keys, and at most one row where it says so."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp, parse_one

from lakewarden import Lakehouse
from lakewarden.sql.results import AffectedRows, ResultRows
from lakewarden.sql.session import SqlSession, open_session
from lakewarden.sql.writing.shapes import Condition, ConditionTarget, condition_of
from tests.fixtures.examples import examples

_KEY, _COLUMNS = ("a", "b"), frozenset({"a", "b", "n"})
_ROWS = [(a, b) for a in range(3) for b in range(3)]
_columns = st.sampled_from(["a", "b", "t.a", "B", "a", "b", "n", "a + n"])
_values = st.integers(-1, 3).map(str)
_comparisons = st.builds("{} {} {}".format, _columns, st.sampled_from(["=", "<", ">=", "<>"]), _values)
_simple = st.one_of(
    _comparisons,
    st.builds("{1} = {0}".format, _columns, _values),
    st.builds("{} IN ({}, {})".format, _columns, _values, _values),
    st.builds("{} BETWEEN {} AND {}".format, _columns, _values, _values),
    st.builds("(a, b) = ({}, {})".format, _values, _values),
    st.builds("(a, b) IN (SELECT x, y FROM o WHERE {} > {})".format, st.sampled_from(["x", "n", "o.y", "t.n"]), _values),
    st.builds("{} IN (SELECT n FROM m WHERE {} < {})".format, _columns, st.sampled_from(["n", "m.n", "t.n", "a"]), _values),
    st.sampled_from(["true", "a IS NOT NULL", "EXISTS (SELECT 1 FROM o WHERE x = a)", "NOT (a = b)"]),
)
_wheres = st.recursive(
    _simple,
    lambda inner: st.one_of(
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({})".format, inner, inner),
        inner.map("NOT ({})".format),
    ),
    max_leaves=4,
)
_OTHERS = (
    "CREATE TABLE o AS SELECT * FROM (VALUES (0, 1), (2, 2)) o(x, y); CREATE TABLE m AS SELECT * FROM (VALUES (0), (2)) m(n)"
)


def _columns_of(node: exp.Table) -> tuple[str, ...] | None:
    return {"o": ("x", "y"), "m": ("n",)}.get(node.name)


def _condition(where: str) -> Condition:
    return condition_of(parse_one(where, read="duckdb"), ConditionTarget(_KEY, _COLUMNS, frozenset({"t"})), _columns_of)


def _database() -> duckdb.DuckDBPyConnection:
    database = duckdb.connect()
    database.execute(_OTHERS)
    for name, beside in (("one", "a * 7 % 4"), ("other", "3 - b")):
        database.execute(f"CREATE TABLE {name} AS SELECT a, b, {beside} AS n FROM range(3) x(a), range(3) y(b)")
    return database


_DATABASE = _database()


def _keys(where: str, table: str) -> list[tuple[int, ...]]:
    return sorted(_DATABASE.execute(f"SELECT a, b FROM {table} AS t WHERE {where}").fetchall())


@given(_wheres)
@settings(max_examples=examples(60))
def test_what_is_keyed_depends_on_the_key_alone(where: str) -> None:
    found = _condition(where)
    if found.on_key != "other columns":
        assert _keys(where, "one") == _keys(where, "other"), found
    if found.on_key == "one key":
        assert len(_keys(where, "one")) <= 1, found


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    """The tables of `_DATABASE`, and `t`, which is flushed in part."""
    with Lakehouse.open(str(tmp_path_factory.mktemp("keys"))) as opened:
        opened.sql(
            "CREATE NAMESPACE app; CREATE TABLE app.o AS SELECT * FROM (VALUES (0, 1), (2, 2)) o(x, y);"
            "CREATE TABLE app.m AS SELECT * FROM (VALUES (0), (2)) m(n);"
            "CREATE TABLE app.t PRIMARY KEY (a, b) AS SELECT a::INT AS a, b::INT AS b, 0 AS n FROM range(3) x(a), range(3) y(b);"
            "UPDATE app.t SET n = 1 WHERE a = b"
        )
        yield opened


@pytest.mark.slow
@given(_wheres.filter(lambda where: _condition(where).on_key != "other columns"))
@settings(max_examples=examples(15), deadline=None)
def test_what_is_keyed_changes_what_evaluating_it_row_by_row_changes(lake: Lakehouse, where: str) -> None:
    session = open_session(lake._parts.services, "root", "system", "k3")
    session.sql("USE app")
    before = ", ".join(map(str, _rows(session)))
    _DATABASE.execute(f"CREATE OR REPLACE TEMP TABLE t AS SELECT * FROM (VALUES {before}) v(a, b, n)")
    changed = _DATABASE.execute(f"UPDATE t SET n = (n + 1) % 4 WHERE {where} RETURNING 1").fetchall()
    (done,) = session.sql(f"UPDATE t SET n = (n + 1) % 4 WHERE {where}")
    assert isinstance(done, AffectedRows)
    assert done.strategy.name.startswith("KEYED")
    assert (done.rows, done.pending_drain) == (len(changed), bool(changed))
    assert _rows(session) == _DATABASE.execute("SELECT a, b, n FROM t ORDER BY a, b").fetchall()


def _rows(session: SqlSession) -> list[tuple[object, ...]]:
    (found,) = session.sql("SELECT a, b, n FROM t ORDER BY a, b")
    assert isinstance(found, ResultRows)
    return list(zip(*found.values(), strict=True))
