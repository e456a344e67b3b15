"""The values that a client binds to parameters, in text or binary, as values of an SQL text."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from uuid import UUID

from lakewarden.base.any_year import clock_text, day_text, moment_text
from lakewarden.errors import ConstraintViolation, InvalidArgument, Unsupported
from lakewarden.serve.postgres import kinds
from lakewarden.serve.postgres.kinds import FORMS, KINDS, LISTS, Kind
from lakewarden.serve.postgres.messages import as_text
from lakewarden.serve.postgres.values import EPOCH_DAYS, EPOCH_MICROS, INFINITE_DAYS, INFINITE_MICROS, numeric_of
from lakewarden.sql.dialect import Scalar, Value, items_of_text
from lakewarden.sql.plain_values import number_of

# The items of a list of one dimension, in PostgreSQL's binary format.
_NULL = -1


def items_of_binary(data: bytes) -> list[bytes | None]:
    """Raises:
    ValueError, struct.error: it is not a list, or has several dimensions.
    """
    dimensions, _has_null, _element = struct.unpack_from("!iiI", data)
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise ValueError("a list has one dimension")
    count, _first = struct.unpack_from("!ii", data, 12)
    found: list[bytes | None] = []
    at = 20
    for _ in range(count):
        (size,) = struct.unpack_from("!i", data, at)
        at += 4
        if size == _NULL:
            found.append(None)
            continue
        if size < 0 or at + size > len(data):
            raise ValueError("an item is longer than the list")
        found.append(data[at : at + size])
        at += size
    return found


_HOURS = re.compile(r":\d\d(\.\d+)?[+-]\d\d$")
_NO_NUMBER = re.compile(r"\s*[+-]?(nan|inf|infinity)\s*", re.IGNORECASE)
_TRUE, _FALSE = ("t", "true", "y", "yes", "on", "1"), ("f", "false", "n", "no", "off", "0")


def given(data: bytes | None, kind: Kind, number: int, *, binary: bool) -> Value:
    """Parameter `number` as a value.

    Raises:
        InvalidArgument: it is not a value of its type.
        Unsupported: a binary form that is not read here.
        Malformed: it is not UTF-8.
    """
    if data is None:
        return None
    try:
        if kind.element is not None:
            return tuple(_items(data, kind.element, number, binary=binary))
        return _scalar(data, kind, number, binary=binary)
    except (ValueError, OverflowError, InvalidOperation, ConstraintViolation, struct.error) as error:
        raise InvalidArgument(f"parameter {number} is not a value of type {kind.name}") from error


def _items(data: bytes, kind: Kind, number: int, *, binary: bool) -> Iterator[Scalar]:
    if not binary:
        return (None if one is None else _read(one, kind) for one in items_of_text(as_text(data)))
    return (None if one is None else _scalar(one, kind, number, binary=True) for one in items_of_binary(data))


def _scalar(data: bytes, kind: Kind, number: int, *, binary: bool) -> Scalar:
    if not binary:
        return _read(as_text(data), kind)
    read = _BINARY.get(kind.oid)
    if read is None:
        raise Unsupported(f"parameter {number} of type {kind.name} is given in binary, which is not read: give it as text")
    return read(data)


def _read(text: str, kind: Kind) -> Scalar:
    read = _TEXTS.get(kind.oid)
    return text if read is None else read(text)


def _flag(text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE + _FALSE:
        raise ValueError(word)
    return word in _TRUE


def _whole(text: str) -> int:
    found = int(text)
    if not text.isascii() or not -(1 << 63) <= found < 1 << 63:
        raise ValueError(text)
    return found


def _in_range(text: str) -> str:
    """A number as PostgreSQL writes it: Python reads digits of other scripts too, and an infinity, or zero, out of range."""
    if not text.isascii() or "_" in text:
        raise ValueError(text)
    if not _NO_NUMBER.fullmatch(text):
        number_of(text.strip())
    return text


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError("the form with escapes")
    return bytes.fromhex(text[2:])


def _zoned(text: str) -> str:
    """PostgreSQL leaves out the minutes of a zone."""
    return f"{text}:00" if _HOURS.search(text) else text


_TEXTS: Mapping[int, Callable[[str], Scalar]] = {
    kinds.TIMESTAMPTZ.oid: _zoned,
    kinds.BOOL.oid: _flag,
    kinds.BYTEA.oid: _bytes,
    **dict.fromkeys((kinds.INT2.oid, kinds.INT4.oid, kinds.INT8.oid, kinds.OID.oid), _whole),
    **dict.fromkeys((kinds.FLOAT4.oid, kinds.FLOAT8.oid), lambda text: float(_in_range(text))),
    kinds.NUMERIC.oid: lambda text: Decimal(_in_range(text)),
    kinds.UUID.oid: lambda text: str(UUID(text)),  # also without hyphens, as psycopg writes it
}


def _unpacked(form: str) -> Callable[[bytes], Scalar]:
    def unpack(data: bytes) -> Scalar:
        found: Scalar = struct.unpack(form, data)[0]
        return found

    return unpack


def _day(data: bytes) -> str:
    days: int = struct.unpack("!i", data)[0]
    return INFINITE_DAYS.get(days) or day_text(days + EPOCH_DAYS)


def _moment(data: bytes) -> str:
    micros: int = struct.unpack("!q", data)[0]
    return INFINITE_MICROS.get(micros) or moment_text(micros + EPOCH_MICROS, " ")


def _moment_in_utc(data: bytes) -> str:
    found = _moment(data)
    return found if found in INFINITE_MICROS.values() else found + "+00:00"


def _time(data: bytes) -> str:
    return clock_text(struct.unpack("!q", data)[0])


_BINARY: Mapping[int, Callable[[bytes], Scalar]] = {
    **dict.fromkeys(
        (kind.oid for kind in (kinds.TEXT, kinds.VARCHAR, kinds.BPCHAR, kinds.NAME, kinds.JSON, kinds.UNKNOWN)), as_text
    ),
    kinds.BOOL.oid: lambda data: data != b"\0",
    kinds.BYTEA.oid: bytes,
    **{oid: _unpacked(f"!{form}") for oid, form in FORMS.items()},
    kinds.NUMERIC.oid: numeric_of,
    kinds.DATE.oid: _day,
    kinds.TIME.oid: _time,
    kinds.TIMESTAMP.oid: _moment,
    kinds.TIMESTAMPTZ.oid: _moment_in_utc,
    kinds.UUID.oid: lambda data: str(UUID(bytes=data)),
}


def kind_of_parameter(oid: int) -> Kind:
    """The type that a client names; one that is not known here has its values as text."""
    return KINDS.get(oid) or LISTS.get(oid) or Kind("unknown", oid, -1)


def examples(kinds: Sequence[Kind]) -> list[Value]:
    """Values that a statement is described with before it has its own: its answer has the same columns."""
    return [kind.example if kind.element is None else (kind.element.example,) for kind in kinds]
