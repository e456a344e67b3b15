"""The error for a refused row: its column, its number and its value."""

from __future__ import annotations

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.column_values import reason
from lakewarden.errors import ConstraintViolation

_SHOWN = 80


def unfit(name: str, type: ColumnType, row: int, value: object) -> ConstraintViolation:
    return ConstraintViolation(f"column {name!r}, row {row}: {shown(value)} does not fit {type}, which takes {reason(type)}")


def shown(value: object) -> str:
    """Returns the value's repr, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
