"""A query that is computed partition by partition has the result of the same query computed as one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import chain, repeat
from typing import TYPE_CHECKING

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import FederationSettings, SqlSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.sql.dialect import Lakewarden
from lakewarden.sql.queries import federation as run
from lakewarden.sql.queries.federation_shape import is_aggregate
from lakewarden.sql.results import QueryStrategy, ResultRows, ServedBy
from lakewarden.sql.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APART = Settings(federation=FederationSettings(min_bytes=1, part_bytes=1))
COLUMNS = (
    'id BIGINT PRIMARY KEY, "day" TEXT, n INT, big BIGINT, x DOUBLE, d DECIMAL(12,2), b BOOLEAN, j JSON, at TIMESTAMP, u UUID'
)
FILL = """INSERT INTO n.t SELECT i,
  CASE WHEN i % 6 = 5 THEN NULL ELSE 'd' || (i % 6) END,
  CASE WHEN i % 7 = 0 THEN NULL ELSE i % 5 - 2 END,
  CASE WHEN i % 4 = 0 THEN 9223372036854775807 - i ELSE i - 20 END,
  CASE WHEN i % 8 = 3 THEN NULL ELSE (i % 9) / 8 END,
  ((i * 37) % 1000 - 500) / 100,
  CASE WHEN i % 5 = 0 THEN NULL ELSE i % 3 = 0 END,
  '{"a": ' || (i % 4) || '}',
  TIMESTAMP '2026-11-22 00:00:00' + INTERVAL (i % 50) HOUR,
  NULL
FROM range(60) r(i)"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path_factory.mktemp("federation") / "w"), settings=APART) as opened:
        opened.sql(f'CREATE NAMESPACE n; CREATE SHARED TABLE n.t ({COLUMNS}) PARTITION BY ("day")')
        opened.sql("CREATE SHARED TABLE n.whole (id BIGINT PRIMARY KEY); CREATE VIEW n.seen AS SELECT * FROM t")
        opened.sql(FILL)
        opened.sql("INSERT INTO n.whole VALUES (1)")
        opened.flush()
        yield opened


def _both(lake: Lakehouse, text: str) -> tuple[ResultRows, ResultRows]:
    """Fanned out, and as one: nothing is pending, so that a strong read sees the same rows."""
    (apart,), (whole,) = lake.sql(text, freshness="eventual"), lake.sql(text)
    assert isinstance(apart, ResultRows)
    assert isinstance(whole, ResultRows)
    return apart, whole


def _plain(value: object) -> object:
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def _rows(rows: ResultRows) -> list[tuple[object, ...]]:
    return [tuple(map(_plain, row.values())) for row in rows.to_pylist()]


def _check_same(apart: ResultRows, whole: ResultRows, *, ordered: bool = False) -> None:
    assert (apart.columns, apart.types) == (whole.columns, whole.types)
    if ordered:
        assert _rows(apart) == _rows(whole)
    else:
        assert Counter(map(repr, _rows(apart))) == Counter(map(repr, _rows(whole)))


AGGREGATES = [
    "count(*), count(n), sum(n), sum(big), avg(n), avg(big), avg(d), avg(x), sum(d), min(at), max(u), bool_and(b) FROM n.t",
    "sum(big) + count(*) AS s, max(j->>'a'), 'x' FROM n.t WHERE n > 0",
    '"day", count(*) c FROM n.t GROUP BY "day" HAVING c > 9 ORDER BY c DESC, 1 NULLS FIRST LIMIT 4 OFFSET 1',
    'upper("day") AS k, sum(n) FILTER (WHERE b), avg(x) FILTER (WHERE n > 1) FROM n.t GROUP BY k ORDER BY k',
    "n + 1 m, min(x) FROM n.t GROUP BY ALL ORDER BY m",
    "t.n, T.N, count(*) FROM n.t GROUP BY 1, t.n ORDER BY -max(t.big), n",
    "count(*) FROM n.t WHERE id + 0 < 0",
    "n, sum(x) FROM n.t WHERE id + 0 < 0 GROUP BY n",
    "-id AS id, count(*) FROM n.t GROUP BY t.id ORDER BY id LIMIT 3",
    "1 FROM n.t HAVING count(*) > 3",
]
SCANS = [
    "* FROM n.t ORDER BY id DESC LIMIT 7 OFFSET 2",
    "x FROM n.t ORDER BY x NULLS FIRST, id LIMIT 9",
    '-id AS id, "day" FROM n.t WHERE n IN (1, 2) ORDER BY id LIMIT 5',
    "id, big::HUGEINT * 4 AS h, {'a': n}, [n, 1], j, j->'a', at, d FROM n.t ORDER BY h, 1",
    '* EXCLUDE (j) FROM n.t WHERE "day" IS NULL OR b ORDER BY big + 0, id',
    "id FROM n.t WHERE id + 0 < 0 ORDER BY id",
]


