"""Column types: their spellings, and their forms in Arrow and Delta (docs/reference/types.md).

TIME is kept as microseconds since midnight; UUID, JSON and FILE as text. What the type was stands in the column's
metadata under `lakewarden.type`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from lakewarden.errors import InvalidArgument

_ALIASES = {
    "BOOL": "BOOLEAN",
    "SHORT": "SMALLINT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "STRING": "TEXT",
    "VARCHAR": "TEXT",
    "BINARY": "BYTES",
    "DATETIME": "TIMESTAMP",
    # as PostgreSQL and its ORMs write them
    "BYTEA": "BYTES",
    "CHARACTER VARYING": "TEXT",
    "DOUBLE PRECISION": "DOUBLE",
    "JSONB": "JSON",
    "TIMESTAMPTZ": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
    "TIME WITHOUT TIME ZONE": "TIME",
}

_ARROW: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "BYTES": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "TIME": pa.int64(),
    "UUID": pa.string(),
    "JSON": pa.string(),
    "FILE": pa.string(),
}

NO_KEY = frozenset({"JSON", "FILE", "FLOAT", "DOUBLE"})
"""Types that cannot be part of a primary key (interface.md, Types)."""

NO_PARTITION = NO_KEY | {"BYTES"}
"""Types that data files cannot be divided by: their values have no one spelling as text."""

_DECIMAL = re.compile(r"^(?:DECIMAL|NUMERIC)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?$")
_MAX_PRECISION = 38

_LENGTH = re.compile(r"(?<=VARCHAR|VARYING)\s*\(\s*\d+\s*\)$")
"""Of VARCHAR(n), whose length is not kept to, as in DuckDB."""


@dataclass(frozen=True)
class ColumnType:
    """A type by its one name, as `BIGINT` or `DECIMAL(10,2)`."""

    name: str
    precision: int | None = None
    scale: int | None = None

    @classmethod
    def parse(cls, text: str) -> ColumnType:
        """Reads any spelling, in any case.

        Raises:
            InvalidArgument: no such type, or a DECIMAL outside 1 ≤ precision ≤ 38, 0 ≤ scale ≤ precision.
        """
        upper = text.strip().upper()
        if decimal := _DECIMAL.match(upper):
            return cls._decimal(text, int(decimal[1] or 10), int(decimal[2] or 0))
        plain = _LENGTH.sub("", upper)
        name = _ALIASES.get(plain, plain)
        if name not in _ARROW:
            known = ", ".join([*_ARROW, "DECIMAL(p,s)"])
            raise InvalidArgument(f"unknown column type {text!r}; the types are {known}")
        return cls(name)

    @classmethod
    def _decimal(cls, text: str, precision: int, scale: int) -> ColumnType:
        if not (1 <= precision <= _MAX_PRECISION and 0 <= scale <= precision):
            raise InvalidArgument(f"{text!r}: a DECIMAL has a precision of 1 to 38 and a scale of 0 to the precision")
        return cls("DECIMAL", precision, scale)

    @property
    def arrow(self) -> pa.DataType:
        if self.precision is not None and self.scale is not None:
            return pa.decimal128(self.precision, self.scale)
        return _ARROW[self.name]

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})" if self.name == "DECIMAL" else self.name
