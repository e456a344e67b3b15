"""Parses default expressions of columns: a function of a short list, or a literal. `tables.rows.defaults` evaluates them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lakewarden.catalog.columns.types import ColumnType
from lakewarden.catalog.columns.values import convert, reason
from lakewarden.errors import InvalidArgument

FUNCTIONS: dict[str, frozenset[str]] = {
    "SNOWFLAKE_ID": frozenset({"BIGINT"}),
    "UUID_V7": frozenset({"UUID", "TEXT"}),
    "GENERATE_UUID": frozenset({"UUID", "TEXT"}),
    "ULID": frozenset({"TEXT"}),
    "NOW": frozenset({"TIMESTAMP"}),
    "CURRENT_TIMESTAMP": frozenset({"TIMESTAMP"}),
    "CURRENT_USER": frozenset({"TEXT"}),
}
"""Each function, and the column types that it has values for."""

_WORD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*(\(\s*\))?")
_MOMENTS = ("NOW", "CURRENT_TIMESTAMP")
_CONSTANTS: dict[str, object] = {"TRUE": True, "FALSE": False, "NULL": None}


@dataclass(frozen=True)
class FunctionDefault:
    """A function, evaluated for each row."""

    name: str


@dataclass(frozen=True)
class LiteralDefault:
    """The same for each row; as `catalog.columns.values.convert` returns it."""

    value: object


Default = FunctionDefault | LiteralDefault


@lru_cache(maxsize=1024)
def parse_default(text: str, type: ColumnType) -> Default:
    """Reads a default of a column of this type.

    Raises:
        InvalidArgument: neither a known function nor a literal, or not of the column's type.
    """
    word = _WORD.fullmatch(text.strip())
    if word is not None and word[1].upper() in FUNCTIONS:
        return FunctionDefault(_fitting(word[1].upper(), type))
    if word is not None and not (word[1].upper() in _CONSTANTS and word[2] is None):
        raise _unknown(text)
    value = _CONSTANTS[word[1].upper()] if word is not None else _literal(text, type)
    if value is None:
        return LiteralDefault(None)
    try:
        return LiteralDefault(convert(type, value))
    except ValueError as error:
        raise InvalidArgument(f"default {text} does not fit {type}, which takes {reason(type)}") from error


def initial_values(text: str | None, type: ColumnType, count: int) -> pa.Array[Any]:
    """`count` times the value of rows that are older than a column: that of its `initial`, or NULL."""
    default = LiteralDefault(None) if text is None else parse_default(text, type)
    scalar: Any = pa.scalar(default.value if isinstance(default, LiteralDefault) else None, type.arrow)
    values: pa.Array[Any] = pa.repeat(scalar, count)
    return values


def initial_of(default: str | None, type: ColumnType, now: datetime) -> str | None:
    """The literal that rows have that are older than a NOT NULL column with this default.

    None where the default is another one for each row: nothing could say which, each time that such a row is read.
    """
    found = None if default is None else parse_default(default, type)
    if isinstance(found, FunctionDefault):
        return f"'{now.isoformat()}'" if found.name in _MOMENTS else None
    return default


def canonical_default(text: str, type: ColumnType) -> str:
    """The expression as the catalog keeps it: functions in upper case with `()`, literals as they are written."""
    default = parse_default(text, type)
    return f"{default.name}()" if isinstance(default, FunctionDefault) else text.strip()


def _fitting(name: str, type: ColumnType) -> str:
    if type.name not in FUNCTIONS[name]:
        raise InvalidArgument(f"default {name}() is for columns of type {' or '.join(sorted(FUNCTIONS[name]))}, not {type}")
    return name


def _literal(text: str, type: ColumnType) -> object:
    """The value of a SQL literal: text, number, hexadecimal bytes, or a typed one such as DATE '2026-11-21'."""
    import sqlglot  # a third of a second that a process without literal defaults need not spend
    from sqlglot import exp

    try:
        found = sqlglot.parse_one(text, dialect="postgres", into=exp.Condition)  # a statement it warns of on stderr
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        raise _unknown(text) from error
    if isinstance(found, exp.Cast) and found.this.is_string and found.to.this.name.startswith(type.name):
        found = found.this
    sign, number = ("-", found.this) if isinstance(found, exp.Neg) else ("", found)
    if isinstance(number, exp.Literal) and not number.is_string:
        return (int if number.is_int else Decimal)(f"{sign}{number.this}")
    if isinstance(found, exp.HexString):
        return _from_hex(text, str(found.this))
    if isinstance(found, exp.Literal):
        return str(found.this)
    raise _unknown(text)


def _from_hex(text: str, digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise _unknown(text) from error


def _unknown(text: str) -> InvalidArgument:
    functions = ", ".join(f"{name}()" for name in FUNCTIONS)
    return InvalidArgument(f"unknown default {text!r}: it must be a literal, as 42 or 'text', or one of {functions}")
