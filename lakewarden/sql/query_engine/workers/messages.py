"""The messages between a process and its workers for queries, and the rows of a request in shared memory."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from typing import Literal

import msgspec
import pyarrow as pa

from lakewarden.base.frames import Frame

_ALIGNED = 64
"""Arrow reads buffers in place where they begin at a multiple of this."""

REQUEST_BYTES = 1 << 28
"""The most bytes of a request without its rows: texts are bounded before they come here."""


@dataclass(frozen=True)
class PlacedRelation:
    """A relation, and where its Arrow stream is in the shared memory of a request."""

    name: str
    start: int
    size: int


EngineAct = Literal["check", "run", "explain"]
"""What a call of `QueryEngine` does with its text."""


@dataclass(frozen=True)
class EngineRequest:
    """A call of `QueryEngine`. `sql` is bytes because a text may hold half of a surrogate pair."""

    act: EngineAct
    sql: bytes
    seconds: float
    result_bytes: int
    relations: tuple[PlacedRelation, ...] = ()


@dataclass(frozen=True)
class End:
    """The last frame of an answer; those before it are the result's rows."""

    error: str = ""
    """The name of the error's class, if there is one."""
    message: bytes = b""
    types: tuple[str, ...] = ()
    plan: str = ""
    worn: bool = False
    """Whether the worker should be replaced: it keeps much memory, or may not take back its priority."""


def packed(message: EngineRequest | End) -> bytes:
    return msgspec.msgpack.encode(message)


def request_of(frame: Frame) -> EngineRequest:
    return msgspec.msgpack.decode(frame.payload, type=EngineRequest)


def end_of(frame: Frame) -> End:
    return msgspec.msgpack.decode(frame.payload, type=End)


@contextmanager
def shared(relations: Mapping[str, pa.Table]) -> Iterator[tuple[int | None, tuple[PlacedRelation, ...]]]:
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
                placed.append(PlacedRelation(name, start, sink.tell() - start))
                sink.write(bytes(-sink.tell() % _ALIGNED))
            yield file.fileno(), tuple(placed)


def mapped(handle: int, relations: tuple[PlacedRelation, ...]) -> dict[str, pa.Table]:
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


# The bounds of a worker for queries.
_RESERVE_BYTES = 128 << 20


@dataclass(frozen=True)
class QueryBounds:
    """The bounds of one worker."""

    memory_bytes: int
    threads: int


def overall(memory_bytes: int) -> int:
    """The bytes that a query may take in a worker whose DuckDB may use `memory_bytes`.

    DuckDB's own limit knows its buffers and hash tables, but not a function's strings and lists: there is half as much for these,
    and a fixed reserve.
    """
    return memory_bytes + memory_bytes // 2 + _RESERVE_BYTES
