"""PostgreSQL's types that values have on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakewarden.catalog.column_types import ColumnType
from lakewarden.sql.dialect import Scalar


@dataclass(frozen=True)
class Kind:
    """A type; `size` in bytes, -1 where it varies. `array` is the type of its lists, `element` that of a list's values."""

    name: str
    oid: int
    size: int
    array: int = 0
    sql: str = ""
    """As `format_type` names it."""
    modifier: int = -1
    element: Kind | None = None
    category: str = "S"
    """As `pg_type` groups types."""
    widest: pa.DataType | None = None
    """Arrow's type for all values of the type; None where an answer keeps its own."""
    form: str = ""
    """The letter of its binary form, as `struct` and NumPy have it; empty where that is no number alone."""
    example: Scalar = None
    """A value that a query can be described with. NULL where a text may not be of the type that the query makes of it."""

    @property
    def listed(self) -> Kind:
        """The type of a list of such values."""
        return Kind(f"_{self.name}", self.array, -1, sql=f"{self.sql or self.name}[]", element=self)


BOOL = Kind("bool", 16, 1, 1000, "boolean", category="B", example=True)
BYTEA = Kind("bytea", 17, -1, 1001, category="U", example=b"")
NAME = Kind("name", 19, 64, 1003)
INT8 = Kind("int8", 20, 8, 1016, "bigint", category="N", widest=pa.int64(), example=1 << 40, form="q")
INT2 = Kind("int2", 21, 2, 1005, "smallint", category="N", widest=pa.int16(), example=1, form="h")
INT4 = Kind("int4", 23, 4, 1007, "integer", category="N", widest=pa.int32(), example=1, form="i")
TEXT = Kind("text", 25, -1, 1009, widest=pa.large_string())
OID = Kind("oid", 26, 4, 1028, category="N", form="I")
JSON = Kind("json", 114, -1, 199)
FLOAT4 = Kind("float4", 700, 4, 1021, "real", category="N", widest=pa.float32(), example=1.5, form="f")
FLOAT8 = Kind("float8", 701, 8, 1022, "double precision", category="N", widest=pa.float64(), example=1.5, form="d")
UNKNOWN = Kind("unknown", 705, -2)
BPCHAR = Kind("bpchar", 1042, -1, 1014, "character")
VARCHAR = Kind("varchar", 1043, -1, 1015, "character varying")
DATE = Kind("date", 1082, 4, 1182, category="D", widest=pa.date32())
TIME = Kind("time", 1083, 8, 1183, "time without time zone", category="D")
_ZONED, _LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
TIMESTAMP = Kind("timestamp", 1114, 8, 1115, "timestamp without time zone", category="D", widest=_LOCAL)
TIMESTAMPTZ = Kind("timestamptz", 1184, 8, 1185, "timestamp with time zone", category="D", widest=_ZONED)
NUMERIC = Kind("numeric", 1700, -1, 1231, category="N", example=Decimal("1.5"))
UUID = Kind("uuid", 2950, 16, 2951, category="U")

KINDS: Mapping[int, Kind] = {
    kind.oid: kind
    for kind in (
        *(BOOL, BYTEA, NAME, INT8, INT2, INT4, TEXT, OID, JSON, FLOAT4, FLOAT8, UNKNOWN, BPCHAR, VARCHAR),
        *(DATE, TIME, TIMESTAMP, TIMESTAMPTZ, NUMERIC, UUID),
    )
}

FORMS: Mapping[int, str] = {kind.oid: kind.form for kind in KINDS.values() if kind.form}
LISTS: Mapping[int, Kind] = {kind.array: kind.listed for kind in KINDS.values() if kind.array}
"""The types of lists of these."""

_PLAIN: Mapping[pa.DataType, Kind] = {
    pa.null(): TEXT,
    pa.bool_(): BOOL,
    pa.int8(): INT2,
    pa.uint8(): INT2,
    pa.int16(): INT2,
    pa.uint16(): INT4,
    pa.int32(): INT4,
    pa.uint32(): INT8,
    pa.int64(): INT8,
    pa.uint64(): NUMERIC,
    pa.float32(): FLOAT4,
    pa.float64(): FLOAT8,
    pa.date32(): DATE,
    pa.time64("us"): TIME,
}
_HEADER = 4
"""PostgreSQL adds it to what it keeps of a type's parameters."""


def kind_of(type: pa.DataType) -> Kind:
    """Of a result's column. What PostgreSQL has no type for is JSON, as a STRUCT, or text, as a moment with nanoseconds."""
    if (found := _PLAIN.get(type)) is not None:
        return found
    if isinstance(type, pa.BaseExtensionType):
        return JSON if type.extension_name == "arrow.json" else TEXT
    if pa.types.is_decimal(type):
        return replace(NUMERIC, modifier=((type.precision << 16) | type.scale) + _HEADER)
    if pa.types.is_timestamp(type) and type.unit != "ns":
        return TIMESTAMP if type.tz is None else TIMESTAMPTZ
    if _is_binary(type):
        return BYTEA
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        element = OID if type.value_type == pa.uint32() else kind_of(type.value_type)
        return JSON if element.element is not None else element.listed
    return JSON if pa.types.is_nested(type) else TEXT


def kind_of_column(type: ColumnType) -> Kind:
    """Of a table's column, as queries answer with it: a TIME is its microseconds, and a UUID is text."""
    return JSON if type.name in ("JSON", "FILE") else kind_of(type.arrow)


def _is_binary(type: Any) -> bool:
    return bool(pa.types.is_binary(type) or pa.types.is_large_binary(type) or pa.types.is_fixed_size_binary(type))
