"""Reads and writes JSON without a change to its numbers: one with a point or an exponent, and `-0`, stays what was written."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal, DecimalException
from functools import cache
from itertools import chain
from typing import NoReturn, TypeVar

import msgspec

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class JsonNumber(Decimal):
    """A number with a point or an exponent, or `-0`: whole numbers have no sign at zero. `Decimal` alone forgets how it was
    written: `1e2` would be written `1E+2`.
    """

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> JsonNumber:
        """Raises ValueError: its exponent is beyond what a decimal number can have."""
        try:
            made = super().__new__(cls, text)
        except DecimalException as error:
            raise ValueError(f"the exponent of {text:.40} is out of range") from error
        made.text = text
        return made

    @property
    def is_whole(self) -> bool:
        """Whether it is `-0`: for a column of whole numbers, it is 0."""
        return self.text == "-0"

    @property
    def nearest(self) -> float | None:
        """The nearest DOUBLE; None where that is an infinity, or zero and the number is not."""
        found = float(self.text)
        return None if math.isinf(found) or (not found and self) else found

    @property
    def is_double(self) -> bool:
        """Whether a DOUBLE is written as this number: `0.1` is one, and `999999999999999.99` is not."""
        return (found := self.nearest) is not None and Decimal(repr(found)) == self


@cache
def decoder(kind: type[T], *, strict: bool = True) -> msgspec.json.Decoder[T]:
    """Decodes to the type; a number of which it does not say more is an `int` or a `JsonNumber`. `-0` is 0: see `decoded`.

    Besides `msgspec.DecodeError`, it raises any `ValueError` where the text is no JSON in UTF-8, or a number is out of any range,
    and `RecursionError` where it is nested too deeply.
    """
    return msgspec.json.Decoder(kind, strict=strict, float_hook=JsonNumber)


_ANY: msgspec.json.Decoder[object] = decoder(object)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def decoded(data: bytes) -> object:
    """A JSON value, as `ANY` has it. Of equal keys of an object, one would vanish: they are an error.

    Raises:
        ValueError: as `decoder` says, nested too deeply, or an object has a key twice. The message has the place within, if it
            is known: as `$.rows[0].at`.
    """
    try:
        found = _value(data)
        _check_once_each(data, found)
    except (ValueError, RecursionError) as error:
        raise _placed(error, data) from error
    return found


def decoded_as(kind: type[S], data: bytes, *, strict: bool = True) -> S:
    """The same, as a value of the type, in which objects within members are dicts. Raises as `decoded`."""
    if _MINUS_ZERO.search(data):
        return msgspec.convert(decoded(data), kind, strict=strict)
    try:
        found: S = _read(decoder(kind, strict=strict), data)
        # Which members there were, a value of the type does not show: one that was left out has its default, which has no keys.
        _check_once_each(data, [getattr(found, name) for name in found.__struct_fields__], len(_MEMBERS.decode(data)))
    except (ValueError, RecursionError) as error:
        raise _placed(error, data) from error
    return found


MINUS_ZERO = r"-0(?![0-9.eE])"
"""The number, or a text that has it. Readers in C take it for a whole number, which has no sign at zero."""
_MINUS_ZERO = re.compile(MINUS_ZERO.encode())

_HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which Python's own reader takes."""


def _value(data: bytes) -> object:
    found = _read(_ANY, data)
    return json.loads(data, parse_float=JsonNumber, parse_int=whole_or_minus_zero) if _MINUS_ZERO.search(data) else found


def whole_or_minus_zero(digits: str) -> int | JsonNumber:
    """As `parse_int` of `json`, a whole number; `-0` is not one."""
    return JsonNumber(digits) if digits == "-0" else int(digits)


