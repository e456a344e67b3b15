"""What Spark's filters say of users and columns. Each filter is applied again by Spark: in doubt, one says nothing here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from lakewarden.delta.reading.bounds import Bound, Value
from lakewarden.log.record import SEQ, USER

_LOW = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual)
_HIGH = (EqualTo, EqualNullSafe, LessThan, LessThanOrEqual)
_EQUAL = (EqualTo, EqualNullSafe)


@dataclass(frozen=True)
class RowFilter:
    """What rows have to satisfy. `users` is None where they may be anyone's; `nothing` where no row can be wanted."""

    users: frozenset[str] | None = None
    bounds: tuple[Bound, ...] = ()
    nothing: bool = False

    @classmethod
    def by(cls, filters: Iterable[Filter], columns: pa.Schema, never_null: frozenset[str]) -> RowFilter:
        """
        Args:
            columns: those of the source.
            never_null: names of columns without a NULL.
        """
        return reduce(lambda found, each: found._and(_said(each, columns, never_null)), filters, cls())

    def _and(self, other: RowFilter) -> RowFilter:
        named = [users for users in (self.users, other.users) if users is not None]
        users = frozenset.intersection(*named) if named else None
        return RowFilter(users, (*self.bounds, *other.bounds), self.nothing or other.nothing)


def _said(given: Filter, columns: pa.Schema, never_null: frozenset[str]) -> RowFilter:
    (name, *inner) = getattr(given, "attribute", ("",))
    if inner or name not in columns.names:
        return RowFilter()
    if isinstance(given, IsNull):
        return RowFilter(nothing=name in never_null)
    if isinstance(given, In):
        values = tuple(given.value)
    else:
        values = (getattr(given, "value", None),) if isinstance(given, (*_LOW, *_HIGH)) else ()
    known = [_value(each, columns.field(name).type) for each in values]
    if not known or None in known:
        return RowFilter()
    if name == USER:
        equal = isinstance(given, (In, *_EQUAL))
        return RowFilter(users=frozenset(map(str, known))) if equal else RowFilter()
    return RowFilter(bounds=(_bound(given, name, [each for each in known if each is not None]),))


def _bound(given: Filter, name: str, values: list[Value]) -> Bound:
    ordered = sorted(values, key=_order)
    if isinstance(given, In):
        return Bound(name, ordered[0], ordered[-1], tuple(ordered))
    return Bound(name, ordered[0] if isinstance(given, _LOW) else None, ordered[-1] if isinstance(given, _HIGH) else None)


def _order(value: Value) -> Any:
    """Text is compared by its UTF-8 bytes, as Spark does."""
    return value.encode() if isinstance(value, str) else value


def _value(given: object, kind: pa.DataType) -> Value | None:
    """A value in the form of a bound on a column of that type; None for another one."""
    if isinstance(given, bool):
        return None
    if isinstance(given, datetime):
        return given.astimezone(UTC) if given.tzinfo is not None and pa.types.is_timestamp(kind) else None
    wanted = _PYTHON.get(kind.id, Decimal if pa.types.is_decimal(kind) else None)
    return given if wanted is not None and isinstance(given, wanted) else None


_PYTHON: dict[int, type[int] | type[str] | type[date]] = {
    pa.int16().id: int,
    pa.int32().id: int,
    pa.int64().id: int,
    pa.string().id: str,
    pa.date32().id: date,
}

NEVER_NULL = frozenset({SEQ})
"""Of the columns that every table has here; `_user` is NULL in a SHARED table."""
