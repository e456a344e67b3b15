"""Values as people write them in a command or an address: text, in the type of its column."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from lakewarden.catalog.model import SchemaColumn
from lakewarden.errors import InvalidArgument


def value_of(column: SchemaColumn, text: str) -> object:
    """Numbers, booleans and bytes (in hexadecimal digits) are parsed; other types take text.

    Raises:
        InvalidArgument: it is no value of the column's type.
    """
    try:
        match column.type.name:
            case "SMALLINT" | "INT" | "BIGINT":
                return int(text)
            case "FLOAT" | "DOUBLE":
                return float(text)
            case "DECIMAL":
                return Decimal(text)
            case "BOOLEAN":
                return {"true": True, "false": False}[text.lower()]
            case "BYTES":
                return bytes.fromhex(text)
            case _:
                return text
    except (ValueError, KeyError, InvalidOperation) as error:
        raise InvalidArgument(f"column {column.name}: {text!r} is not a valid {column.type}") from error
