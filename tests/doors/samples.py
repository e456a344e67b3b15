"""The values that every door is tried with: of each type the least, the greatest and the longest, what is empty or no number,
and two that are a unit apart.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact

import pyarrow as pa


@dataclass(frozen=True)
class Sample:
    """A value as the column keeps it: TIME as its microseconds, UUID and JSON as text."""

    number: int
    """The key of its row."""
    type: str
    label: str
    value: object
    misfit: pa.DataType | None = None
    """Of a value that the column does not hold: Arrow's type of it."""
    written: str = ""
    """The number as texts have it, where that is not the usual form."""

    @property
    def column(self) -> str:
        return column_of(self.type)


COLUMN_TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DECIMAL(38,10)": pa.decimal128(38, 10),
    "DECIMAL(18,2)": pa.decimal128(18, 2),
    "DECIMAL(38,38)": pa.decimal128(38, 38),
    "TEXT": pa.string(),
    "BYTES": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "TIME": pa.time64("us"),
    "UUID": pa.string(),
    "JSON": pa.string(),
}
"""With the type that Arrow has for its values."""

_NINES = Decimal("9" * 28 + "." + "9" * 10)
_SECOND = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LONG = "é€😀" * 3000

_VALUES: dict[str, dict[str, object]] = {
    "BOOLEAN": {"false": False, "true": True},
    "SMALLINT": {"least": -(1 << 15), "greatest": (1 << 15) - 1, "zero": 0},
    "INT": {"least": -(1 << 31), "greatest": (1 << 31) - 1, "beyond 2^24": (1 << 24) + 1},
    "BIGINT": {
        "least": -(1 << 63),
        "greatest": (1 << 63) - 1,
        "one below": (1 << 63) - 2,
        "beyond 2^53": (1 << 53) + 1,
    },
    "FLOAT": {
        "least": -struct.unpack("<f", b"\xff\xff\x7f\x7f")[0],
        "greatest": struct.unpack("<f", b"\xff\xff\x7f\x7f")[0],
        "smallest": struct.unpack("<f", b"\1\0\0\0")[0],
        "0.1": struct.unpack("<f", b"\xcd\xcc\xcc\x3d")[0],
        "next to 0.1": struct.unpack("<f", b"\xce\xcc\xcc\x3d")[0],
        "-0.0": -0.0,
        "NaN": math.nan,
        "infinity": math.inf,
        "-infinity": -math.inf,
    },
    "DOUBLE": {
        "least": -1.7976931348623157e308,
        "greatest": 1.7976931348623157e308,
        "smallest": 5e-324,
        "0.1": 0.1,
        "next to 0.1": math.nextafter(0.1, 1),
        "2^53": float(1 << 53),
        "1e23, which is no sum of powers of ten": 1e23,
        "greatest subnormal": 2.225073858507201e-308,
        "-0.0": -0.0,
        "NaN": math.nan,
        "infinity": math.inf,
        "-infinity": -math.inf,
    },
    "DECIMAL(38,10)": {
        "least": _NINES.copy_negate(),
        "greatest": _NINES,
        "one below": Decimal("9" * 28 + "." + "9" * 9 + "8"),
        "smallest": Decimal("0.0000000001"),
        "16 digits": Decimal("999999999999999.99"),
    },
    "DECIMAL(18,2)": {
        "least": Decimal("-9999999999999999.99"),
        "greatest": Decimal("9999999999999999.99"),
        "123456789012345.67": Decimal("123456789012345.67"),
        "123456789012345.68": Decimal("123456789012345.68"),
        "zero": Decimal("0.00"),
    },
    "DECIMAL(38,38)": {
        "least": Decimal("-0." + "9" * 38),
        "greatest": Decimal("0." + "9" * 38),
        "one below": Decimal("0." + "9" * 37 + "8"),
        "smallest": Decimal((0, (1,), -38)),
    },
    "TEXT": {
        "empty": "",
        "longest": _LONG,
        "NULL as text": "NULL",
        "number as text": "007",
        "date as text": "2026-11-22",
        "quotes, commas, line ends": "a \"b\", 'c'\r\n\td\\\n",
        "blanks around": "  a  ",
        "blanks alone": "   ",
        "NUL": "a\0b",
        "controls": "".join(map(chr, (*range(1, 32), 0x7F, 0x85, 0x2028, 0x2029))),
        "combining": "e\u0301\u0323 \ufb01\u212b",
        "right to left": "\u202eabc \u05d0\u05d1 \u0627\u0644\u0639\u202c",
        "a mark of order": "\ufeffa",
        "no characters": "\ufffe\uffff\ufffd\U0010ffff",
        "a template": "${x} {{y}} %s $1 ? \\u0041",
        "1 MB": "é" * (1 << 19),
    },
    "BYTES": {
        "empty": b"",
        "all bytes": bytes(range(256)),
        "NUL": b"\0",
        "letters": b"abc",
        "longest": bytes(range(256)) * 64,
        "1 MB": bytes(range(256)) * 4096,
    },
    "DATE": {
        "least": date.min,
        "greatest": date.max,
        "last Julian": date(1582, 10, 4),
        "first Gregorian": date(1582, 10, 15),
        "leap day": date(2024, 2, 29),
    },
    "TIMESTAMP": {
        "least": datetime.min.replace(tzinfo=UTC),
        "greatest": datetime.max.replace(tzinfo=UTC),
        "before 1970": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        "epoch": datetime.fromtimestamp(0, UTC),
        "one µs": _SECOND + _MICROSECOND,
        "two µs": _SECOND + 2 * _MICROSECOND,
    },
    "TIME": {"least": 0, "greatest": 86_399_999_999, "one µs": 34_200_000_001, "two µs": 34_200_000_002},
    "UUID": {"least": "00000000-0000-0000-0000-000000000000", "greatest": "ffffffff-ffff-ffff-ffff-ffffffffffff"},
    "JSON": {
        "numbers": '{"a": 1.10, "b": [1e2, 12345678901234567890123]}',
        "null": "null",
        "empty text": '""',
        "empty object": "{}",
        "empty parts": "[null, {}, [], false]",
        "nested": "[" * 50 + "]" * 50,
        "no name": '{"": {"a": ""}}',
        "escapes": '["\\u0000\\ud83d\\ude00\\/"]',
        "longest": f'["{_LONG}"]',
    },
}


