"""Frames over the Unix socket between a process and its worker."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

import pyarrow as pa

_HEADER = struct.Struct("<?Q")
"""Whether the frame is the last one of an answer, and the bytes that follow."""


@dataclass(frozen=True)
class Frame:
    payload: pa.Buffer
    last: bool
    handle: int | None = None
    """A file descriptor that came with it."""


def encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def decoded(text: bytes) -> str:
    return text.decode(errors="surrogatepass")


def send(connection: socket.socket, payload: bytes | pa.Buffer, *, last: bool, handle: int | None = None) -> None:
    """Raises OSError: the other side is gone, or the socket's time is over."""
    header = _HEADER.pack(last, len(payload))
    if handle is None:
        connection.sendall(header)
    else:
        socket.send_fds(connection, [header], [handle])
    connection.sendall(payload)


def receive(connection: socket.socket, most: int) -> Frame:
    """Raises:
    EOFError: the other side closed the connection, or wants to send more bytes than `most`.
    OSError: the socket's time is over, or it is broken.
    """
    header, handles, _, _ = socket.recv_fds(connection, _HEADER.size, 1)
    while header and len(header) < _HEADER.size:
        more = connection.recv(_HEADER.size - len(header))
        header = header + more if more else b""
    if not header:
        raise EOFError("the other side closed the connection")
    last, size = _HEADER.unpack(header)
    if size > most:
        raise EOFError(f"a frame of {size:,} bytes, where {most:,} are allowed")
    payload = pa.allocate_buffer(size)
    left = memoryview(payload).cast("B")
    while left:
        got = connection.recv_into(left)
        if not got:
            raise EOFError("the other side closed the connection")
        left = left[got:]
    return Frame(payload, last, handles[0] if handles else None)
