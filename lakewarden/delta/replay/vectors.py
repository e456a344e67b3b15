"""Deletion vectors: which rows of a data file are deleted.

Source: Delta's protocol, "Deletion Vectors" and "Deletion Vector Format"; the bitmaps are those of the Roaring format
specification, "extension for 64-bit implementations". Read here: no library for them is kept that bounds what a vector may ask
for, and ours writes straight into a mask as long as the file.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lakewarden.base.connection import Location
from lakewarden.delta.replay.actions import Vector
from lakewarden.delta.replay.paths import check_inside, key_of, root_of
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.storage.objects import Missing, ObjectStore

Mask = npt.NDArray[np.bool_]
"""True for each row of a file that is deleted."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}
_ID_DIGITS = 20
"""Digits of a UUID in Z85."""

_MAGIC = 1681511377
_WITHOUT_RUNS, _WITH_RUNS = 12346, 12347
"""The cookies of a 32-bit bitmap."""

_ARRAY_AT_MOST = 4096
"""Values of a container that is stored as an array; one with more is stored as bits."""

_OFFSETS_FROM = 4
"""Containers of a bitmap with runs from which on it has a list of their offsets."""

_BITS = 8192
"""Bytes of a container that is stored as bits."""

_AT_MOST = 256 << 20
"""Bytes of one vector: eight thousand times what a file of a million rows could need."""


def mask_of(vector: Vector, rows: int, store: ObjectStore, location: Location) -> Mask:
    """Which of that many rows are deleted.

    Raises:
        OutsideTable: the vector is not in the table's own directory.
        Unsupported: its storage type is unknown, or it is larger than any file could need.
        Corrupt: it is missing, cut off or garbled, or says something else than the log says of it.
    """
    mask = np.zeros(rows, np.bool_)
    found = _fill(mask, bitmap_of(vector, store, location))
    if found != vector.cardinality:
        raise Corrupt(f"vector-short: a deletion vector has {found} rows, and the log says that it has {vector.cardinality}")
    return mask


def vector_key(vector: Vector, location: Location) -> str | None:
    """The key of the file that holds a vector; None for one in the log itself ("Derived Fields", `absolutePath`).

    Raises:
        OutsideTable, Unsupported: as `mask_of`.
        Corrupt: its name is no UUID.
    """
    text = vector.path_or_inline_dv
    match vector.storage_type:
        case "i":
            return None
        case "u":
            prefix, digits = text[:-_ID_DIGITS], text[-_ID_DIGITS:]
            name = f"deletion_vector_{uuid.UUID(bytes=_exactly(z85(digits), 16))}.bin"
            return check_inside(f"{prefix}/{name}" if prefix else name, text, location.uri)
        case "p":
            return check_inside(key_of(text, root_of(location)), text, location.uri)
    raise Unsupported(f"unknown-storage-type: a deletion vector of {location.uri} is stored as {vector.storage_type[:20]!r}")


def bitmap_of(vector: Vector, store: ObjectStore, location: Location) -> bytes:
    """The bytes of its bitmap, checked against their checksum where they have one. Raises as `mask_of`."""
    if not 0 <= vector.size_in_bytes <= _AT_MOST:
        raise Unsupported(f"a deletion vector of {location.uri} has {vector.size_in_bytes:,} bytes; at most {_AT_MOST:,}")
    key = vector_key(vector, location)
    if key is None:
        return _exactly(z85(vector.path_or_inline_dv)[: vector.size_in_bytes], vector.size_in_bytes)
    start = max(vector.offset or 0, 0)
    try:
        data = store.get_range(key, start, vector.size_in_bytes + 8)
    except Missing:
        raise Corrupt(f"vector-gone: the deletion vector {key} is named by the log and missing") from None
    return _checked(key, data, vector.size_in_bytes)


def _checked(key: str, data: bytes, size: int) -> bytes:
    if len(data) != size + 8 or int.from_bytes(data[:4], "big") != size:
        raise Corrupt(f"vector-short: the deletion vector {key} is cut off, or does not have its {size} bytes")
    bitmap = data[4:-4]
    if zlib.crc32(bitmap) != int.from_bytes(data[-4:], "big"):
        raise Corrupt(f"vector-short: the deletion vector {key} is garbled: its checksum is another one")
    return bitmap


