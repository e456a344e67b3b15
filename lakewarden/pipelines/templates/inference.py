"""Infers the type of a column from its values as text: the narrowest one that takes all of them.

| values | type |
| --- | --- |
| `true`, `false`, in any case | BOOLEAN |
| whole numbers of 64 bits, without leading zeros | BIGINT |
| numbers; whole ones of at most 15 digits, which DOUBLE keeps exactly | DOUBLE |
| `2026-11-22` | DATE |
| dates with or without a time, as in `2026-11-22T09:30:00Z` | TIMESTAMP |
| anything else, and no value at all | TEXT |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.types import ColumnType
from lakewarden.rows.columns import Unfit
from lakewarden.rows.text import from_text

_DAY = r"\d{4}-\d{2}-\d{2}"
_FORMS = {
    "BOOLEAN": r"(?i)^(true|false)$",
    "BIGINT": r"^-?(0|[1-9]\d{0,18})$",
    "DOUBLE": r"^(-?(0|[1-9]\d{0,14})|-?(0|[1-9]\d*)?\.\d+|-?(0|[1-9]\d*)\.?\d*[eE][+-]?\d{1,4}|NaN|-?Infinity)$",
    "DATE": rf"^{_DAY}$",
    "TIMESTAMP": rf"^{_DAY}([T ]\d{{2}}:\d{{2}}(:\d{{2}}(\.\d{{1,6}})?)?(Z|[+-]\d{{2}}:?\d{{2}})?)?$",
}
"""From the narrowest type on. Text that a type would read, but not print again, is none of it: `007` is no number."""

TEXT = ColumnType.parse("TEXT")
_SAMPLE = 64


class Inference:
    """The types that a column may still have."""

    def __init__(self, types: Iterable[str] = tuple(_FORMS)) -> None:
        """
        Args:
            types: those that it may have besides TEXT, from the narrowest on.
        """
        self._left = [ColumnType.parse(name) for name in types]
        self.seen = False
        """Whether a value came."""

    def add(self, values: pa.Array[Any]) -> None:
        """Takes texts; NULL says nothing."""
        if values.null_count == len(values):
            return
        self.seen = True
        given = values.drop_null()
        for part in (given[:_SAMPLE], given[_SAMPLE:]):  # the first few rule most types out
            self._left = [each for each in self._left if not len(part) or _takes(each, part)]

    @property
    def type(self) -> ColumnType:
        return self._left[0] if self.seen and self._left else TEXT


def _takes(type: ColumnType, values: pa.Array[Any]) -> bool:
    if not pc.all(pc.match_substring_regex(values, _FORMS[type.name])).as_py():
        return False
    try:
        from_text(type, values)
    except Unfit:
        return False
    return True
