"""Checksums of chunks: garbled bytes are found, and never read as other rows.

A chunk has its own behind its rows, because chunks are read one by one. Releases before read past it, and their chunks have
none. The header has one of its own (`storage.sums`). They are no signatures.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from lakewarden.log.chunk import Payload

_MARK = b"\xffLWc"
"""In front of a chunk's sum. The bytes before are those of `_op`, or of `_before`, which is text: neither has 0xff."""

SUM_BYTES = 8
_KEPT = SUM_BYTES - len(_MARK)


def behind(chunk: Payload) -> bytes:
    """What stands behind a chunk's rows. Every append of one row makes one: zlib's takes a tenth of what numpy's calls do."""
    return _MARK + zlib.crc32(chunk).to_bytes(_KEPT, "little")


def sealed(chunk: memoryview) -> Payload:
    """The chunk with its sum: as it is, where it has one, even a wrong one; of an earlier release, with a new one."""
    return chunk if chunk[-SUM_BYTES:-_KEPT] == _MARK else bytes(chunk) + behind(chunk)


def seal(block: NDArray[np.uint8], start: int) -> None:
    """Writes the sums of chunks of one length, a chunk in each line from `start` on, into the last bytes of the lines."""
    count, width = block.shape
    lines, crc = block.reshape(-1).data, zlib.crc32
    chunks = (lines[at + start : at + width - SUM_BYTES] for at in range(0, count * width, width))
    sums = np.fromiter(map(crc, chunks), "<u4", count)
    block[:, -SUM_BYTES:-_KEPT] = np.frombuffer(_MARK, np.uint8)
    block[:, -_KEPT:] = sums[:, None].view(np.uint8)


def stripped(chunk: memoryview) -> memoryview | None:
    """The chunk without its sum; None where it does not have the sum that stands behind it."""
    rows, trailer = chunk[:-SUM_BYTES], bytes(chunk[-SUM_BYTES:])
    if trailer[: len(_MARK)] != _MARK:
        return chunk  # of an earlier release
    return rows if behind(rows) == trailer else None
