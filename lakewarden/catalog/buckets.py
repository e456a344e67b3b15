"""The bucket of a row: a hash of its key, modulo the number of buckets. The same in this process and in Spark's tasks.

The hash is of a canonical text of the values, so it stays when a column's type becomes wider.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# MurmurHash3 (x86, 32 bits) of many byte strings at once, by numpy: libraries hash one string a call, a microsecond each.
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
    # Offsets of 64 bits: the text of all rows together may be more than 2 GiB.
    whole = strings.cast(pa.large_binary())
    _, ends, data = whole.buffers()
    if ends is None or data is None or not data.size:
        return np.zeros(0, np.uint8), np.zeros(len(whole) + 1, np.int64)
    offsets = np.frombuffer(memoryview(ends), np.int64)[whole.offset : whole.offset + len(whole) + 1]
    return np.frombuffer(memoryview(data), np.uint8), offsets


def _word(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], size: int) -> Numbers:
    """The little-endian number in this many bytes at each place."""
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


_SEED = 42
_NAMED = re.compile(r"b(\d{3,})-")


def bucket_of(rows: pa.Table, key: Sequence[str], buckets: int) -> pa.Array[Any]:
    """The bucket of each row, an int32 from 0.

    Args:
        key: the columns of the primary key; without any, all columns count whose names do not begin with `_`.
    """
    # No hash: most tables have one bucket.
    if buckets == 1:
        return pa.array(np.zeros(rows.num_rows, np.int32))
    hashes = murmur3(_canonical(rows, key or [name for name in rows.column_names if not name.startswith("_")]), _SEED)
    # Without the sign, so that no bucket is below zero wherever the hash is read as a signed number.
    return pa.array(((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(buckets)).astype(np.int32))


def divided_by_bucket(rows: pa.Table, key: Sequence[str], buckets: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each bucket that has some, in their order."""
    found = bucket_of(rows, key, buckets).to_numpy()
    for bucket in np.unique(found):
        yield int(bucket), rows.filter(pa.array(found == bucket))


def in_bucket(bucket: int, name: str) -> str:
    """The name of a data file of the bucket."""
    return f"b{bucket:03d}-{name}"


def bucket_named(path: str) -> int | None:
    """The bucket that a data file's name says; None for a file of a table without buckets."""
    found = _NAMED.match(path.rpartition("/")[2])
    return None if found is None else int(found[1])


def _canonical(rows: pa.Table, names: Sequence[str]) -> pa.Array[Any]:
    """Of each row the values one after the other: `<bytes>:<value>`, or `-` for NULL."""
    parts = [_spelled(rows.column(name).combine_chunks()) for name in names]
    joined: pa.Array[Any] = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))
    return joined


def _spelled(column: Any) -> Any:
    text = _text(column).cast(pa.binary())
    length = pc.binary_length(text).cast(pa.string()).cast(pa.binary())
    # With its length in front, so that the values of two keys never spell the same text (`a`, `bc` and `ab`, `c`).
    sized = pc.binary_join_element_wise(length, text, pa.scalar(b":", pa.binary()))
    return pc.if_else(pc.is_valid(text), sized, pa.scalar(b"-", pa.binary()))


def _text(column: Any) -> Any:
    kind = column.type
    # As a number of microseconds: a text would depend on the zone and on the unit.
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).cast(pa.string())
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return column
    return column.cast(pa.string())
