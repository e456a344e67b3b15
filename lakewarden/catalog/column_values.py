"""The values of each column type: their exact ranges and forms, the one value for each spelling, and default expressions.

`convert` decides; faster ways for many rows at once (`tables.rows.validate`) must agree with it.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from functools import lru_cache
from typing import Any
from uuid import UUID

import pyarrow as pa

from lakewarden.base import exact_json
from lakewarden.base.any_year import DAY_MICROS
from lakewarden.catalog.column_types import ColumnType
from lakewarden.errors import InvalidArgument

INTEGER_BITS = {"SMALLINT": 16, "INT": 32, "BIGINT": 64}
UUID_FORM = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"

_UUID = re.compile(UUID_FORM)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME = re.compile(r"\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?", re.ASCII)
_TIMESTAMP = re.compile(rf"{_DATE.pattern}([T ]{_TIME.pattern}(Z|[+-]\d{{2}}:?\d{{2}})?)?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_EXACT = Context(prec=100, traps=[Inexact, InvalidOperation])
_MIDNIGHT = time()


def convert(type: ColumnType, value: object) -> object:
    """The value as the column keeps it: int, float, Decimal, str, bytes, date or aware datetime; TIME as microseconds.

    Raises:
        ValueError: the value is of another type, or outside the type's range or form. `reason` says what would be right.
    """
    if type_module(value) == "numpy":
        value = value.item()  # type: ignore[attr-defined]  # every numpy scalar has it
    return _CONVERTERS[type.name](type, value)


def type_module(value: object) -> str:
    return value.__class__.__module__


def reason(type: ColumnType) -> str:
    """What a value of the type is, for a message."""
    if type.name in INTEGER_BITS:
        bound = 1 << (INTEGER_BITS[type.name] - 1)
        return f"a whole number from {-bound} to {bound - 1}"
    if type.precision is not None and type.scale is not None:
        return f"a number of at most {type.precision - type.scale} digits before the point and {type.scale} after it"
    return _REASONS[type.name]


_REASONS = {
    "BOOLEAN": "true or false",
    "FLOAT": "a number in the range of 32 bits",
    "DOUBLE": "a number in the range of 64 bits",
    "TEXT": "text in valid Unicode",
    "BYTES": "bytes, in SQL X'0102' or from_base64('AQI=')",
    "DATE": "a date, or text as in 2026-11-21",
    "TIMESTAMP": "a date with time in whole microseconds, or text as in 2026-11-21T09:30:00.000001Z",
    "TIME": "a time of day without zone, its microseconds since midnight, or text as in 09:30:00.000001",
    "UUID": "a UUID, or text as in 0191e3c5-7f4a-7cc2-98a1-3b5e0c9d2f11",
    "JSON": "a list, a dict, or the text of a JSON value, in valid Unicode",
    "FILE": "a dict, or the text of a JSON object",
}


def _boolean(type: ColumnType, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(type)
    return value


def _integer(type: ColumnType, value: object) -> int:
    bound = 1 << (INTEGER_BITS[type.name] - 1)
    if isinstance(value, exact_json.JsonNumber) and value.is_whole:
        return 0
    # To Python a bool is a whole number; a caller who writes True into an INT has mixed up columns.
    if not isinstance(value, int) or isinstance(value, bool) or not -bound <= value < bound:
        raise ValueError(type)
    return int(value)


def _double(type: ColumnType, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ValueError(type)
    if isinstance(value, Decimal) and not value.is_finite():
        raise ValueError(type)
    try:
        found = float(value)
    except OverflowError as error:
        raise ValueError(type) from error
    inexact = isinstance(value, int) and abs(value) > 1 << 53  # above, not every whole number is one
    if inexact or (math.isinf(found) and not isinstance(value, float)) or (found == 0 and value != 0):
        raise ValueError(type)
    return found


def _float(type: ColumnType, value: object) -> float:
    # 32 bits hold every whole number up to here, and not every one above.
    if isinstance(value, int) and abs(value) > 1 << 24:
        raise ValueError(type)
    wide = _double(type, value)
    try:
        narrow: float = struct.unpack("<f", struct.pack("<f", wide))[0]  # native "f" makes an infinity instead
    except OverflowError as error:
        raise ValueError(type) from error
    # Too small for 32 bits: a value must not turn into another one in silence.
    if narrow == 0 and wide != 0:
        raise ValueError(type)
    return narrow


def _decimal(type: ColumnType, value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise ValueError(type)
    text = repr(float(value)) if isinstance(value, float) else str(value)  # the shortest text that means the float
    # `Decimal` alone reads more: underscores, digits of other scripts, NaN and infinities.
    if not _DECIMAL.fullmatch(text):
        raise ValueError(type)
    precision, scale = type.precision or 0, type.scale or 0
    try:
        found = Decimal(text).quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    except DecimalException as error:
        raise ValueError(type) from error
    if found.copy_abs() >= Decimal(1).scaleb(precision - scale):  # abs() would round to 28 digits
        raise ValueError(type)
    return found.copy_abs() if found.is_zero() else found  # no minus zero


def _text(type: ColumnType, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(type)
    value.encode()  # half a surrogate pair is a ValueError
    return str(value)


def _bytes(type: ColumnType, value: object) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise ValueError(type)
    return bytes(value)


def _date(type: ColumnType, value: object) -> date:
    if isinstance(value, str) and _DATE.fullmatch(value):
        return date.fromisoformat(value)
    if isinstance(value, datetime):  # pandas has no other date
        # A time of day would be lost.
        if value.tzinfo is not None or value.time() != _MIDNIGHT or _nanoseconds(value):
            raise ValueError(type)
        return value.date()
    if not isinstance(value, date):
        raise ValueError(type)
    return value


def _timestamp(type: ColumnType, value: object) -> datetime:
    moment = _moment(value)
    if moment is None or _nanoseconds(moment):
        raise ValueError(type)
    if type_module(moment).startswith("pandas."):
        moment = datetime.combine(moment.date(), moment.timetz())
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(type) from error


def _moment(value: object) -> datetime | None:
    if isinstance(value, str) and _TIMESTAMP.fullmatch(value):
        return datetime.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, _MIDNIGHT)
    return value if isinstance(value, datetime) else None


def _nanoseconds(value: datetime) -> int:
    """What a pandas.Timestamp has below microseconds."""
    return int(getattr(value, "nanosecond", 0))


def _time(type: ColumnType, value: object) -> int:
    if isinstance(value, str) and _TIME.fullmatch(value):
        value = time.fromisoformat(value)
    if isinstance(value, time) and value.tzinfo is None:
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < DAY_MICROS:
        raise ValueError(type)
    return int(value)


def _uuid(type: ColumnType, value: object) -> str:
    if isinstance(value, UUID):
        return str(value)
    if not isinstance(value, str) or not _UUID.fullmatch(value):
        raise ValueError(type)
    # One spelling for each value: keys and comparisons go by the text.
    return value.lower()


def _json(type: ColumnType, value: object) -> str:
    if isinstance(value, str):
        check_json(value)
        return str(value)
    if not isinstance(value, (dict, list, tuple)):
        raise ValueError(type)
    try:
        text = exact_json.encode(value)
        exact_json.check_names(value)  # behind it, which refuses a list within itself
    except (TypeError, RecursionError) as error:
        raise ValueError(type) from error
    text.encode()
    return text


def _file(type: ColumnType, value: object) -> str:
    text = _json(type, value)
    if not text.lstrip().startswith("{"):
        raise ValueError(type)
    return text


def check_json(text: str) -> None:
    """Raises ValueError: the text is no JSON value."""
    try:
        json.loads(text, parse_constant=exact_json.no_constant)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    text.encode()


_CONVERTERS: dict[str, Callable[[ColumnType, object], object]] = {
    "BOOLEAN": _boolean,
    "SMALLINT": _integer,
    "INT": _integer,
    "BIGINT": _integer,
    "FLOAT": _float,
    "DOUBLE": _double,
    "DECIMAL": _decimal,
    "TEXT": _text,
    "BYTES": _bytes,
    "DATE": _date,
    "TIMESTAMP": _timestamp,
    "TIME": _time,
    "UUID": _uuid,
    "JSON": _json,
    "FILE": _file,
}


# Parses default expressions of columns: a function of a short list, or a literal. `tables.rows.defaults` evaluates them.
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
    """The same for each row; as `catalog.column_values.convert` returns it."""

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
        value = Decimal(f"{sign}{number.this}")
        return int(value) if number.is_int and (value or not sign) else value
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
