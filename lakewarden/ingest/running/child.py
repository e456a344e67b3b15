"""The worker process: `python -m lakewarden.ingest.running.child MEMORY_BYTES SOCKET`.

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
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet  # loaded before memory is bounded, and once

from lakewarden.base.workers import frames
from lakewarden.base.workers.child import ProcessMemory, end_with
from lakewarden.errors import LakewardenError, Unsupported
from lakewarden.ingest.running import messages
from lakewarden.ingest.running.messages import RangeRequest, ReadOutcome, Task
from lakewarden.ingest.running.output import Output
from lakewarden.ingest.templates.fitting import ObjectFitting
from lakewarden.ingest.templates.object_file import ObjectFile
from lakewarden.ingest.templates.options import parse_options
from lakewarden.ingest.templates.registry import template_named
from lakewarden.ingest.templates.template import Template

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
