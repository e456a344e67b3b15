"""The worker process: `python -m lakewarden.ingest.templates.child MEMORY_BYTES SOCKET`.

It reads one object after the other by templates, and has no warehouse and no store: bytes come over its socket, rows go into the
file whose descriptor it is given. It ends when the socket's other side does.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet  # loaded before memory is bounded, and once

from lakewarden.base import frames
from lakewarden.base.worker_child import ProcessMemory, end_with
from lakewarden.errors import LakewardenError, Unsupported
from lakewarden.ingest.templates import messages
from lakewarden.ingest.templates.fitting import ObjectFitting
from lakewarden.ingest.templates.messages import RangeRequest, ReadBounds, ReadOutcome, Task
from lakewarden.ingest.templates.object_file import ObjectFile
from lakewarden.ingest.templates.options import parse_options, template_named
from lakewarden.ingest.templates.template import Template

# The rows of one object, in a file: an Arrow stream of small batches, written by a worker and mapped by its caller.
BATCH_BYTES = 8 << 20
"""Of one batch, or of one row where that is larger."""


class Output:
    """Writes batches of one schema."""

    def __init__(self, file: io.IOBase, bounds: ReadBounds) -> None:
        self._file = pa.PythonFile(file, "w")
        self._bounds = bounds
        self._stream: pa.ipc.RecordBatchStreamWriter | None = None
        self.rows = 0
        self.bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._stream is not None and error is None:
            self._stream.close()
        self._file.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Raises:
        Unsupported: the object has more rows, bytes or a longer value than it may have.
        OSError: the file's bound, which the kernel holds, or a full disk.
        """
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        self._check(batch)
        if self._stream is None:
            self._stream = pa.ipc.new_stream(self._file, batch.schema)
        for part in _parts(batch):
            self._stream.write_batch(part)

    def _check(self, batch: pa.RecordBatch) -> None:
        if self.rows > self._bounds.rows:
            raise Unsupported(f"the object has more than the {self._bounds.rows:,} rows that are allowed")
        if self.bytes > self._bounds.output_bytes:
            raise Unsupported(f"the object's rows take more than the {self._bounds.output_bytes:,} bytes that are allowed")
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            if (longest := _longest(values)) > self._bounds.value_bytes:
                raise Unsupported(
                    f"column {name!r} has a value of {longest:,} bytes, and {self._bounds.value_bytes:,} are allowed"
                )


def _longest(values: pa.Array[Any]) -> int:
    if not isinstance(values, pa.StringArray | pa.BinaryArray):
        return 0
    return pc.max(pc.binary_length(values)).as_py() or 0


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = max(batch.num_rows * BATCH_BYTES // max(batch.nbytes, 1), 1)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


_SHOWN = 1000
"""Characters of a reason."""

_named = lru_cache(template_named)


def main(arguments: list[str]) -> None:
    memory_bytes, handle = map(int, arguments)
    connection = socket.socket(fileno=handle)
    end_with(connection)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    memory = ProcessMemory.bounded(memory_bytes)
    gc.freeze()
    frames.send(connection, b"", last=True)
    while True:
        _serve(connection, memory)


def _serve(connection: socket.socket, memory: ProcessMemory) -> None:
    frame = frames.receive(connection, messages.MOST_BYTES)
    task = messages.unpacked(frame.payload, Task)
    assert frame.handle is not None, "a task comes with its file"
    with open(frame.handle, "wb", buffering=0) as file, _timer(task):  # noqa: PTH123  # a descriptor, not a path
        outcome = _outcome(task, connection, file)
    if memory.grown():
        gc.collect()
        pa.default_memory_pool().release_unused()
        outcome = replace(outcome, grown=memory.grown())
    frames.send(connection, messages.packed(outcome), last=True)


def _outcome(task: Task, connection: socket.socket, file: io.IOBase) -> ReadOutcome:
    try:
        template = _named(task.template)
        options = parse_options(template, task.options)
    except LakewardenError as error:
        return ReadOutcome(misused=type(error).__name__, reason=_text(error.message))
    try:
        return _rows(template, options, task, connection, file)
    except LakewardenError as error:
        return ReadOutcome(code=error.code, reason=_text(error.message))
    except MemoryError:
        return ReadOutcome(code=Unsupported.code, reason=_text(_memory_over(task)))
    except OSError as error:
        if error.errno != errno.EFBIG:
            return ReadOutcome(code=Unsupported.code, reason=_text(f"the template failed: {error!r}"))
        return ReadOutcome(code=Unsupported.code, reason=_text(f"the rows take more than {task.bounds.output_bytes:,} bytes"))
    except Exception as error:  # noqa: BLE001  # a template is anyone's code, and the object anyone's bytes
        return ReadOutcome(code="INVALID_ARGUMENT", reason=_text(f"the template {task.template!r} failed: {error!r}"))


def _rows(template: Template[Any], options: object, task: Task, connection: socket.socket, file: io.IOBase) -> ReadOutcome:
    columns = messages.columns_of(task.columns)
    fitting = ObjectFitting(columns)
    source = ObjectFile(
        frames.decoded(task.key),
        task.size,
        lambda start, length: _fetched(connection, start, length),
        value_bytes=task.bounds.value_bytes,
        unpacked_bytes=task.bounds.unpacked_bytes,
        columns=task.bounds.columns,
    )
    with Output(file, task.bounds) as output:
        for batch in template.read(source, options, columns):
            source.check_columns(batch.num_columns)
            if batch.num_rows:
                output.add(fitting(batch))
    return ReadOutcome(output.rows, output.bytes, messages.typed(fitting.columns))


def _fetched(connection: socket.socket, start: int, length: int) -> bytes:
    try:
        frames.send(connection, messages.packed(RangeRequest(start, length)), last=False)
        return frames.receive(connection, length).payload.to_pybytes()
    except (EOFError, ConnectionError):
        os._exit(0)  # the other side is gone; a template would take it for its object's end


def _memory_over(task: Task) -> str:
    return f"reading the object takes more than the {task.bounds.memory_bytes:,} bytes of memory that are allowed"


@contextmanager
def _timer(task: Task) -> Iterator[None]:
    """Has the kernel end this process after so much processor time, and refuse to write more than so much."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * task.bounds.output_bytes, hard))
    signal.setitimer(signal.ITIMER_PROF, task.bounds.cpu(task.size))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _text(reason: str) -> bytes:
    """One line without control characters."""
    shown = "".join(each if each.isprintable() else " " for each in reason[: 2 * _SHOWN])
    return frames.encoded(shown if len(reason) <= _SHOWN else f"{shown[:_SHOWN]}…")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (EOFError, ConnectionError):
        os._exit(0)  # the other side is gone; what runs here has no effects
