"""The worker process: `python -m lakewarden.sql.query_engine.workers.child MEMORY_BYTES THREADS SOCKET`.

It imports DuckDB and Arrow, runs one request at a time on an `InProcess` engine, and has no warehouse: rows come and go over its
socket. It ends when the socket's other side does.
"""

from __future__ import annotations

import gc
import os
import socket
import sys

import pyarrow as pa

from lakewarden.base import frames
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.base.worker_child import LONGEST, Priority, ProcessMemory, alarm, end_with
from lakewarden.errors import LakewardenError, Unsupported
from lakewarden.sql.query_engine.engine import Limits
from lakewarden.sql.query_engine.failures import too_large
from lakewarden.sql.query_engine.in_process import InProcess, within
from lakewarden.sql.query_engine.workers import messages
from lakewarden.sql.query_engine.workers.messages import End, EngineRequest, overall

GRACE = 1.0
"""Seconds after a query's limit in which DuckDB heeds an interrupt; then the kernel ends the process."""

_WARM = "SELECT count(*), max(v) FROM t"


class BatchSender:
    """Sends a result's batches, each as an Arrow stream of its own."""

    def __init__(self, connection: socket.socket, limits: Limits) -> None:
        self._connection = connection
        self._limits = limits
        self._sent = False

    def send(self, reader: pa.RecordBatchReader) -> None:
        """Sends one stream at least, for the schema."""
        if self._sent:
            raise Unsupported("DuckDB ended this query and cannot run it again: some of its rows were sent; try again")
        for batch in within(reader, self._limits):
            self._send(reader.schema, [batch])
        if not self._sent:
            self._send(reader.schema, [])

    def _send(self, schema: pa.Schema, batches: list[pa.RecordBatch]) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
        self._sent = True
        frames.send(self._connection, sink.getvalue(), last=False)


def main(arguments: list[str]) -> None:
    memory_bytes, threads, handle = map(int, arguments)
    connection = socket.socket(fileno=handle)
    end_with(connection)
    engine = InProcess.of(SqlSettings(memory_bytes=memory_bytes, threads=threads))
    engine.run(_WARM, {"t": pa.table({"v": ["loads what every query needs"]})}, Limits(LONGEST, 1 << 20))
    memory, priority = ProcessMemory.bounded(overall(memory_bytes)), Priority()
    gc.freeze()
    frames.send(connection, messages.packed(End()), last=True)
    while True:
        _serve(connection, engine, memory, priority)


def _serve(connection: socket.socket, engine: InProcess, memory: ProcessMemory, priority: Priority) -> None:
    frame = frames.receive(connection, messages.REQUEST_BYTES)
    request = messages.request_of(frame)
    with alarm(request.seconds + GRACE), priority.of_a_call():
        try:
            end = _answered(connection, engine, request, frame.handle)
        except LakewardenError as error:
            end = End(error=type(error).__name__, message=frames.encoded(error.message))
        except MemoryError:
            refused = too_large(memory.allowed)
            end = End(error=type(refused).__name__, message=frames.encoded(refused.message))
    worn = memory.grown() or priority.back
    frames.send(connection, messages.packed(End(end.error, end.message, end.types, end.plan, worn)), last=True)


def _answered(connection: socket.socket, engine: InProcess, request: EngineRequest, handle: int | None) -> End:
    relations = {} if handle is None else messages.mapped(handle, request.relations)
    limits = Limits(request.seconds, request.result_bytes)
    sql = frames.decoded(request.sql)
    match request.act:
        case "check":
            engine.check(sql, limits)
            return End()
        case "explain":
            return End(plan=engine.explain(sql, relations, limits))
        case "run":
            return End(types=engine.read(sql, relations, limits, BatchSender(connection, limits).send)[1])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (EOFError, ConnectionError):
        os._exit(0)  # the other side is gone; what runs here has no effects