def z85(text: str) -> bytes:
    """Decodes ZeroMQ's base 85 (rfc.zeromq.org/spec/32), and what delta-rs's library makes of bytes that fill no whole group: as
    many `#` before the last one as bytes are missing. No other group begins with that digit, which would go beyond 32 bits.

    Raises:
        Corrupt: the text is not base 85.
    """
    try:
        return b"".join(_bytes(text[start : start + 5]) for start in range(0, len(text), 5))
    except (KeyError, OverflowError) as error:
        raise Corrupt(f"a deletion vector is named {text[:100]!r}, which is not in base 85") from error


def _bytes(group: str) -> bytes:
    digits = group.ljust(5, " ").lstrip("#")
    number = 0
    for digit in digits:
        number = number * 85 + _VALUES[digit]
    return number.to_bytes(max(len(digits) - 1, 0), "big")


def _exactly(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise Corrupt(f"vector-short: a deletion vector in the log has {len(data)} bytes instead of {size}")
    return data


def _fill(mask: Mask, data: bytes) -> int:
    """Marks the rows of a 64-bit bitmap, and returns how many there are."""
    try:
        magic, buckets = struct.unpack_from("<IQ", data)
        if magic != _MAGIC:
            raise Unsupported(f"a deletion vector has the format {magic}; only {_MAGIC} is read")
        place, found = 12, 0
        for _ in range(buckets):
            (high,) = struct.unpack_from("<i", data, place)
            if high < 0:
                raise ValueError(f"the bucket {high}")
            place, count = _fill_bucket(mask, data, place + 4, high << 32)
            found += count
    except (struct.error, ValueError, IndexError) as error:
        raise Corrupt(f"vector-short: a deletion vector is cut off or garbled: {error}") from error
    return found


def _fill_bucket(mask: Mask, data: bytes, place: int, base: int) -> tuple[int, int]:
    """The same of the 32-bit bitmap at that place; returns where it ends, and how many rows it has."""
    keys, counts, runs, place = _header(data, place)
    found = 0
    for key, count, has_runs in zip(keys, counts, runs, strict=True):
        start = base + (key << 16)
        if has_runs:
            (number,) = struct.unpack_from("<H", data, place)
            pairs = np.frombuffer(data, "<u2", number * 2, place + 2).reshape(-1, 2).astype(np.int64)
            place += 2 + number * 4
            found += sum(_mark_run(mask, start + first, length + 1) for first, length in pairs.tolist())
        elif count <= _ARRAY_AT_MOST:
            found += _mark(mask, np.frombuffer(data, "<u2", count, place).astype(np.int64) + start)
            place += count * 2
        else:
            bits = np.unpackbits(np.frombuffer(data, np.uint8, _BITS, place), bitorder="little")
            found += _mark(mask, np.flatnonzero(bits) + start)
            place += _BITS
    return place, found


def _header(data: bytes, place: int) -> tuple[list[int], list[int], Iterator[bool], int]:
    """The keys of its containers, their numbers of values, which of them are runs, and where the first of them begins."""
    (cookie,) = struct.unpack_from("<I", data, place)
    place += 4
    if cookie == _WITHOUT_RUNS:
        (size,) = struct.unpack_from("<I", data, place)
        place, flags = place + 4, np.zeros(0, np.uint8)
    elif cookie & 0xFFFF == _WITH_RUNS:
        size = (cookie >> 16) + 1
        flags = np.unpackbits(np.frombuffer(data, np.uint8, (size + 7) // 8, place), bitorder="little")
        place += (size + 7) // 8
    else:
        raise ValueError(f"cookie {cookie}")
    heads = np.frombuffer(data, "<u2", size * 2, place).reshape(-1, 2).astype(np.int64)
    place += size * 4
    if not len(flags) or size >= _OFFSETS_FROM:
        place += size * 4
    runs = iter(flags[:size].astype(bool).tolist() if len(flags) else [False] * size)
    return heads[:, 0].tolist(), (heads[:, 1] + 1).tolist(), runs, place


def _mark(mask: Mask, rows: npt.NDArray[np.int64]) -> int:
    if len(rows) and int(rows[-1]) >= len(mask):
        raise ValueError(f"row {int(rows[-1])} of a file of {len(mask)}")
    mask[rows] = True
    return len(rows)


def _mark_run(mask: Mask, first: int, count: int) -> int:
    if first + count > len(mask):
        raise ValueError(f"row {first + count - 1} of a file of {len(mask)}")
    mask[first : first + count] = True
    return count
