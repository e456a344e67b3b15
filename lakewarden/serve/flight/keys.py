"""Writes under the header `idempotency-key`, as HTTP has it: one that is sent again is answered, and not done again."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

import msgspec
import pyarrow as pa

from lakewarden.base.scope import TableName
from lakewarden.serve.flight.calls import FlightCall
from lakewarden.serve.flight.streams import stream_bytes
from lakewarden.serve.idempotency import KeyedRequest, StoredAnswer, Writes

_COLUMNS: Mapping[str, pa.DataType] = {"rows_affected": pa.int64(), "message": pa.string()}
WRITTEN = pa.schema(_COLUMNS)
"""Of the answer of a statement that has no rows: one of the two, the other is NULL."""


def once(
    writes: Writes,
    call: FlightCall,
    asked: msgspec.Struct,
    write: Callable[[], pa.Table],
    places: Callable[[], Sequence[TableName | None]],
    rows: pa.Table | None = None,
) -> pa.Table:
    """The answer of a write. That of a query behind it has no rows the second time: columns' values are not kept.

    Args:
        places: as in `idempotency.Request`.
        asked: what is to be done, with `rows`: another request under the same key is refused.

    Raises:
        InvalidArgument, Conflict: as `Writes.once`.
    """
    if call.key is None:
        return write()

    def done() -> StoredAnswer:
        answer = write()
        kept = answer if answer.schema == WRITTEN else answer.slice(0, 0)
        return StoredAnswer(_text(answer), _text(kept))

    parts = (b"flight", call.namespace or "", asked, b"" if rows is None else _digest(rows))
    request = KeyedRequest(msgspec.msgpack.encode(parts), places, lambda outcome: _text(written(rows=outcome.rows)))
    found = writes.once(call.principal.user, call.key, request, done)
    return pa.ipc.open_stream(base64.b64decode(found)).read_all()


def written(*, rows: int | None = None, message: str | None = None) -> pa.Table:
    return pa.Table.from_pylist([{"rows_affected": rows, "message": message}], WRITTEN)


def rows_of(answer: pa.Table) -> int:
    found = answer["rows_affected"][0].as_py()
    assert isinstance(found, int), "the answer of a statement that changes rows"
    return found


def _text(table: pa.Table) -> bytes:
    return base64.b64encode(stream_bytes(table))


class _Hashed:
    """A file that keeps a digest alone."""

    closed = False

    def __init__(self) -> None:
        self.made = sha256()

    def write(self, data: bytes) -> int:
        self.made.update(data)
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""


def _digest(rows: pa.Table) -> bytes:
    sink = _Hashed()
    with pa.ipc.new_stream(sink, rows.schema) as writer:  # type: ignore[arg-type]  # any object with `write` does
        writer.write_table(rows)
    return sink.made.digest()
