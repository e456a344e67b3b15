"""PostgreSQL's binary form of NUMERIC: digits to the base of 10,000."""

from __future__ import annotations

import struct
from decimal import Decimal

from lakewarden.serve.postgres.wire.messages import MalformedMessage

_BASE_DIGITS = 4
_NEGATIVE = 0x4000
_NO_NUMBERS = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}
"""Of a sign."""


def binary_numeric(value: Decimal) -> bytes:
    """Of a finite number."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "a column's number is finite"
    scale = max(-exponent, 0)
    text = "".join(map(str, digits)) + "0" * max(exponent, 0)
    whole, part = (text[:-scale], text[-scale:].rjust(scale, "0")) if scale else (text, "")
    whole = whole.lstrip("0")
    whole = whole.rjust(-(-len(whole) // _BASE_DIGITS) * _BASE_DIGITS, "0")
    part = part.ljust(-(-len(part) // _BASE_DIGITS) * _BASE_DIGITS, "0")
    both = whole + part
    groups = [int(both[at : at + _BASE_DIGITS]) for at in range(0, len(both), _BASE_DIGITS)]
    weight = len(whole) // _BASE_DIGITS - 1
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    head = struct.pack("!HhHH", len(groups), weight if groups else 0, _NEGATIVE if sign and groups else 0, scale)
    return head + struct.pack(f"!{len(groups)}H", *groups)


def numeric_of(data: bytes) -> Decimal:
    """Raises:
    Malformed: it is no such form.
    """
    if len(data) < 8:
        raise MalformedMessage("a NUMERIC in binary has eight bytes at least")
    number, weight, sign, scale = struct.unpack("!HhHH", data[:8])
    if len(data) != 8 + 2 * number or sign not in (0, _NEGATIVE, *_NO_NUMBERS):
        raise MalformedMessage("a NUMERIC in binary does not have the length that it says, or has an unknown sign")
    if sign in _NO_NUMBERS:
        return Decimal(_NO_NUMBERS[sign])
    groups = struct.unpack(f"!{number}H", data[8:])
    if any(group > 9999 for group in groups):
        raise MalformedMessage("a NUMERIC in binary has a digit above 9999")
    digits = "".join(f"{group:04d}" for group in groups) or "0"
    exponent = _BASE_DIGITS * (weight + 1 - number) if groups else 0
    filling = min(max(-exponent - scale, 0), len(digits) - len(digits.rstrip("0")), len(digits) - 1)  # the last group's zeros
    return Decimal((int(sign == _NEGATIVE), tuple(map(int, digits[: len(digits) - filling])), exponent + filling))
