"""Converts one column of given values to the column type's Arrow array: all at once where that is exact, else one by one.

`catalog.column_values.convert` decides what fits; the faster ways here accept and refuse exactly the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from types import NoneType
from typing import Any, TypeVar, cast
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.any_year import DAY_MICROS
from lakewarden.base.exact_json import JsonNumber
from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.column_values import UUID_FORM, check_json, convert, reason
from lakewarden.errors import ConstraintViolation, InvalidArgument

_MICROS = pa.timestamp("us", tz="UTC")
_FIRST_DAY, _LAST_DAY = date.min.toordinal() - date(1970, 1, 1).toordinal(), date.max.toordinal() - date(1970, 1, 1).toordinal()


_FREE = frozenset({"BOOLEAN", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "TEXT", "BYTES"})
"""Types for which every value of the Arrow type is valid."""


class Unfit(Exception):
    """A value does not fit the column."""

    def __init__(self, row: int, value: object) -> None:
        super().__init__(row, value)
        self.row = row
        self.value = value


class _NotAtOnce(Exception):
    """There is no exact way to convert all values at once."""


_FEW = 8
"""The number of values below which Python compares faster than Arrow."""

_PLAIN: dict[str, frozenset[type]] = {
    "BOOLEAN": frozenset({bool}),
    "SMALLINT": frozenset({int}),
    "INT": frozenset({int}),
    "BIGINT": frozenset({int}),
    "FLOAT": frozenset({float}),
    "DOUBLE": frozenset({float}),
    "DECIMAL": frozenset({Decimal, JsonNumber}),
    "TEXT": frozenset({str}),
    "BYTES": frozenset({bytes}),
    "DATE": frozenset({date}),
    "TIMESTAMP": frozenset({datetime}),
    "TIME": frozenset({int}),
    "UUID": frozenset({str}),
    "JSON": frozenset({str}),
    "FILE": frozenset({str}),
}
"""Python types (not their subclasses) that Arrow reads as we do."""

_OR_NULL = {name: types | {NoneType} for name, types in _PLAIN.items()}


def from_values(type: ColumnType, values: Sequence[object]) -> pa.Array[Any]:
    """Python values; None is NULL.

    Raises:
        Unfit: a value does not fit the type; names the first such value.
    """
    if _OR_NULL[type.name].issuperset([value.__class__ for value in values]):
        read_as = pa.float64() if type.name == "FLOAT" else type.arrow  # Arrow turns 1e300 into an infinity
        try:
            return from_array(type, pa.array(values, read_as))
        except (pa.ArrowException, OverflowError, TypeError, UnicodeEncodeError):
            pass  # the slow way finds which value
    return _one_by_one(type, values)


def from_array(type: ColumnType, given: pa.Array[Any]) -> pa.Array[Any]:
    """Arrow values.

    Raises:
        Unfit: a value does not fit the type.
    """
    if type.name in _FREE and given.type == type.arrow:
        return given
    array = unwrapped(given)
    if pa.types.is_null(array.type) or array.null_count == len(array):
        return repeated(None, len(array), type)
    try:
        return _AT_ONCE[type.name](type, array)
    except (_NotAtOnce, pa.ArrowException):
        if pa.types.is_temporal(array.type):
            raise _first_temporal(type, array) from None
        return _one_by_one(type, list(_plain(array)))


def _plain(array: pa.Array[Any]) -> Iterator[object]:
    """The values as Python has them; a map is an object, as in an upload."""
    for row, value in enumerate(array):
        try:
            yield value.as_py(maps_as_pydicts="strict")
        except KeyError as error:  # a key twice
            raise Unfit(row, value.as_py()) from error


def repeated(value: object, count: int, type: ColumnType) -> pa.Array[Any]:
    """Returns the value, as `catalog.column_values.convert` returns it, or None, `count` times."""
    scalar: Any = pa.scalar(value, type.arrow)
    array: pa.Array[Any] = pa.repeat(scalar, count)
    return array


def _one_by_one(type: ColumnType, values: Sequence[object]) -> pa.Array[Any]:
    found: list[object] = []
    for row, value in enumerate(values):
        try:
            found.append(None if value is None else convert(type, value))
        except ValueError as error:
            raise Unfit(row, value) from error
    return pa.array(found, type.arrow)


def _first_temporal(type: ColumnType, array: pa.Array[Any]) -> Unfit:
    """Finds the first value that fails by halving: Python cannot hold every temporal value that Arrow can."""

    def work(part: pa.Array[Any]) -> None:
        if part.null_count < len(part):
            _AT_ONCE[type.name](type, part)

    row = first_refused(work, array, (_NotAtOnce, pa.ArrowException, Unfit))
    return Unfit(row, array.slice(row, 1).cast(pa.string())[0].as_py())


def single(name: str, column: pa.ChunkedArray[Any] | pa.Array[Any]) -> pa.Array[Any]:
    """Returns the column as one array.

    Raises:
        InvalidArgument: the column is too large for one array.
    """
    if isinstance(column, pa.Array):
        return column
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        raise InvalidArgument(f"column {name!r} has more than 2 GiB in one call; write it in parts")
    return whole


def unwrapped(array: pa.Array[Any]) -> pa.Array[Any]:
    """Returns the values without dictionary, extension, view or large offsets, in a form that every Arrow kernel accepts."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        if getattr(kind, "extension_name", "") == "arrow.uuid":
            return pa.array([value and str(UUID(bytes=value)) for value in array.storage.to_pylist()], pa.string())
        return unwrapped(array.storage)
    if isinstance(array, pa.DictionaryArray):
        return unwrapped(array.dictionary).take(array.indices)  # decoding does not support views
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return array.cast(pa.string())
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return array.cast(pa.binary())
    return array