@pytest.mark.parametrize("text", AGGREGATES)
def test_aggregates_are_reduced(lake: Lakehouse, text: str) -> None:
    apart, whole = _both(lake, f"SELECT {text}")
    assert (apart.strategy, apart.served_by, apart.strategy_reason) == (
        QueryStrategy.FEDERATED_AGGREGATE,
        ServedBy.WAREHOUSE,
        "",
    )
    _check_same(apart, whole, ordered="ORDER BY" in text)


@pytest.mark.parametrize("text", SCANS)
def test_rows_are_concatenated_sorted_and_cut(lake: Lakehouse, text: str) -> None:
    apart, whole = _both(lake, f"SELECT {text}")
    assert apart.strategy is QueryStrategy.FEDERATED_SCAN
    _check_same(apart, whole, ordered=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("count(DISTINCT n) FROM n.t", "an aggregate does not come from those of partitions"),
        ("median(n) FROM n.t", "an aggregate does not"),
        ("string_agg(j, ',' ORDER BY id) FROM n.t", "an aggregate does not"),
        ("sum(n) OVER () FROM n.t", "a window"),
        ("DISTINCT n FROM n.t", "DISTINCT"),
        ("count(*) FROM n.t a JOIN n.t b USING (id)", "it joins tables"),
        ("count(*) FROM n.seen", "it has a subquery"),
        ("count(*) FROM n.t WHERE n = (SELECT 1)", "subquery"),
        ("avg(at) FROM n.t", "it cannot be divided"),
        ("n FROM n.t GROUP BY ROLLUP (n)", "several sets"),
        ("id FROM n.t LIMIT 10%", "LIMIT"),
        ("n + 1 AS m FROM n.t ORDER BY m * 2", "over a name that it shows"),
        ("count(*) FROM n.t WHERE \"day\" = 'd1'", "it reads one partition"),
        ("1 FROM n.t UNION ALL SELECT 2", "it is not one SELECT"),
    ],
)
def test_what_does_not_decompose_is_computed_as_one_and_says_why(lake: Lakehouse, text: str, reason: str) -> None:
    apart, whole = _both(lake, f"SELECT {text}")
    assert (apart.strategy, apart.served_by) == (QueryStrategy.FEDERATED_TO_SINGLE, ServedBy.WAREHOUSE)
    assert reason in (apart.strategy_reason or "")
    assert len(apart.to_pylist()) == len(whole.to_pylist())


@pytest.mark.parametrize("shown", ["avg(d) AS a", "avg(d) AS a, sum(d), count(d)"])
def test_an_average_of_decimals_is_right_but_for_its_last_digit(lake: Lakehouse, shown: str) -> None:
    """DuckDB itself has two: by what else the query shows, it divides the sum, or the sum of the digits."""
    for grouped in ("", " GROUP BY n ORDER BY n"):
        apart, whole = _both(lake, f"SELECT {shown} FROM n.t{grouped}")
        assert apart.strategy is QueryStrategy.FEDERATED_AGGREGATE
        averages = [[row["a"] for row in rows.to_pylist()] for rows in (apart, whole)]
        assert averages[0] == pytest.approx(averages[1], rel=4e-16, abs=0)


def test_a_wrong_query_is_refused_as_ever(lake: Lakehouse) -> None:
    for text in ("SELECT nope FROM n.t", "SELECT n, count(*) FROM n.t", "SELECT sum(j) FROM n.t"):
        with pytest.raises(InvalidArgument) as whole:
            lake.sql(text)
        with pytest.raises(InvalidArgument) as apart:
            lake.sql(text, freshness="eventual")
        assert apart.value.message.splitlines()[0] == whole.value.message.splitlines()[0]


def test_a_join_says_why_by_the_rules_of_k3(lake: Lakehouse) -> None:
    session = open_session(lake._parts.services, "root", "system", "k3")
    (joined,) = session.sql("SELECT count(*) FROM n.t a, n.whole b", freshness="eventual")
    assert isinstance(joined, ResultRows)
    assert (joined.strategy, joined.strategy_reason) == (QueryStrategy.FEDERATED_TO_SINGLE, "it reads 2 tables")


