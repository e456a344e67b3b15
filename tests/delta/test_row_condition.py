"""Conditions that other engines wrote: evaluated as Spark does, or not at all."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakewarden.delta.row_condition import condition_of

_NAN, _INF = float("nan"), float("inf")

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "s": (pa.int16(), [-32768, 32767, 0, None]),
    "i": (pa.int32(), [-(2**31), 2**31 - 1, 0, None]),
    "l": (pa.int64(), [-(2**63), 2**63 - 1, 2**53 + 1, None]),
    "m": (pa.decimal128(18, 2), [Decimal("-9999999999999999.99"), Decimal("1.50"), Decimal("0.00"), None]),
    "w": (pa.decimal128(38, 0), [Decimal("9" * 38), Decimal(-1), Decimal(0), None]),
    "f": (pa.float32(), [_NAN, -0.0, 0.1, None]),
    "d": (pa.float64(), [_NAN, -_INF, 0.1, None]),
    "t": (pa.string(), ["", "é", "z\U0001f600", None]),
    "day": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29), None]),
    "at": (
        pa.timestamp("us", "UTC"),
        [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), datetime(2024, 5, 1, tzinfo=UTC), None],
    ),
    "b": (pa.bool_(), [True, False, True, None]),
}
ROWS = pa.table({name: pa.array(values, kind) for name, (kind, values) in COLUMNS.items()})

_LITERALS = {
    "s": ["0", "-32768", "32767", "40000", "0.5"],
    "i": ["0", "2147483647", "-2147483648", "99999999999", "1.5"],
    "l": ["9007199254740993", "9223372036854775807", "-0.5"],
    "m": ["1.5", "1.505", "0", "-9999999999999999.99", "1"],
    "w": ["0", "99999999999999999999999999999999999999", "-1"],
    "f": ["0", "0.1", "16777216", "-0.5"],
    "d": ["0", "0.1", "-0.5", "9007199254740992"],
    "t": ["''", "'é'", "'z'"],
    "day": ["'2024-02-29'", "DATE '2024-02-29'", "DATE '9999-12-31'", "'0001-01-01'"],
    "at": ["'2024-05-01 00:00:00Z'", "'2024-05-01T02:00:00.000000+02:00'", "'9999-12-31 23:59:59.999999Z'"],
    "b": ["true", "false"],
}
UNDERSTOOD = [
    *(
        f"{name} {how} {each}"
        for name, those in _LITERALS.items()
        for each in those
        for how in (("=", "<>") if name == "b" else ("=", "<>", "<", "<=", ">", ">="))
    ),
    *(f"{each} <= {name}" for name in "ilmdt" for each in _LITERALS[name][:1]),
    *(f"{name} IS {how}NULL" for name in COLUMNS for how in ("", "NOT ")),
    *(f"m {how} '{each}'::decimal(18, 2)" for how in ("=", "<", ">=") for each in ("0", "1.50", "-9999999999999999.99")),
    *(
        "w > '-1'::decimal(38, 0)",
        "CAST('1.5' AS DECIMAL(3, 1)) <= m",
        "i > CAST('-0.5' AS decimal(2,1))",
        "l < '9'::decimal(1,0)",
    ),
    *("b", "NOT b", "b OR NOT b", "i > 0 AND b"),
    "i > 0 OR l IS NULL",
    "i > 0 AND (m >= 0 OR t = 'é')",
    "(`I` <> 0) and NOT (s is null)",
]
NOT_UNDERSTOOD = [
    *(
        "i % 2 = 0",
        "i + 1 > 0",
        "abs(i) > 0",
        "i > l",
        "i IN (1, 2)",
        "i BETWEEN 1 AND 2",
        "NOT i > 0",
        "i <=> 0",
        "i",
        "NOT i",
        "i > 1e3",
        "m > '1.505'::decimal(18, 2)",
        "m > '12345'::decimal(4, 0)",
        "m > '1e2'::decimal(18, 2)",
        "m > '0'::decimal",
        "m > '0'::double",
        "m > (1 + 1)::decimal(18, 2)",
        "d > '0'::decimal(18, 2)",
    ),
    *(
        '"i" > 0',
        "t = 'a\\'",
        "t > 0",
        "i > '0'",
        "t LIKE 'a%'",
        "t = 'it''s'",
        "i > NULL",
        "missing > 0",
        "x.i > 0",
        "i >",
        "",
        "i > 0; i < 9",
    ),
    *("at > '2024-05-01'", "at > TIMESTAMP '2024-05-01 00:00:00'", "day > '2024-2-1'", "day > '2024-02-30'", "b > true"),
    *(
        "l < 99999999999999999999",
        "w > 0.5",
        "f > 16777217",
        "d > 9007199254740993",
        "y = 'a'",
        "i > (SELECT 1)",
        "CASE WHEN i > 0 THEN true END",
    ),
]


def _ours(text: str) -> list[bool | None]:
    holds = condition_of(text, ROWS.schema)
    assert holds is not None, text
    found: list[bool | None] = holds(ROWS).to_pylist()
    return found


@pytest.mark.parametrize("text", NOT_UNDERSTOOD)
def test_what_engines_may_answer_differently_is_not_understood(text: str) -> None:
    assert condition_of(text, ROWS.schema.append(pa.field("y", pa.binary()))) is None


def test_a_name_that_means_two_columns_is_not_understood() -> None:
    assert condition_of("n > 0", pa.schema([("n", pa.int32()), ("N", pa.int32())])) is None


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("d > 0", [True, False, True, None]),
        ("d <= 0", [False, True, False, None]),
        ("d <> 0.1", [True, True, False, None]),
        ("f = 0", [False, True, False, None]),
        ("t >= 'z'", [False, True, True, None]),
        ("l > 9007199254740992", [False, True, True, None]),
        ("m = 1.500", [False, True, False, None]),
        ("m > '0'::decimal(18, 2)", [False, True, False, None]),
        ("m >= CAST('-9999999999999999.99' AS DECIMAL(18, 2))", [True, True, True, None]),
        ("NOT b", [False, True, False, None]),
        ("b", [True, False, True, None]),
        ("i > 0 OR i IS NULL", [False, True, False, True]),
        ("i > 0 AND b = false", [False, True, False, None]),
        ("at >= '2024-05-01T02:00:00+02:00'", [False, True, True, None]),
    ],
)
def test_a_condition_is_evaluated(text: str, answers: list[bool | None]) -> None:
    assert _ours(text) == answers


@pytest.mark.slow
def test_spark_answers_alike(spark: SparkSession) -> None:
    rows = spark.createDataFrame(ROWS.append_column("place", pa.array(range(ROWS.num_rows))))
    answers = rows.selectExpr("place", *(f"({text}) AS `{number}`" for number, text in enumerate(UNDERSTOOD)))
    theirs = sorted(answers.collect(), key=lambda row: row["place"])
    answered = {text: [row[str(number)] for row in theirs] for number, text in enumerate(UNDERSTOOD)}
    assert {text: _ours(text) for text in UNDERSTOOD} == answered
