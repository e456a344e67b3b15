"""K3's enums that are not about reading and writing (those are in `strategies`)."""

from __future__ import annotations

from lakewarden.sql.strategies import WireEnum


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
    # tables that SQL made may have types that K3 has not: it is told what they are kept as
    "UUID": ColumnKind.STRING,
    "FILE": ColumnKind.JSON,
    "TIME": ColumnKind.LONG,
    "DECIMAL": ColumnKind.STRING,
}
"""By the name of Lakewarden's type; the first eleven are one to one."""

TYPE_OF_KIND: dict[ColumnKind, str] = {kind: name for name, kind in list(KIND_OF_TYPE.items())[:11]}
