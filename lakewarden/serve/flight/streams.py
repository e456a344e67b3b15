"""Arrow's streams as messages of Flight, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO

import pyarrow as pa

from lakewarden.serve.flight.messages import FlightData
from lakewarden.serve.flight.wire import encoded

_ROWS = 65_536
_BATCH_BYTES = 2 << 20
"""Of a message: clients take 4 MiB at least."""
_BODY = b"\xc2\x3e"
"""What begins the field 1000, `data_body`."""


def sent(schema: pa.Schema, tables: Iterable[pa.Table]) -> Iterator[bytes]:
    """A stream, in messages of a few megabytes at most, unless one row has more."""
    sink = BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        for table in tables:
            for batch in table.to_batches(max_chunksize=_rows_of(table)):
                writer.write_batch(batch)
                yield from _messages(sink)
    yield from _messages(sink)


def stream_bytes(table: pa.Table) -> bytes:
    """A table as a stream of Arrow by itself."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _rows_of(table: pa.Table) -> int:
    each = table.nbytes / max(table.num_rows, 1)
    return max(1, min(_ROWS, int(_BATCH_BYTES / max(each, 1))))


def _messages(sink: BytesIO) -> Iterator[bytes]:
    """What was written since the last time. The body is appended by hand: protobuf would copy it three times more."""
    written = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    for message in pa.ipc.MessageReader.open_stream(written) if written else ():
        body = message.body or b""
        head = encoded(FlightData(data_header=message.metadata.to_pybytes()))
        yield b"".join((head, _BODY, _varint(len(body)), body)) if len(body) else head


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)
