"""The messages between a process and its workers: frames over a Unix socket, and the rows of a request in shared memory."""

from __future__ import annotations

import mmap
import os
import socket
import struct
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from typing import Literal

import msgspec
import pyarrow as pa

_HEADER = struct.Struct("<?Q")
"""Whether the frame is the last one of an answer, and the bytes that follow."""

_ALIGNED = 64
"""Arrow reads buffers in place where they begin at a multiple of this."""

REQUEST_BYTES = 1 << 28
"""The most bytes of a request without its rows: texts are bounded before they come here."""


@dataclass(frozen=True)
class Placed:
    """A relation, and where its Arrow stream is in the shared memory of a request."""

    name: str
    start: int
    size: int


@dataclass(frozen=True)
class Request:
    """A call of `QueryEngine`. `sql` is bytes because a text may hold half of a surrogate pair."""

    act: Literal["check", "run", "explain"]
    sql: bytes
    seconds: float
    result_bytes: int
    relations: tuple[Placed, ...] = ()


@dataclass(frozen=True)
class End:
    """The last frame of an answer; those before it are the result's rows."""

    error: str = ""
    """The name of the error's class, if there is one."""
    message: bytes = b""
    types: tuple[str, ...] = ()
    plan: str = ""
    grown: bool = False
    """Whether the worker keeps so much memory that it should be replaced."""


@dataclass(frozen=True)
class Frame:
    payload: pa.Buffer
    last: bool
    handle: int | None = None
    """The file descriptor of a request's rows."""


def encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def decoded(text: bytes) -> str:
    return text.decode(errors="surrogatepass")


def packed(message: Request | End) -> bytes:
    return msgspec.msgpack.encode(message)


def request_of(frame: Frame) -> Request:
    return msgspec.msgpack.decode(frame.payload, type=Request)


def end_of(frame: Frame) -> End:
    return msgspec.msgpack.decode(frame.payload, type=End)


def send(connection: socket.socket, payload: bytes | pa.Buffer, *, last: bool, handle: int | None = None) -> None:
    """Raises:
    OSError: the other side is gone, or the socket's time is over.
    """
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


@contextmanager
def shared(relations: Mapping[str, pa.Table]) -> Iterator[tuple[int | None, tuple[Placed, ...]]]:
    """Copies relations into shared memory; yields its file descriptor, which is closed afterwards, and their places."""
    if not relations:
        yield None, ()
        return
    with _anonymous() as file:
        placed = []
        with pa.PythonFile(file, "w") as sink:
            for name, rows in relations.items():
                start = sink.tell()
                with pa.ipc.new_stream(sink, rows.schema) as stream:
                    stream.write_table(rows)
                placed.append(Placed(name, start, sink.tell() - start))
                sink.write(bytes(-sink.tell() % _ALIGNED))
            yield file.fileno(), tuple(placed)


def mapped(handle: int, relations: tuple[Placed, ...]) -> dict[str, pa.Table]:
    """The relations of a request, read in place; closes the file descriptor."""
    try:
        whole = pa.py_buffer(mmap.mmap(handle, 0, prot=mmap.PROT_READ))
    finally:
        os.close(handle)
    return {each.name: pa.ipc.open_stream(whole.slice(each.start, each.size)).read_all() for each in relations}


def _anonymous() -> FileIO:
    """A file without a name: in memory on Linux."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("relations"), "wb", buffering=0)  # noqa: PTH123  # a descriptor, not a path
    return tempfile.TemporaryFile(buffering=0)
