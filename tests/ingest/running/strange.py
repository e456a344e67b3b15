"""Templates of another package, which a test installs beside Lakewarden: each misbehaves in its own way."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from lakewarden.ingest.templates.object_file import ObjectFile
from lakewarden.ingest.templates.template import Columns, NoOptions, Template

Batches = Iterator[pa.RecordBatch]

_held: list[bytes] = []


def _memory(_source: ObjectFile) -> Batches:
    _held.append(bytes(1 << 40))
    yield _rows(1)


def _small_memory(_source: ObjectFile) -> Batches:
    while True:
        _held.append(bytes(1 << 20))
        yield from ()


def _keeps(_source: ObjectFile) -> Batches:
    _held.append(b"x" * (120 << 20))
    yield _rows(1)


def _spin(_source: ObjectFile) -> Batches:
    while True:
        yield from ()


def _sleep(_source: ObjectFile) -> Batches:
    time.sleep(1e6)
    yield _rows(1)


def _crash(_source: ObjectFile) -> Batches:
    os.kill(os.getpid(), signal.SIGSEGV)
    yield _rows(1)


def _exit(_source: ObjectFile) -> Batches:
    yield _rows(1)
    sys.exit("enough")


def _raise(_source: ObjectFile) -> Batches:
    yield _rows(1)
    raise ZeroDivisionError("a\nb\x1b[31m" + "c" * 5000)


def _endless(_source: ObjectFile) -> Batches:
    while True:
        yield _rows(1000)


def _again(source: ObjectFile) -> Batches:
    while True:
        source._block = b""
        source.read(0, 1)
        yield from ()


def _changes(_source: ObjectFile) -> Batches:
    yield _rows(1)
    yield pa.record_batch({"n": ["a"]})


def _broken_text(_source: ObjectFile) -> Batches:
    yield pa.record_batch({"v": pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))})


def _long(_source: ObjectFile) -> Batches:
    yield pa.record_batch({"v": ["x" * 5000]})


def _columns(_source: ObjectFile) -> Batches:
    yield pa.record_batch({str(number): [number] for number in range(101)})


def _environment(_source: ObjectFile) -> Batches:
    yield pa.record_batch({"v": [f"{name}={value}" for name, value in os.environ.items()]})


def _nothing(_source: ObjectFile) -> Batches:
    yield _rows(0)


def _rows(count: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(count), pa.int64())})


_ALL: tuple[Callable[[ObjectFile], Batches], ...] = (
    _memory,
    _small_memory,
    _keeps,
    _spin,
    _sleep,
    _crash,
    _exit,
    _raise,
    _endless,
    _again,
    _changes,
    _broken_text,
    _long,
    _columns,
    _environment,
    _nothing,
)
_BY_NAME = {each.__name__.strip("_").replace("_", " "): each for each in _ALL}


def _read(source: ObjectFile, _options: NoOptions, _table: Columns) -> Batches:
    """Does what the object says; its one row is the object where that says nothing known."""
    text = source.open().read().decode()
    if text in _BY_NAME:
        yield from _BY_NAME[text](source)
    else:
        yield pa.record_batch({"v": [text]})


STRANGE: Template[NoOptions] = Template("strange", ("do",), _read)
