"""Checksums of JSON objects that are kept: their last member, over which releases before them read. They are no signatures."""

from __future__ import annotations

import zlib

_NAME = b',"sum":"'
_UNSET = b"0" * 8
_END = b'"}'


def with_room(text: bytes) -> bytes:
    """A JSON object with some member, and with room for its sum."""
    return text[:-1] + _NAME + _UNSET + _END


def with_sum(text: bytes, front: bytes = b"") -> bytes:
    """The same with its sum. Blanks may follow it; `front` is what stands before it and is summed, too."""
    end = len(text.rstrip()) - len(_END)
    at = end - len(_UNSET)
    return text[:at] + _sum(front, text[:at] + _UNSET + text[end:]) + text[end:]


def is_whole(text: bytes, front: bytes = b"") -> bool:
    """Whether it has the right sum; or none, as what an earlier release wrote."""
    end = len(text.rstrip()) - len(_END)
    at = end - len(_UNSET)
    if text[max(0, at - len(_NAME)) : max(0, at)] != _NAME:
        return True
    return text[at:end] == _sum(front, text[:at] + _UNSET + text[end:])


def _sum(front: bytes, text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text, zlib.crc32(front))
