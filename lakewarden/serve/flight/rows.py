"""Rows on their way: Arrow's streams as messages of Flight, parameters of statements, and bulk ingest.

What a client sends is anyone's bytes until it is read here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from decimal import Decimal
from io import BytesIO

import msgspec
import pyarrow as pa

from lakewarden.base.arrays import taken
from lakewarden.catalog.changes.engines import require_active
from lakewarden.client import Lakehouse
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.serve.authority import RequestDeclined
from lakewarden.serve.flight.calls import FlightCall
from lakewarden.serve.flight.messages_pb2 import CommandStatementIngest, FlightData
from lakewarden.sql.dialect import Value
from lakewarden.tables.client import WriteMode

_ALIGNED = 8
_DICTIONARY, _RECORD_BATCH = 2, 3
"""Kinds of messages in Arrow's Message.fbs."""
_COMPRESSION = 3
"""The place of a record batch's field there."""


def received(messages: Iterator[FlightData], most: int) -> pa.Table:
    """The rows of a stream; none without columns where it is empty.

    Raises:
        InvalidArgument: it is not a stream of Arrow, or its values are not what its columns say.
        Unsupported: its columns are of a kind, or packed in a way, in which few bytes become many.
        Declined: it has more bytes than `most`.
    """
    stream, size = BytesIO(), 0
    for message in messages:
        size += len(message.data_header) + len(message.data_body)
        if size > most:
            raise RequestDeclined(
                413, f"the rows have more than {most:,} bytes: send several smaller streams (serve.ingest_bytes)"
            )
        if message.data_header:
            _append(stream, message)
    if not size:
        return pa.table({})
    try:
        found = pa.ipc.open_stream(stream.getvalue()).read_all()
        found.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise InvalidArgument(f"the rows are no stream of Arrow: {error}") from error
    if odd := [field.name for field in found.schema if not _is_plain(field.type)]:
        raise Unsupported(f"columns of this kind are not taken: {', '.join(odd)}; send them as plain values")
    if found.num_rows > 8 * size:
        raise InvalidArgument(f"{found.num_rows:,} rows in {size:,} bytes have no values")
    return found


def values_of(rows: pa.Table) -> list[tuple[Value, ...]]:
    """The parameters of each time that a statement is to run: once, where there are none."""
    columns = [[_value(scalar) for chunk in column.chunks for scalar in chunk] for column in rows.columns]
    return list(zip(*columns, strict=True)) if columns else [()]


def _value(scalar: pa.Scalar[pa.DataType]) -> Value:
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_temporal(kind):
        return str(scalar.cast(pa.string()).as_py())
    value = scalar.as_py()
    if isinstance(value, (str, int, float, bool, Decimal, bytes)):
        return value
    raise Unsupported(f"a parameter is text, a number, a boolean, bytes, a time or NULL, and not of type {kind}")


def _append(stream: BytesIO, message: FlightData) -> None:
    """A message as a stream of Arrow has it."""
    if _is_packed(message.data_header):
        raise Unsupported("rows that are compressed or dictionaries are not taken: send plain ones")
    padding = bytes(-len(message.data_header) % _ALIGNED)
    stream.write(struct.pack("<iI", -1, len(message.data_header) + len(padding)))
    stream.writelines((message.data_header, padding, message.data_body, bytes(-len(message.data_body) % _ALIGNED)))


def _is_packed(header: bytes) -> bool:
    """Read off the message itself: Arrow's reader would unpack it first."""
    try:
        message = _u32(header, 0)
        kind_at, batch_at = _field(header, message, 1), _field(header, message, 2)
        if not kind_at or not batch_at:
            return False
        kind, batch = header[kind_at], batch_at + _u32(header, batch_at)
        return kind == _DICTIONARY or (kind == _RECORD_BATCH and _field(header, batch, _COMPRESSION) != 0)
    except (struct.error, IndexError) as error:
        raise InvalidArgument("the rows are no stream of Arrow: a message is cut off") from error


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a flatbuffers' table is; 0 if it has none."""
    (back,) = struct.unpack_from("<i", data, table)
    described = table - back
    (size,) = struct.unpack_from("<H", data, described)
    at = 4 + 2 * number
    if at >= size:
        return 0
    (offset,) = struct.unpack_from("<H", data, described + at)
    return table + int(offset) if offset else 0


def _u32(data: bytes, at: int) -> int:
    (found,) = struct.unpack_from("<I", data, at)
    return int(found)


def _is_plain(kind: pa.DataType) -> bool:
    """Whether a value takes about the bytes that it says."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = kind.value_type
        return pa.types.is_integer(inner) or pa.types.is_floating(inner)
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind) or any(is_(kind) for is_ in texts)


# Arrow's streams as messages of Flight, and back.
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


def _rows_of(table: pa.Table) -> int:
    each = table.nbytes / max(table.num_rows, 1)
    return max(1, min(_ROWS, int(_BATCH_BYTES / max(each, 1))))


def _messages(sink: BytesIO) -> Iterator[bytes]:
    """What was written since the last time. The body is appended by hand: protobuf would copy it three times more."""
    written = taken(sink)
    for message in pa.ipc.MessageReader.open_stream(written) if written else ():
        body = message.body or b""
        head = FlightData(data_header=message.metadata.to_pybytes()).SerializeToString()
        yield b"".join((head, _BODY, _varint(len(body)), body)) if len(body) else head


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


# Bulk ingest: rows of Arrow into a table, all of them or none, by the rules of INSERT.
_Options = CommandStatementIngest.TableDefinitionOptions


class BulkIngest(msgspec.Struct, frozen=True, tag=True):
    """What tells one bulk ingest from another, beside its rows."""

    namespace: str
    table: str


def ingested(lake: Lakehouse, call: FlightCall, command: CommandStatementIngest, rows: pa.Table) -> int:
    """How many rows were written.

    Raises:
        Unsupported: it would create, replace or want a new table: tables are created by SQL.
        LakewardenError: as INSERT. Nothing was written.
    """
    options = command.table_definition_options
    creates = options.if_not_exist == _Options.TABLE_NOT_EXIST_OPTION_CREATE
    replaces = options.if_exists in (_Options.TABLE_EXISTS_OPTION_FAIL, _Options.TABLE_EXISTS_OPTION_REPLACE)
    if creates or replaces or command.temporary:
        raise Unsupported("bulk ingest appends to a table that exists (mode 'append'): create one by CREATE TABLE")
    if command.catalog:
        raise InvalidArgument(f"there is no catalog {command.catalog!r}: a table's name is its namespace and its own")
    namespace = command.schema or call.namespace
    if not namespace:
        raise InvalidArgument(f"{command.table} has no namespace: give it as the schema")
    table = lake.sessions.served(call.principal).table(f"{namespace}.{command.table}")
    require_active(lake.warehouse.catalog.read(), table.client.table.name.namespace)
    mode: WriteMode = "upsert" if table.client.table.options.on_duplicate == "replace" else "insert"
    return table.write(rows, mode=mode).rows
