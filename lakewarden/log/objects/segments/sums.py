"""Checksums of chunks: garbled bytes are found, and never read as other rows.

A chunk has its own behind its rows, because chunks are read one by one. Releases before read past it, and their chunks have
none. The header has one of its own (`storage.sums`). They are no signatures.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakewarden.log.chunk import Payload

_MARK = b"\xffLW"
"""In front of a chunk's sum. The bytes before are those of `_op`, or of `_before`, which is text: neither has 0xff."""

SUM_BYTES = 8
_WORD = 8
_KEPT = SUM_BYTES - len(_MARK)

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_FEW = 1 << 12
_FILLING = bytes(_WORD)
_WHOLE = (1 << 64) - 1

Words = NDArray[np.uint64]


def behind(chunk: Payload) -> bytes:
    """What stands behind a chunk's rows; as `_trailers`, with few calls, since every append of one row makes one."""
    filled = bytes(chunk) + _FILLING[: -len(chunk) % _WORD]
    words = np.frombuffer(filled, np.uint64)
    total = int(words @ _weights(len(words))) + len(chunk)
    return _MARK + (total & _WHOLE).to_bytes(_WORD, "little")[-_KEPT:]


def seal(block: NDArray[np.uint8], start: int) -> None:
    """Writes the sums of chunks of one length, a chunk in each line from `start` on, into the last bytes of the lines."""
    block[:, -SUM_BYTES:] = _trailers(block[:, start:-SUM_BYTES])


def stripped(chunk: memoryview) -> memoryview | None:
    """The chunk without its sum; None where it does not have the sum that stands behind it."""
    rows, trailer = chunk[:-SUM_BYTES], bytes(chunk[-SUM_BYTES:])
    if trailer[: len(_MARK)] != _MARK:
        return chunk  # of an earlier release
    return rows if behind(rows) == trailer else None


def _trailers(lines: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A sum of words times odd numbers: whatever changes within one word changes it."""
    count, length = lines.shape
    whole = -(-length // _WORD)
    if length % _WORD or not lines.flags.c_contiguous:
        padded = np.zeros((count, whole * _WORD), np.uint8)
        padded[:, :length] = lines
        lines = padded
    words = lines.view(np.uint64)
    sums = words @ _weights(whole) + np.uint64(length)
    found = np.empty((count, SUM_BYTES), np.uint8)
    found[:, : len(_MARK)] = np.frombuffer(_MARK, np.uint8)
    found[:, len(_MARK) :] = sums[:, None].view(np.uint8)[:, -_KEPT:]
    return found


def _weights(count: int) -> Words:
    return _first_weights()[:count] if count <= _FEW else _weights_to(count)


@lru_cache
def _first_weights() -> Words:
    return _weights_to(_FEW)


def _weights_to(count: int) -> Words:
    found: Any = (np.arange(count, dtype=np.uint64) * np.uint64(2) + np.uint64(1)) * _FACTOR
    return np.asarray(found, np.uint64)
