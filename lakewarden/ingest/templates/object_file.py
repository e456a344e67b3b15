"""An object as a template sees it: its name, its size, and files over ranged reads. It is never in memory as a whole."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

import pyarrow as pa

from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.storage.objects import open_ranges

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Ranges = Callable[[int, int], bytes]
"""Reads `length` bytes from `start` on, all of them within the object."""

WHOLE_BYTES = 16 << 20
"""An object of at most this many bytes is fetched by one request."""

_BLOCK_BYTES = 4 << 20
"""Of one request of a larger one that is read in order: beside its transfer, a request's fixed cost is small."""

_LEAST_BYTES = 64 << 10
"""Of one request of a larger one that is read here and there."""

VALUE_BYTES = 16 << 20
UNPACKED_BYTES = 64 << 30
COLUMNS = 1000

_PACKED: dict[bytes, Literal["gzip", "zstd"]] = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}
"""How compressed bytes begin. No text in UTF-8 begins so."""


@dataclass
class ObjectFile:
    """An object. Its files may be read by one thread at a time."""

    key: str
    size: int
    """In bytes."""
    ranges: Ranges
    value_bytes: int = VALUE_BYTES
    """The most bytes of one value, and of one record of text."""
    unpacked_bytes: int = UNPACKED_BYTES
    """The most bytes of the object when it is unpacked."""
    columns: int = COLUMNS
    _start: int = field(default=0, init=False)
    _block: bytes = field(default=b"", init=False)

    def open(self) -> BinaryIO:
        """A file over the object's bytes, at their beginning."""
        return open_ranges(self.size, self.read, 1 << 16)

    def unpacked(self) -> BinaryIO:
        """The same, unpacked if the bytes are those of gzip or zstd, whatever the name is; then it cannot seek.

        A read raises InvalidArgument where the packed bytes are broken, and Unsupported where they unpack to too much.
        """
        file = self.open()
        kind = _PACKED.get(file.read(2))
        file.seek(0)
        return file if kind is None else cast("BinaryIO", io.BufferedReader(_Unpacked(file, kind, self.unpacked_bytes), 1 << 16))

    def read(self, start: int, length: int) -> bytes:
        """Bytes from `start` on, at least one and at most `length`; none at the object's end."""
        if not 0 <= start < self.size:
            return b""
        within = start - self._start
        if not 0 <= within < len(self._block):
            self._fetch(start, length)
            within = start - self._start
        return self._block[within : within + length]

    def _fetch(self, start: int, length: int) -> None:
        """Takes a block that holds the byte at `start`."""
        if self.size <= WHOLE_BYTES:
            start, length = 0, self.size
        elif start == self._start + len(self._block):
            length = max(length, _BLOCK_BYTES)
        else:
            length = max(length, _LEAST_BYTES)
        self._start, self._block = start, b""  # the one before goes first
        self._block = self.ranges(start, min(length, self.size - start))

    def check_columns(self, count: int) -> None:
        """Raises Unsupported: these are more columns than the object may have."""
        if count > self.columns:
            raise Unsupported(f"the object has {count:,} columns, and {self.columns:,} are allowed")


class _Unpacked(io.RawIOBase):
    """Unpacks a file, up to this many bytes."""

    def __init__(self, file: BinaryIO, kind: Literal["gzip", "zstd"], most: int) -> None:
        self._kind = kind
        self._most = self._left = most
        self._stream = pa.CompressedInputStream(cast("io.IOBase", file), kind)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        target = memoryview(buffer).cast("B")
        try:
            data = self._stream.read(len(target))
        except (OSError, pa.ArrowException) as error:
            raise InvalidArgument(f"not a whole {self._kind} file: {str(error).splitlines()[0]}") from error
        self._left -= len(data)
        if self._left < 0:
            raise Unsupported(f"the object unpacks to more than the {self._most:,} bytes that are allowed")
        target[: len(data)] = data
        return len(data)