def _read(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        if half := _half_within(data):
            raise ValueError(f"a text has {half} alone, half of a surrogate pair: send both halves, or the character") from error
        raise


def _half_within(data: bytes) -> str:
    """The escape of the first such half, of which msgspec says no more than that the text ends there; empty without one."""
    try:
        found = _HALF.search(json.dumps(json.loads(data), ensure_ascii=False))
    except (ValueError, RecursionError):
        return ""  # it is no JSON in other ways, which msgspec names
    return f"\\u{ord(found[0]):x}" if found else ""


def _check_once_each(data: bytes, found: object, beside: int = 0) -> None:
    if _has_more_names(data, beside + _keys(found)):
        json.loads(data, parse_int=str, parse_float=str, object_pairs_hook=once_each)


def decoded_lines(data: bytes) -> list[object]:
    """The value of each line that is not empty; raises as `decoded`."""
    found = _ANY.decode_lines(data)
    if _MINUS_ZERO.search(data) or _has_more_names(data, _keys(found)):
        return [decoded(line) for line in data.split(b"\n") if line.strip()]
    return found


def once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """As `object_pairs_hook` of `json`, refuses an object that has a key twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"an object in it has the key {next(name for name in names if names.count(name) > 1)!r:.80} twice")
    return found


def no_constant(word: str) -> NoReturn:
    """As `parse_constant` of `json`, refuses NaN and the infinities."""
    raise ValueError(f"{word} is not JSON")


READER = json.JSONDecoder(parse_float=JsonNumber, parse_constant=no_constant, object_pairs_hook=once_each)
READER_OF_MINUS_ZEROS = json.JSONDecoder(
    parse_float=JsonNumber, parse_int=whole_or_minus_zero, parse_constant=no_constant, object_pairs_hook=once_each
)
"""`-0` is 0 for the other, which reads whole numbers several times as fast."""


# Where the fault of a text is: the readers name a byte at most, and who sent rows thinks in rows and columns.
_DEEPEST = 4
"""Levels of a place, as in `$.rows[0].at`: each costs a reading of what is within."""

_MOST_SEARCHED = 128 << 10
"""Bytes of a text whose fault is looked for: Python reads them in up to half a second. An error of a longer one has the byte."""

_BETWEEN = re.compile(r"[ \t\r\n]*[:,]?[ \t\r\n]*")


def place_of_fault(text: str, at: int, depth: int = _DEEPEST) -> str:
    """The member, or item, of the value there that is the first that cannot be read, as `.rows[0].at`; empty for none."""
    opened, number = text[at : at + 1], 0
    if opened not in ("{", "[") or not depth:
        return ""
    at = _behind(text, at + 1)
    while text[at : at + 1] not in ("", "}", "]"):
        step = f"[{number}]" if opened == "[" else ""
        try:
            if opened == "{":
                name, at = READER.raw_decode(text, at)
                step, at = f".{name:.80}", _behind(text, at)
            value, end = READER.raw_decode(text, at)
            if _HALF.search(json.dumps(value, ensure_ascii=False, default=str)):
                raise ValueError("half of a surrogate pair")
        except (ValueError, TypeError, RecursionError):
            return step + place_of_fault(text, at, depth - 1) if step else ""
        at = _behind(text, end)
        if "," not in text[end:at] and text[at : at + 1] != {"{": "}", "[": "]"}[opened]:
            return step
        number += 1
    return ""


def _behind(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return at if found is None else found.end()


def _placed(error: ValueError | RecursionError, data: bytes) -> ValueError:
    """The error with its place, if that is known."""
    found = ValueError("it is nested too deeply") if isinstance(error, RecursionError) else error
    text = data.decode(errors="replace") if len(data) <= _MOST_SEARCHED else ""
    place = place_of_fault(text, len(text) - len(text.lstrip()))
    if not place:
        return found
    kind = found.__class__ if isinstance(found, msgspec.DecodeError) else ValueError
    return kind(f"{str(found).partition(' - at ')[0]}, at `${place}`")


_NAME = re.compile(rb'"[ \t\r\n]*:')
"""Behind each key; and within a text that has a quote and a colon."""


def _has_more_names(data: bytes, keys: int) -> bool:
    """Whether more keys are written than these; or, rarely, as many and a text that looks like one. Most texts have no colon."""
    return data.count(b":") > keys and len(_NAME.findall(data)) > keys


def _keys(value: object) -> int:
    """Level by level, without a call for each value: a body has tens of thousands."""
    found, level = 0, [value]
    while level:
        objects = [each for each in level if each.__class__ is dict]
        lists = [each for each in level if each.__class__ is list]
        found += sum(map(len, objects))
        level = [one for one in chain(*map(dict.values, objects), *lists) if one.__class__ in _NESTED]
    return found


_NESTED: frozenset[type] = frozenset({dict, list})


def check_names(value: object) -> None:
    """Raises TypeError: an object within has a name that is not text. Python's encoder makes one of it."""
    if isinstance(value, Mapping):
        for name in value:
            _key(name)
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for one in value:
        check_names(one)


def raw(value: object) -> msgspec.Raw:
    """As `enc_hook` of `msgspec.json`, writes a `JsonNumber` as it was read."""
    if isinstance(value, JsonNumber):
        return msgspec.Raw(value.text.encode())
    raise NotImplementedError(f"{value.__class__.__name__} has no form in JSON")  # the error that msgspec asks of a hook


def encode(value: object) -> str:
    """Any JSON value as its text, without spaces. A `Decimal` is a number.

    Raises:
        ValueError, TypeError, RecursionError: the value, or one within, is not JSON: NaN, an infinity, bytes, a date.
    """
    try:
        return _plain(value)
    except TypeError:
        return _with_decimals(value)


_plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def _with_decimals(value: object) -> str:
    match value:
        case JsonNumber():
            return value.text
        case Decimal() if value.is_finite():
            return str(value)
        case Mapping():
            return "{" + ",".join(f"{_key(key)}:{_with_decimals(one)}" for key, one in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_with_decimals, value)) + "]"
        case _:
            return _plain(value)


def _key(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name {name!r} in an object is not text")
    return _plain(name)