def _as_it_is(is_of: Callable[[pa.DataType], bool]) -> Callable[[ColumnType, pa.Array[Any]], pa.Array[Any]]:
    return lambda _type, array: _only(is_of(array.type), array)


def _integer(type: ColumnType, array: pa.Array[Any]) -> pa.Array[Any]:
    return _only(pa.types.is_integer(array.type), array).cast(type.arrow)


def _floating(type: ColumnType, array: pa.Array[Any]) -> pa.Array[Any]:
    found = _only(pa.types.is_floating(array.type) or pa.types.is_integer(array.type), array).cast(type.arrow)
    if pa.types.is_float64(array.type) and type.name == "FLOAT":
        over = pc.xor(pc.is_inf(found), pc.is_inf(array))
        under = pc.xor(pc.equal(found, pa.scalar(0.0)), pc.equal(array, pa.scalar(0.0)))
        if pc.any(pc.or_(over, under)).as_py():
            raise _NotAtOnce
    return found


def _decimal(type: ColumnType, array: pa.Array[Any]) -> pa.Array[Any]:
    if pa.types.is_integer(array.type):
        array = array.cast(pa.decimal256(76, type.scale or 0))
    return _only(pa.types.is_decimal(array.type), array).cast(type.arrow)


def _date(type: ColumnType, array: pa.Array[Any]) -> pa.Array[Any]:
    midnight = pa.types.is_date64(array.type) or (pa.types.is_timestamp(array.type) and array.type.tz is None)
    found = array.cast(type.arrow) if midnight else _only(pa.types.is_date32(array.type), array)
    if midnight and pc.any(pc.not_equal(found.cast(array.type), array)).as_py():
        raise _NotAtOnce
    _check_range(found.cast(pa.int32()), _FIRST_DAY, _LAST_DAY)
    return found


def _timestamp(_type: ColumnType, array: pa.Array[Any]) -> pa.Array[Any]:
    if array.type == _MICROS:
        found = array
    else:
        found = _only(pa.types.is_timestamp(array.type) or pa.types.is_date(array.type), array).cast(_MICROS)
    _check_range(found.view(pa.int64()), _FIRST_DAY * DAY_MICROS, (_LAST_DAY + 1) * DAY_MICROS - 1)
    return found


def _time(type: ColumnType, array: pa.Array[Any]) -> pa.Array[Any]:
    if pa.types.is_time(array.type):
        array = array.cast(pa.time64("us"))
    elif not pa.types.is_integer(array.type):
        raise _NotAtOnce
    found = array.cast(type.arrow)
    _check_range(found, 0, DAY_MICROS - 1)
    return found


def _uuid(_type: ColumnType, array: pa.Array[Any]) -> pa.Array[Any]:
    _only(pa.types.is_string(array.type), array)
    if not pc.all(pc.match_substring_regex(array, f"^{UUID_FORM}$")).as_py():
        raise _NotAtOnce
    return pc.utf8_lower(array)


def _json(type: ColumnType, array: pa.Array[Any]) -> pa.Array[Any]:
    _only(pa.types.is_string(array.type), array)
    values = array.to_pylist()
    for row, text in enumerate(values):
        try:
            if text is not None:
                check_json(text)
        except ValueError as error:
            raise Unfit(row, text) from error
    if type.name == "FILE" and not all(text is None or text.lstrip().startswith("{") for text in values):
        raise _NotAtOnce
    return array


def _only(possible: bool, array: pa.Array[Any]) -> pa.Array[Any]:
    if not possible:
        raise _NotAtOnce
    return array