@pytest.mark.slow
def test_many_parts_are_computed_by_spark(lake: Lakehouse, spark: SparkSession) -> None:
    in_spark = Settings(federation=FederationSettings(min_bytes=1, part_bytes=1, in_process_below=0))
    with Lakehouse.open(lake.warehouse.uri, settings=in_spark, spark=lambda: spark) as other:
        for text in (AGGREGATES[0], AGGREGATES[2], SCANS[0], SCANS[3]):
            apart, whole = _both(other, f"SELECT {text}")
            assert apart.strategy in (QueryStrategy.FEDERATED_AGGREGATE, QueryStrategy.FEDERATED_SCAN)
            _check_same(apart, whole, ordered="ORDER BY" in text)


PARTS_ABOVE_THE_BOUND = "SELECT id, repeat(j, 40) FROM n.t ORDER BY id LIMIT 1"
"""Each part has one row of some 300 bytes, and so has the result."""


def _bounds(spark_below: int, result_bytes: int = 1 << 30) -> Settings:
    apart = FederationSettings(min_bytes=1, part_bytes=1, in_process_below=spark_below)
    return Settings(federation=apart, sql=SqlSettings(result_bytes=result_bytes))


def test_the_rows_of_all_parts_are_bounded_together(lake: Lakehouse) -> None:
    with Lakehouse.open(lake.warehouse.uri, settings=_bounds(64, 1024)) as bounded:
        assert bounded.sql(PARTS_ABOVE_THE_BOUND)
        with pytest.raises(Unsupported, match=r"the partitions' rows take more than 1,024 bytes \(sql.result_bytes\)"):
            bounded.sql(PARTS_ABOVE_THE_BOUND, freshness="eventual")


def test_parts_that_are_left_when_the_time_is_over_are_not_read(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "monotonic", chain([0.0], repeat(1e9)).__next__)
    monkeypatch.setattr(run, "rows_within", None)
    with pytest.raises(Unsupported, match=r"more than 300 seconds \(sql.timeout_seconds\)"):
        lake.sql(f"SELECT {AGGREGATES[0]}", freshness="eventual")


