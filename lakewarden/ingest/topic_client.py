"""Reads values of messages by the schema of Kafka Connect that stands beside them: what its names say that JSON does not.

The names are Kafka Connect's own (`org.apache.kafka.connect.data`) and Debezium's; docs/kafka.md lists them. A name that is not
here says nothing more than the value's type does.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import cast

import msgspec

from lakewarden.base.clock import from_micros
from lakewarden.catalog.column_types import ColumnType
from lakewarden.errors import InvalidArgument

_CONNECT = "org.apache.kafka.connect.data"
_TIME = "io.debezium.time"
_TEMPORAL = frozenset({"DATE", "TIME", "TIMESTAMP"})
_FIRST_DAY = date(1970, 1, 1)


class ConnectField(msgspec.Struct, frozen=True):
    """A part of a schema: `name` is what its values mean, `field` the column of a row that has them."""

    type: str
    name: str | None = None
    field: str = ""
    parameters: Mapping[str, str] | None = None
    fields: tuple[ConnectField, ...] | None = None

    def part(self, name: str) -> ConnectField | None:
        return self.by_column.get(name)

    @property
    def by_column(self) -> dict[str, ConnectField]:
        return {each.field: each for each in self.fields or ()}


def schema_of(found: object) -> ConnectField:
    """Raises InvalidArgument: it is not a schema of Kafka Connect."""
    try:
        return msgspec.convert(found, ConnectField)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"its schema is not one of Kafka Connect: {error}") from error


def value_of(field: ConnectField, value: object, type: ColumnType) -> object:
    """The value for a column of the type, as `tables.rows.text` takes it. A number that means a time is one in columns of
    numbers.

    Raises:
        InvalidArgument: the value is not what its schema says, or the column would read it as something else.
    """
    if value is None:
        return None
    try:
        if (digits := _DIGITS.get(field.name or "")) is not None:
            return _for_column(digits(field, value), type)
        if type.name not in _TEMPORAL:
            return value
        if (moment := _MOMENTS.get(field.name or "")) is not None:
            return moment(value)
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        raise InvalidArgument(f"column {field.field!r}: {value!r:.80} is no {field.name} that {type} takes: {error}") from error
    if field.name is not None and isinstance(value, int):
        raise InvalidArgument(f"column {field.field!r}: {field.name} is no {type}")
    return value


def _for_column(found: object, type: ColumnType) -> object:
    if isinstance(found, Decimal):
        if type.name == "TEXT":
            return format(found, "f")
        if type.name in ("SMALLINT", "INT", "BIGINT") and found.as_tuple().exponent == 0:
            return int(found)
    return found


def _decimal(field: ConnectField, value: object) -> object:
    """Bytes of a number without its point; or the number itself, as the converter can be told to write it."""
    return _shifted(value, int((field.parameters or {})["scale"])) if isinstance(value, str) else value


def _any_scale(_field: ConnectField, value: object) -> Decimal:
    if not isinstance(value, Mapping):
        raise TypeError("an object with scale and value is expected")
    return _shifted(value["value"], int(value["scale"]))


def _shifted(text: object, scale: int) -> Decimal:
    try:
        number = int.from_bytes(base64.b64decode(cast("str", text), validate=True), "big", signed=True)
    except binascii.Error as error:
        raise ValueError(f"its bytes are no base64: {error}") from error
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("a whole number is expected")
    return value


def _day(value: object) -> date:
    return _FIRST_DAY + timedelta(days=_whole(value))


def _of_a_second(parts: int) -> Callable[[object], int]:
    """In microseconds. Raises `ValueError` where it has a part of one."""

    def micros(value: object) -> int:
        whole, rest = divmod(_whole(value) * 1_000_000, parts)
        if rest:
            raise ValueError("it is not in whole microseconds")
        return whole

    return micros


def _moment(parts: int) -> Callable[[object], datetime]:
    micros = _of_a_second(parts)
    return lambda value: from_micros(micros(value))


def _local(value: object) -> str:
    """Debezium writes a date or a time of day without a zone in UTC."""
    if not isinstance(value, str):
        raise TypeError("a text is expected")
    return value.removesuffix("Z")


_DIGITS: Mapping[str, Callable[[ConnectField, object], object]] = {
    f"{_CONNECT}.Decimal": _decimal,
    "io.debezium.data.VariableScaleDecimal": _any_scale,
}

_MOMENTS: Mapping[str, Callable[[object], object]] = {
    f"{_CONNECT}.Date": _day,
    f"{_CONNECT}.Time": _of_a_second(1_000),
    f"{_CONNECT}.Timestamp": _moment(1_000),
    f"{_TIME}.Date": _day,
    f"{_TIME}.Time": _of_a_second(1_000),
    f"{_TIME}.MicroTime": _of_a_second(1_000_000),
    f"{_TIME}.NanoTime": _of_a_second(1_000_000_000),
    f"{_TIME}.Timestamp": _moment(1_000),
    f"{_TIME}.MicroTimestamp": _moment(1_000_000),
    f"{_TIME}.NanoTimestamp": _moment(1_000_000_000),
    f"{_TIME}.IsoDate": _local,
    f"{_TIME}.IsoTime": _local,
}
