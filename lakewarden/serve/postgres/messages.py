"""Reads what a client sends: startup packets, and messages of a letter, a length and fields."""

from __future__ import annotations

import struct
from asyncio import StreamReader
from dataclasses import dataclass

STARTUP_BYTES = 10_000
"""The most that a packet before authentication may have, as of PostgreSQL's own server."""

_INT16, _INT32 = struct.Struct("!h"), struct.Struct("!i")
_LEAST_STARTUP = 8


class MalformedMessage(Exception):
    """What was sent is not of the protocol, or beyond a bound: the connection cannot go on."""


@dataclass
class Fields:
    """The fields of one message, read in order. Every method raises Malformed where they end too early."""

    data: bytes
    at: int = 0

    @property
    def over(self) -> bool:
        return self.at >= len(self.data)

    def take(self, size: int) -> bytes:
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise MalformedMessage("a message ends in the middle of a field")
        found, self.at = self.data[self.at : end], end
        return found

    def int16(self) -> int:
        return int(_INT16.unpack(self.take(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self.take(4))[0])

    def count(self) -> int:
        """A number of fields that follow."""
        return int.from_bytes(self.take(2))

    def text(self) -> str:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise MalformedMessage("a text is not ended by a zero byte")
        found = as_text(self.data[self.at : end])
        self.at = end + 1
        return found

    def value(self) -> bytes | None:
        """A value with its length before it; None for NULL."""
        size = self.int32()
        return None if size == -1 else self.take(size)


def as_text(data: bytes) -> str:
    """Raises Malformed: it is not UTF-8, the one encoding here."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"a text is not UTF-8 at byte {error.start}") from error


async def startup_packet(reader: StreamReader) -> Fields:
    """Raises:
    Malformed: its length is not possible.
    IncompleteReadError: the client is gone.
    """
    size = int(_INT32.unpack(await reader.readexactly(4))[0])
    if not _LEAST_STARTUP <= size <= STARTUP_BYTES:
        raise MalformedMessage(f"a startup packet has {_LEAST_STARTUP} to {STARTUP_BYTES:,} bytes, not {size}")
    return Fields(await reader.readexactly(size - 4))


async def message(reader: StreamReader, most: int) -> tuple[bytes, Fields]:
    """The next message: its letter, and its fields.

    Raises:
        Malformed: its length is not possible, or above `most` bytes.
        IncompleteReadError: the client is gone.
    """
    head = await reader.readexactly(5)
    size = int(_INT32.unpack(head[1:])[0]) - 4
    if not 0 <= size <= most:
        raise MalformedMessage(f"a message has up to {most:,} bytes here (serve.body_bytes), not {size:,}")
    return head[:1], Fields(await reader.readexactly(size))
