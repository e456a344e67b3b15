"""MurmurHash3 (x86, 32 bits) of many byte strings at once, by numpy: libraries hash one string a call, a microsecond each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_U32 = np.uint32
_C1, _C2 = _U32(0xCC9E2D51), _U32(0x1B873593)

Numbers = npt.NDArray[np.uint32]


def murmur3(strings: pa.Array[Any], seed: int) -> Numbers:
    """The hash of each string of an array of `binary` without NULL."""
    data, offsets = _bytes_of(strings)
    lengths = np.diff(offsets)
    starts, blocks = offsets[:-1], lengths // 4
    hashes = np.full(len(lengths), seed, _U32)
    order = np.argsort(-blocks, kind="stable")
    counts = np.bincount(blocks) if len(blocks) else np.zeros(1, np.int64)
    active = len(blocks) - np.cumsum(counts)  # how many have more than so many blocks
    for block in range(len(counts) - 1):
        rows = order[: active[block]]
        hashes[rows] = _mixed(hashes[rows], _word(data, starts[rows] + 4 * block, 4))
    for left in (1, 2, 3):
        rows = np.flatnonzero(lengths % 4 == left)
        if len(rows):
            hashes[rows] ^= _scrambled(_word(data, starts[rows] + 4 * blocks[rows], left))
    return _finished(hashes ^ lengths.astype(_U32))


def _bytes_of(strings: pa.Array[Any]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    whole = strings.cast(pa.large_binary())
    _, ends, data = whole.buffers()
    if ends is None or data is None or not data.size:
        return np.zeros(0, np.uint8), np.zeros(len(whole) + 1, np.int64)
    offsets = np.frombuffer(memoryview(ends), np.int64)[whole.offset : whole.offset + len(whole) + 1]
    return np.frombuffer(memoryview(data), np.uint8), offsets


def _word(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], size: int) -> Numbers:
    """The little-endian number in so many bytes at each place."""
    word = data[at].astype(_U32)
    for place in range(1, size):
        word |= data[at + place].astype(_U32) << _U32(8 * place)
    return word


def _rotated(words: Numbers, by: int) -> Numbers:
    return (words << _U32(by)) | (words >> _U32(32 - by))


def _scrambled(words: Numbers) -> Numbers:
    return _rotated(words * _C1, 15) * _C2


def _mixed(hashes: Numbers, words: Numbers) -> Numbers:
    return _rotated(hashes ^ _scrambled(words), 13) * _U32(5) + _U32(0xE6546B64)


def _finished(hashes: Numbers) -> Numbers:
    hashes ^= hashes >> _U32(16)
    hashes *= _U32(0x85EBCA6B)
    hashes ^= hashes >> _U32(13)
    hashes *= _U32(0xC2B2AE35)
    hashes ^= hashes >> _U32(16)
    return hashes
