"""K3's wire form of single values: int64 as text, times as milliseconds in text, enums by their full names.

The enums are those that are not about reading and writing, which are in `strategies`.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TypeVar

from lakewarden.base.clock import to_millis
from lakewarden.errors import InvalidArgument
from lakewarden.sql.results import WireEnum

E = TypeVar("E", bound=WireEnum)

_INT64 = 1 << 63
_WHOLE = re.compile("-?[0-9]+")


def int64(value: int) -> str:
    return str(value)


def millis(moment: datetime) -> str:
    return str(to_millis(moment))


def whole(field: str, value: object) -> int:
    """Reads an int64 of a request: `"128"` or 128.

    Raises:
        InvalidArgument: it is neither.
    """
    number = int(value) if isinstance(value, str) and _WHOLE.fullmatch(value.strip()) else value
    if isinstance(number, int) and not isinstance(number, bool) and -_INT64 <= number < _INT64:
        return number
    raise InvalidArgument(f"{field} {value!r} is not a whole number: write 128, or '128'")


def member(kind: type[E], field: str, value: object) -> E:
    """Reads an enum of a request, by its full name or its number.

    Raises:
        InvalidArgument: there is no such member; the message lists the names.
    """
    names = kind.wires()
    if isinstance(value, str) and value in names:
        return names[value]
    if isinstance(value, int) and not isinstance(value, bool) and value in set(names.values()):
        return kind(value)
    raise InvalidArgument(f"{field} {value!r} is unknown; it is one of {', '.join(names)}")


def one_of(field: str, value: object, words: tuple[str, ...]) -> str:
    """Raises InvalidArgument: the value is not one of the words."""
    if value not in words:
        raise InvalidArgument(f"{field} {value!r} is unknown; it is one of {', '.join(words)}")
    return str(value)


class EngineStatus(WireEnum):
    UNSPECIFIED = 0
    ACTIVE = 1
    DISABLED = 2


class K3TableStatus(WireEnum):
    """K3's TableStatus."""

    @classmethod
    def _prefix(cls) -> str:
        return "TABLE_STATUS"

    UNSPECIFIED = 0
    ACTIVE = 1


class TableSource(WireEnum):
    """Who owns a table's schema."""

    UNSPECIFIED = 0
    MANUAL = 1
    PIPELINE_GENERATED = 2


class ColumnKind(WireEnum):
    """K3's ColumnType: its types are fewer than Lakewarden's own."""

    @classmethod
    def _prefix(cls) -> str:
        return "COLUMN_TYPE"

    UNSPECIFIED = 0
    STRING = 1
    INT = 2
    LONG = 3
    SHORT = 4
    FLOAT = 5
    DOUBLE = 6
    BOOLEAN = 7
    DATE = 8
    TIMESTAMP = 9
    BINARY = 10
    JSON = 11


KIND_OF_TYPE: dict[str, ColumnKind] = {
    "TEXT": ColumnKind.STRING,
    "INT": ColumnKind.INT,
    "BIGINT": ColumnKind.LONG,
    "SMALLINT": ColumnKind.SHORT,
    "FLOAT": ColumnKind.FLOAT,
    "DOUBLE": ColumnKind.DOUBLE,
    "BOOLEAN": ColumnKind.BOOLEAN,
    "DATE": ColumnKind.DATE,
    "TIMESTAMP": ColumnKind.TIMESTAMP,
    "BYTES": ColumnKind.BINARY,
    "JSON": ColumnKind.JSON,
    # tables that SQL made may have types that K3 lacks: K3 sees the types that they are kept as
    "UUID": ColumnKind.STRING,
    "FILE": ColumnKind.JSON,
    "TIME": ColumnKind.LONG,
    "DECIMAL": ColumnKind.STRING,
}
"""By the name of Lakewarden's type; the first eleven are one to one."""

TYPE_OF_KIND: dict[ColumnKind, str] = {kind: name for name, kind in list(KIND_OF_TYPE.items())[:11]}
