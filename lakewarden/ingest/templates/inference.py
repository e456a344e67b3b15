"""Infers the type of a column from its values as text: the narrowest one that takes all of them.

| values | type |
| --- | --- |
| `true`, `false`, in any case | BOOLEAN |
| whole numbers of 64 bits, without leading zeros | BIGINT |
| numbers; whole ones of at most 15 digits, which DOUBLE keeps exactly | DOUBLE; DECIMAL where that would change one |
| `2026-11-22` | DATE |
| dates with or without a time, as in `2026-11-22T09:30:00Z` | TIMESTAMP |
| anything else, and no value at all | TEXT |
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.exact_json import JsonNumber
from lakewarden.catalog.column_types import ColumnType
from lakewarden.tables.rows.columns import Unfit
from lakewarden.tables.rows.text import from_text

_DAY = r"\d{4}-\d{2}-\d{2}"
_NUMBER = r"-?(0|[1-9]\d{0,14})|-?(0|[1-9]\d*)?\.\d+"
_FORMS = {
    "BOOLEAN": r"(?i)^(true|false)$",
    "BIGINT": r"^(0|-?[1-9]\d{0,18})$",
    "DOUBLE": rf"^({_NUMBER}|-?(0|[1-9]\d*)\.?\d*[eE][+-]?\d{{1,4}}|NaN|-?Infinity)$",
    "DECIMAL": f"^({_NUMBER})$",
    "DATE": rf"^{_DAY}$",
    "TIMESTAMP": rf"^{_DAY}([T ]\d{{2}}:\d{{2}}(:\d{{2}}(\.\d{{1,6}})?)?(Z|[+-]\d{{2}}:?\d{{2}})?)?$",
}
"""From the narrowest type on. Text that a type would read, but not print again, is none of it: `007` is not a number."""

TEXT = ColumnType.parse("TEXT")
_SAMPLE = 64
_MOST = 38
"""Digits of a DECIMAL."""
_SAFE = 16
"""Characters of a number with a point, without an exponent, that DOUBLE keeps in any case: it keeps 15 digits."""


class Digits:
    """The DECIMAL that takes all of some numbers: with the most digits behind the point that one has, and room before it."""

    def __init__(self) -> None:
        self._before = self._behind = 0

    def add(self, numbers: Iterable[Decimal]) -> None:
        for number in numbers:
            _, digits, exponent = number.as_tuple()
            assert isinstance(exponent, int), "JSON has no NaN"
            minus_zero = number.is_zero() and number.is_signed()  # DECIMAL has none
            self._widen(len(digits) + exponent, _MOST + 1 if minus_zero else -exponent)

    def add_texts(self, values: Any) -> None:
        """Numbers without exponents."""
        plain: Any = pc.utf8_ltrim(values, characters="-0")
        zeros = pc.match_substring_regex(plain, r"^[0.]*$")
        if pc.any(pc.and_(zeros, pc.starts_with(values, "-"))).as_py():
            self._widen(0, _MOST + 1)
        length = pc.binary_length(plain).to_numpy(zero_copy_only=False)
        point = pc.find_substring(plain, ".").to_numpy(zero_copy_only=False)
        before = np.where(point < 0, length, point)
        self._widen(int(before.max()), int((length - before).max()) - 1)

    def _widen(self, before: int, behind: int) -> None:
        self._before, self._behind = max(self._before, before), max(self._behind, behind)

    @property
    def type(self) -> ColumnType | None:
        return ColumnType("DECIMAL", _MOST, self._behind) if self._before + self._behind <= _MOST else None


class Inference:
    """The types that a column may still have."""

    def __init__(self, types: Iterable[str] = tuple(_FORMS)) -> None:
        """
        Args:
            types: those that it may have besides TEXT, from the narrowest on.
        """
        self._left = list(types)
        self._digits = Digits()
        self.seen = False
        """Whether a value came."""

    def add(self, values: pa.Array[Any]) -> None:
        """Takes texts; NULL says nothing."""
        if values.null_count == len(values):
            return
        self.seen = True
        given = values.drop_null()
        for part in (given[:_SAMPLE], given[_SAMPLE:]):  # the first few rule most types out
            self._left = [each for each in self._left if not len(part) or self._takes(each, part)]

    @property
    def type(self) -> ColumnType:
        if not self.seen or not self._left:
            return TEXT
        return self._digits.type or TEXT if self._left[0] == "DECIMAL" else ColumnType(self._left[0])

    def _takes(self, type: str, values: pa.Array[Any]) -> bool:
        if not pc.all(pc.match_substring_regex(values, _FORMS[type])).as_py():
            return False
        if type == "DECIMAL":
            self._digits.add_texts(values)
            return self._digits.type is not None
        try:
            from_text(ColumnType(type), values)
        except Unfit:
            return False
        return type != "DOUBLE" or _double_keeps(values)


def _double_keeps(values: Any) -> bool:
    """Whether DOUBLE is written as each of the numbers is: it would change `999999999999999.99`."""
    long: Any = pc.binary_length(values)
    doubtful = pc.or_(pc.greater(long, pa.scalar(_SAFE)), pc.match_substring(values, "e", ignore_case=True))
    some = values.filter(doubtful)
    some = some.filter(pc.not_equal(some.cast(pa.float64()).cast(pa.string()), some))
    return all(JsonNumber(text).is_double for text in some.to_pylist())