def _check_range(numbers: pa.Array[Any], low: int, high: int) -> None:
    if len(numbers) <= _FEW:
        fits = all(value is None or low <= value <= high for value in numbers.to_pylist())
    else:
        bounds: Any = pc.min_max(numbers).as_py()
        fits = bounds["min"] is None or (low <= bounds["min"] and bounds["max"] <= high)
    if not fits:
        raise _NotAtOnce


_AT_ONCE: dict[str, Callable[[ColumnType, pa.Array[Any]], pa.Array[Any]]] = {
    "BOOLEAN": _as_it_is(pa.types.is_boolean),
    "SMALLINT": _integer,
    "INT": _integer,
    "BIGINT": _integer,
    "FLOAT": _floating,
    "DOUBLE": _floating,
    "DECIMAL": _decimal,
    "TEXT": _as_it_is(pa.types.is_string),
    "BYTES": _as_it_is(pa.types.is_binary),
    "DATE": _date,
    "TIMESTAMP": _timestamp,
    "TIME": _time,
    "UUID": _uuid,
    "JSON": _json,
    "FILE": _json,
}


_SHOWN = 80


def unfit(name: str, type: ColumnType, row: int, value: object) -> ConstraintViolation:
    return ConstraintViolation(f"column {name!r}, row {row}: {misfit(type, value)}")


def shown(value: object) -> str:
    """Returns the value's repr, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


# What does not fit is found by halving, since all values at once are quick to convert, and is named in one way. A reader has two
# manners: it refuses an object for its first misfit (`fit_whole`), or takes the other rows (`fit_apart`).
Values = TypeVar("Values", bound="pa.Array[Any] | Sequence[object]")
R = TypeVar("R")

Convert = Callable[[ColumnType, Values], "pa.Array[Any]"]
"""Converts values, or raises `Unfit` where one does not fit."""


def fit_whole(convert: Convert[Values], type: ColumnType, values: Values, place: Callable[[int], str]) -> pa.Array[Any]:
    """All values in the column's type.

    Args:
        place: names a value by its number from 0, as in `column 'a', line 7`.

    Raises:
        InvalidArgument: one does not fit; the message names the first.
    """
    try:
        return convert(type, values)
    except Unfit:
        row = first_refused(partial(convert, type), values, (Unfit,))
        raise InvalidArgument(f"{place(row)}: {misfit(type, _plain_value(values, row))}") from None


def fit_apart(convert: Convert[Values], type: ColumnType, values: Values) -> tuple[pa.Array[Any], dict[int, str]]:
    """The values in the column's type, NULL in place of those that do not fit; and by their numbers from 0, why these do not."""
    misfits: dict[int, str] = {}
    parts: list[pa.Array[Any]] = []
    for first, _, made in in_halves(partial(convert, type), values, (Unfit,)):
        if isinstance(made, Unfit):
            misfits[first] = misfit(type, made.value)
        parts.append(repeated(None, 1, type) if isinstance(made, Exception) else made)
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts), misfits


def first_refused(work: Callable[[Values], object], values: Values, refusals: tuple[type[Exception], ...]) -> int:
    """The number of the first value that `work` refuses, which refuses them all together."""
    return next(first for first, _, made in in_halves(work, values, refusals) if isinstance(made, Exception))


def in_halves(
    work: Callable[[Values], R], values: Values, refusals: tuple[type[Exception], ...], first: int = 0
) -> Iterator[tuple[int, Values, R | Exception]]:
    """Does the work on all values; where it refuses them, on each half, down to the values that it refuses alone.

    Yields the parts in order, with the number of their first value: what the work made of a part, or why it refuses the value.
    """
    try:
        yield first, values, work(values)
    except refusals as error:
        if len(values) == 1:
            yield first, values, error
            return
        middle = len(values) // 2
        yield from in_halves(work, cast("Values", values[:middle]), refusals, first)
        yield from in_halves(work, cast("Values", values[middle:]), refusals, first + middle)


def first_invalid(rows: pa.Table | pa.RecordBatch) -> str:
    """The column whose buffers are not those of Arrow data, for a message."""
    columns: Sequence[Any] = rows.columns
    for name, values in zip(rows.schema.names, columns, strict=True):
        try:
            values.validate(full=True)
        except pa.ArrowInvalid:
            return f"column {name!r}"
    return "the columns"


def misfit(type: ColumnType, value: object) -> str:
    return f"{shown(value)} does not fit {type}, which takes {reason(type)}"


def _plain_value(values: pa.Array[Any] | Sequence[object], row: int) -> object:
    if not isinstance(values, pa.Array):
        return values[row]
    one = values.slice(row, 1)  # Python cannot hold every temporal value that Arrow can
    return (one.cast(pa.string()) if pa.types.is_temporal(one.type) else one)[0].as_py()