_WRITTEN: dict[str, tuple[str, ...]] = {
    "FLOAT": ("-0", "-0e5", "3.4028234663852886E+38", "1e-45"),
    "DOUBLE": ("-0", "-0.0e-3", "1.7976931348623157E+308", "5e-324", "12e-1"),
    "DECIMAL(38,10)": (f"{'9' * 28}.{'9' * 10}e0", f"-0.{'9' * 38}E28", "1e-10", "999999999999999990e-3"),
    "DECIMAL(18,2)": ("999999999999999999e-2", "12345678901234567E-1", "1.2e+3"),
    "DECIMAL(38,38)": (f"{'9' * 38}e-38", f"-{'9' * 37}8e-38", "1e-38"),
}
"""Numbers as few programs write them, with exponents for the most part."""


def _value_of(kind: str, written: str) -> object:
    if kind == "DOUBLE":
        return float(written)
    if kind == "FLOAT":
        return struct.unpack("<f", struct.pack("<f", float(written)))[0]
    scale = COLUMN_TYPES[kind].scale  # type: ignore[attr-defined]
    return Decimal(written).quantize(Decimal(1).scaleb(-scale), context=Context(prec=38, traps=[Inexact]))


def column_of(kind: str) -> str:
    return "c_" + "".join(letter if letter.isalnum() else "_" for letter in kind.lower()).strip("_")


def _samples() -> Iterator[Sample]:
    number = 0
    for kind, values in _VALUES.items():
        for label, value in {**values, "SQL's NULL": None}.items():
            number += 1
            yield Sample(number, kind, label, value)
    for kind, texts in _WRITTEN.items():
        for written in texts:
            number += 1
            yield Sample(number, kind, f"`{written}`", _value_of(kind, written), written=written)


