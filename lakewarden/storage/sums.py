"""JSON objects that are kept: how they are read as values, and the checksums of some.

A checksum is the last member, over which releases before it read. It is no signature.
"""

from __future__ import annotations

import zlib
from typing import TypeVar

import msgspec

from lakewarden.errors import Corrupt

T = TypeVar("T")

_NAME = b',"sum":"'
_DIGITS = 8
_END = b'"}'

ROOM = len(_NAME) + _DIGITS + len(_END) - 1
"""Bytes by which a sum makes an object longer."""


def with_sum(text: bytes, front: bytes = b"") -> bytes:
    """A JSON object with some member, and its sum; `front` is what stands before it and is summed, too. Blanks may follow it."""
    return b"%b%b%08x%b" % (text[:-1], _NAME, _sum(front, text[:-1]), _END)


def is_whole(text: bytes, front: bytes = b"", *, needed: bool = False) -> bool:
    """Whether it has the right sum; or none, as what an earlier release wrote, unless it is `needed`."""
    end = len(text.rstrip()) - len(_END)
    at = max(0, end - _DIGITS)
    named = max(0, at - len(_NAME))
    # Without a sum it is of an earlier release, unless the format tells that there must be one
    # (docs/decisions/0113-checksums-where-there-was-none.md).
    if text[named:at] != _NAME:
        return not needed
    return text[at:end] == b"%08x" % _sum(front, text[:named])


def _sum(front: bytes, text: bytes) -> int:
    return zlib.crc32(text, zlib.crc32(front))


def kept_as(kind: type[T], data: bytes, what: str) -> T:
    """An object of ours that is kept, as `msgspec.json.encode` writes a dataclass; members that it does not know are passed over.

    Raises:
        Corrupt: the data is not of that type; the message begins with `what`, as in `k can't be read as a job`.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"{what}: {data[:80]!r}") from error
