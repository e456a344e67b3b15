from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.column_values import FunctionDefault, LiteralDefault, canonical_default, parse_default
from lakewarden.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "type", "name"),
    [
        ("SNOWFLAKE_ID()", "BIGINT", "SNOWFLAKE_ID"),
        ("uuid_v7", "UUID", "UUID_V7"),
        ("Generate_Uuid ( )", "TEXT", "GENERATE_UUID"),
        ("ULID()", "TEXT", "ULID"),
        (" now() ", "TIMESTAMP", "NOW"),
        ("CURRENT_TIMESTAMP", "TIMESTAMP", "CURRENT_TIMESTAMP"),
        ("CURRENT_USER()", "TEXT", "CURRENT_USER"),
    ],
)
def test_functions_go_with_or_without_parentheses(text: str, type: str, name: str) -> None:
    assert parse_default(text, ColumnType.parse(type)) == FunctionDefault(name)
    assert canonical_default(text, ColumnType.parse(type)) == f"{name}()"


@pytest.mark.parametrize(
    ("text", "type", "value"),
    [
        ("42", "INT", 42),
        ("-42", "SMALLINT", -42),
        ("'it''s'", "TEXT", "it's"),
        ("''", "TEXT", ""),
        ("TRUE", "BOOLEAN", True),
        ("false", "BOOLEAN", False),
        ("NULL", "INT", None),
        ("1.5", "DOUBLE", 1.5),
        ("-1.5", "DECIMAL(10,2)", Decimal("-1.50")),
        ("3", "DECIMAL(38,0)", Decimal(3)),
        ("DATE '2026-11-21'", "DATE", date(2026, 11, 21)),
        ("'2026-11-21T09:30:00+02:00'", "TIMESTAMP", datetime(2026, 11, 21, 7, 30, tzinfo=UTC)),
        ("TIMESTAMP '2026-11-21 09:30:00'", "TIMESTAMP", datetime(2026, 11, 21, 9, 30, tzinfo=UTC)),
        ("'00:00:01'", "TIME", 1_000_000),
        ("'{\"a\": 1}'", "JSON", '{"a": 1}'),
        ("X'00ff10'", "BYTES", b"\x00\xff\x10"),
    ],
)
def test_literals_are_of_the_columns_type(text: str, type: str, value: object) -> None:
    assert parse_default(text, ColumnType.parse(type)) == LiteralDefault(value)


@pytest.mark.parametrize(
    ("text", "type", "says"),
    [
        ("NEXTVAL()", "BIGINT", "unknown default"),
        ("pending", "TEXT", "unknown default"),
        ("now(6)", "TIMESTAMP", "unknown default"),
        ("1 + 1", "INT", "unknown default"),
        ("(SELECT 1)", "INT", "unknown default"),
        ("a.b", "INT", "unknown default"),
        ("'open", "TEXT", "unknown default"),
        ("", "TEXT", "unknown default"),
        ("X'0'", "BYTES", "unknown default"),
        ("DATE '2026-11-21'", "TEXT", "unknown default"),
        ("1; DROP TABLE x", "INT", "unknown default"),
        ("'x'", "INT", "does not fit INT"),
        ("1", "TEXT", "does not fit TEXT"),
        ("1", "BOOLEAN", "does not fit BOOLEAN"),
        ("40000", "SMALLINT", "does not fit SMALLINT"),
        ("1.5", "INT", "does not fit INT"),
        ("1.005", "DECIMAL(10,2)", "does not fit DECIMAL(10,2)"),
        ("'2026-13-01'", "DATE", "does not fit DATE"),
        ("'{'", "JSON", "does not fit JSON"),
        ("NOW()", "DATE", "is for columns of type TIMESTAMP"),
        ("SNOWFLAKE_ID()", "INT", "is for columns of type BIGINT"),
    ],
)
def test_anything_else_is_refused(text: str, type: str, says: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        parse_default(text, ColumnType.parse(type))
    assert says in refusal.value.message
