"""What partition columns can hold: Delta's log has their values as text, with one spelling for NULL and empty text."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import SchemaColumn
from lakewarden.errors import ConstraintViolation

_FIRST, _LAST = date(1, 1, 1), date(9999, 12, 31)
_MIDNIGHT, _END = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def divisible(column: SchemaColumn, array: pa.Array[Any]) -> pa.Array[Any]:
    """The values as every reader will find them: empty text is NULL.

    Raises:
        ConstraintViolation: a date or moment outside the years 1 to 9999, which not every reader could take from text.
    """
    if pa.types.is_string(array.type):
        without: pa.Array[Any] = pc.if_else(pc.equal(array, pa.scalar("")), pa.scalar(None, pa.string()), array)
        return without
    if pa.types.is_date(array.type) or pa.types.is_timestamp(array.type):
        low, high = (_FIRST, _LAST) if pa.types.is_date(array.type) else (_MIDNIGHT, _END)
        early, late = pc.less(array, pa.scalar(low, array.type)), pc.greater(array, pa.scalar(high, array.type))
        outside: int = pc.index(pc.or_(early, late), True).as_py()
        if outside >= 0:
            raise ConstraintViolation(f"column {column.name!r}, row {outside}: a partition column takes the years 1 to 9999 only")
    return array