SAMPLES: tuple[Sample, ...] = tuple(_samples())


_MISFITS: tuple[tuple[str, str, object, pa.DataType], ...] = (
    ("SMALLINT", "one above", 1 << 15, pa.int64()),
    ("INT", "one below", -(1 << 31) - 1, pa.int64()),
    ("BIGINT", "one above", 1 << 63, pa.decimal128(20, 0)),
    ("BIGINT", "a half", Decimal("0.5"), pa.decimal128(20, 1)),
    ("DECIMAL(38,10)", "a digit too many behind the point", Decimal("0.00000000001"), pa.decimal128(38, 11)),
    ("DECIMAL(18,2)", "a digit too many behind the point", Decimal("123456789012345.675"), pa.decimal128(38, 10)),
    ("DECIMAL(18,2)", "a digit too many before the point", Decimal("10000000000000000"), pa.decimal128(38, 10)),
    ("DECIMAL(38,38)", "one", Decimal(1), pa.decimal128(1, 0)),
)
"""What the column does not hold, with a type that Arrow has for it."""

MISFITS: tuple[Sample, ...] = tuple(
    Sample(number, kind, label, value, arrow) for number, (kind, label, value, arrow) in enumerate(_MISFITS, 1)
)

_UNREADABLE: dict[str, tuple[str, ...]] = {
    "BOOLEAN": ("2", "truex"),
    "SMALLINT": ("\u0663", "5.5", "0x10", "32768"),
    "BIGINT": ("9223372036854775808", "9" * 400),
    "FLOAT": ("1e39", "-1e400", "1e-50", "0x1p3"),
    "DOUBLE": ("1e400", "-1e400", "1e-400", "1.7976931348623159e308", "9" * 400, "\u0663", "1_0"),
    "DECIMAL(38,10)": ("1e400", "1e-400", "NaN", "1_0", "1e28"),
    "DECIMAL(18,2)": ("0.005", "9999999999999999.995", "1,5"),
    "DATE": ("0000-12-31", "10000-01-01", "2023-02-29", "2026-11-22T23:00:00-05:00", "infinity"),
    "TIMESTAMP": (
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "2026-11-22T09:30:00.0000001Z",
        "2026-11-22T09:30:60Z",
        "2026-11-22T24:00:00Z",
        "-infinity",
    ),
    "TIME": ("24:00:00", "09:30:00+01:00", "23:59:59.9999999"),
    "UUID": ("0191e3c5-7f4a-7cc2-98a1-3b5e0c9d2f1g", "0191e3c5-7f4a-7cc2-98a1-3b5e0c9d2f11\n"),
    "JSON": ("NaN", "{'a': 1}", "[1,]", "01", "1 2", "[" * 20_000 + "]" * 20_000),
}

UNREADABLE: tuple[Sample, ...] = tuple(
    Sample(number, kind, text[:60], text, pa.string())
    for number, (kind, text) in enumerate(((kind, text) for kind, texts in _UNREADABLE.items() for text in texts), 1)
)
"""Texts that are no value of their column: what they might become is another value."""


def share(number: int) -> tuple[Sample, ...]:
    """One of the samples of each type, another for each number: each is in the shares of the first 24."""
    groups = [[each for each in SAMPLES if each.type == kind] for kind in COLUMN_TYPES]
    return tuple(group[number % len(group)] for group in groups)


def columns() -> str:
    """The columns of a table, in SQL."""
    return ", ".join(["id BIGINT NOT NULL", *(f"{column_of(kind)} {kind}" for kind in COLUMN_TYPES)])


def same(one: object, other: object) -> bool:
    """Equal by type and by all bits, but for the payload of NaN."""
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return one.is_signed() == other.is_signed() and one == other if one or other else True
    if isinstance(one, datetime) and isinstance(other, datetime):
        return one == other  # whichever library's zone
    return type(one) is type(other) and repr(one) == repr(other)