@pytest.mark.slow
def test_the_bounds_hold_in_spark(lake: Lakehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lakehouse.open(lake.warehouse.uri, settings=_bounds(0, 1024), spark=lambda: spark) as bounded:
        with pytest.raises(Unsupported, match="the partitions' rows take more than 1,024 bytes"):
            bounded.sql(PARTS_ABOVE_THE_BOUND, freshness="eventual")
        times = chain([0.0], repeat(1e9))
        monkeypatch.setattr(run, "monotonic", times.__next__)
        with pytest.raises(Unsupported, match=r"more than 300 seconds \(sql.timeout_seconds\)"):
            bounded.sql(f"SELECT {AGGREGATES[0]}", freshness="eventual")
        conf = spark.sparkContext._jsc.sc().conf()
        monkeypatch.undo()
        conf.set("spark.driver.maxResultSize", "1")
        try:
            with pytest.raises(Unsupported, match=r"the answers of the tasks are too large for the driver: .*maxResultSize"):
                bounded.sql(f"SELECT {AGGREGATES[0]}", freshness="eventual")
        finally:
            conf.remove("spark.driver.maxResultSize")


def test_small_and_unpartitioned_tables_are_read_by_one(lake: Lakehouse) -> None:
    wide = replace_min(lake, 1 << 30)
    try:
        (small,) = wide.sql("SELECT count(*) FROM n.t", freshness="eventual")
        assert isinstance(small, ResultRows)
        assert small.strategy is QueryStrategy.FEDERATED_TO_SINGLE
        assert "fewer than 1,073,741,824" in str(small.strategy_reason)
    finally:
        wide.close()
    (strong,) = lake.sql("SELECT count(*) FROM n.t")
    assert isinstance(strong, ResultRows)
    assert strong.strategy is QueryStrategy.UNARY_MERGED_STRONG


def replace_min(lake: Lakehouse, min_bytes: int) -> Lakehouse:
    return Lakehouse.open(lake.warehouse.uri, settings=Settings(federation=FederationSettings(min_bytes=min_bytes)))


@pytest.mark.slow
def test_sessions_of_users_have_the_same_results(lake: Lakehouse) -> None:
    (rows,) = lake.session(user="ana", role="service").sql(f"SELECT {AGGREGATES[0]}", freshness="eventual")
    assert isinstance(rows, ResultRows)
    assert rows.strategy is QueryStrategy.FEDERATED_AGGREGATE
    (whole,) = lake.sql(f"SELECT {AGGREGATES[0]}")
    assert isinstance(whole, ResultRows)
    _check_same(rows, whole)


def test_every_aggregate_of_duckdb_is_known() -> None:
    cursor = duckdb.connect()
    names = cursor.execute("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'").fetchall()
    assert len(names) > 50
    for (name,) in names:
        calls = []
        for arguments in ("a", "a, b", "a, b, c"):
            try:
                (tree,) = Lakewarden().parse(f"SELECT {name}({arguments}) FROM t")
            except Exception:  # noqa: BLE001  # sqlglot knows how many arguments it has
                continue
            assert isinstance(tree, exp.Select)
            calls.append(tree.expressions[0])
        assert calls, name
        assert all(is_aggregate(call) for call in calls), name


_VALUES = st.sampled_from(
    ["n", "big", "x", "d", "id", "n + id", "n * 2", "length(j)", "abs(n)", "CASE WHEN b THEN n END", "coalesce(n, 0)"]
)
_EXACT = st.sampled_from(["n", "big", "d", "n + id", "CASE WHEN b THEN n END", "coalesce(n, 0)"])
_WHOLE = st.sampled_from(["n", "big", "n + id", "CASE WHEN b THEN n END", "coalesce(n, 0)"])
_DAYS = ["\"day\" = 'd1'", "\"day\" IN ('d1', 'd2')"]
_TESTS = st.sampled_from(["n > 0", "b", "NOT b", "x IS NULL", "n IN (1, 2)", "id BETWEEN 5 AND 40", "id < 0", *_DAYS])
_KEYS = st.sampled_from(["n", '"day"', "b", "n + 1", "id % 3", "at", 'upper("day")', "n > 0", "j->>'a'"])
_CALLS = st.one_of(
    st.just("count(*)"),
    _VALUES.map("count({})".format),
    _EXACT.map("sum({})".format),
    _WHOLE.map("avg({})".format),
    st.tuples(st.sampled_from(["min", "max"]), st.one_of(_VALUES, st.sampled_from(["at", '"day"', "b"]))).map(
        lambda parts: f"{parts[0]}({parts[1]})"
    ),
    st.tuples(st.sampled_from(["bool_and", "bool_or"]), _TESTS).map(lambda parts: f"{parts[0]}({parts[1]})"),
)
_FILTERED = st.tuples(_CALLS, st.none() | _TESTS).map(
    lambda parts: parts[0] if parts[1] is None else f"{parts[0]} FILTER (WHERE {parts[1]})"
)
_PAIRS = st.tuples(_FILTERED, _FILTERED).map(lambda two: f"[({two[0]})::TEXT, ({two[1]})::TEXT]")
_OVER = st.one_of(_FILTERED, _FILTERED.map("({}) IS NULL".format), _PAIRS)


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, bool]:
    """A query, and whether the order of its rows is certain."""
    where = draw(st.none() | _TESTS)
    tail = f" FROM n.t{'' if where is None else f' WHERE {where}'}"
    cut = draw(st.sampled_from(["", " LIMIT 3", " LIMIT 4 OFFSET 2"]))
    direction = draw(st.sampled_from(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]))
    if draw(st.booleans()):
        shown = draw(st.lists(st.one_of(_VALUES, _KEYS, st.just("*")), min_size=1, max_size=3))
        by = draw(_VALUES)
        return f"SELECT {', '.join(shown)}{tail} ORDER BY {by}{direction}, t.id{cut}", True
    keys = draw(st.lists(_KEYS, max_size=2, unique=True))
    calls = draw(st.lists(_OVER, min_size=1, max_size=3))
    shown = [*(f"{key} AS k{number}" for number, key in enumerate(keys)), *calls]
    group = draw(st.sampled_from([f" GROUP BY {', '.join(keys)}", " GROUP BY ALL"])) if keys else ""
    having = draw(st.sampled_from(["", f" HAVING {draw(_FILTERED)} IS NOT NULL"]))
    order = f" ORDER BY {', '.join(f'k{number}{direction}' for number in range(len(keys)))}{cut}" if keys else ""
    return f"SELECT {', '.join(shown)}{tail}{group}{having}{order}", True


@pytest.mark.slow
@settings(max_examples=2000 if settings().max_examples >= 2000 else max(settings().max_examples // 4, 5))
@given(query=queries())
def test_generated_queries_have_the_same_result(lake: Lakehouse, query: tuple[str, bool]) -> None:
    apart, whole = _both(lake, query[0])
    assert apart.strategy in (
        QueryStrategy.FEDERATED_AGGREGATE,
        QueryStrategy.FEDERATED_SCAN,
        QueryStrategy.FEDERATED_TO_SINGLE,
    )
    _check_same(apart, whole, ordered=query[1])
