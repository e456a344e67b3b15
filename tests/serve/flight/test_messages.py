"""The generated classes, beside the text that they are made of, and another implementation of the protocol."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight as arrow_flight

from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.serve.flight import messages_pb2
from lakewarden.serve.flight.messages import command_of, decoded, packed
from lakewarden.serve.flight.messages_pb2 import (
    CommandGetTables,
    CommandStatementQuery,
    FlightDescriptor,
    FlightEndpoint,
    FlightInfo,
    Ticket,
)

_PROTO = Path(messages_pb2.__file__).with_name("messages.proto")
_LINE = re.compile(r"^ *(?:(?P<label>optional|repeated) )?(?P<type>[\w.]+) (?P<name>\w+) = (?P<number>\d+);$", re.MULTILINE)


def test_the_classes_are_those_of_the_text() -> None:
    written = {(found["name"], int(found["number"])) for found in _LINE.finditer(_PROTO.read_text())}
    messages = [*messages_pb2.DESCRIPTOR.message_types_by_name.values()]
    messages += [inner for one in messages for inner in one.nested_types]
    assert {(field.name, field.number) for one in messages for field in one.fields} == written
    assert {one.name for one in messages} == set(re.findall(r"message (\w+)", _PROTO.read_text()))


def test_arrow_reads_what_is_written_and_writes_what_is_read() -> None:
    descriptor = FlightDescriptor(type="CMD", cmd=b"\x00\xff")
    assert descriptor.SerializeToString() == arrow_flight.FlightDescriptor.for_command(b"\x00\xff").serialize()
    ticket = decoded(Ticket, arrow_flight.Ticket(b"t").serialize())
    assert ticket.ticket == b"t"
    schema = pa.schema([("id", pa.int64())]).serialize().to_pybytes()
    info = FlightInfo(
        schema=schema, flight_descriptor=descriptor, endpoint=[FlightEndpoint(ticket=ticket)], total_records=-1, total_bytes=-1
    )
    read = arrow_flight.FlightInfo.deserialize(info.SerializeToString())
    assert (read.total_records, read.total_bytes, read.endpoints[0].ticket.ticket) == (-1, -1, b"t")
    assert decoded(FlightInfo, read.serialize()).schema


def test_a_command_has_its_name_in_the_protocol_around_it() -> None:
    data = packed(CommandGetTables(catalog="", table_types=["TABLE"]))
    assert b"type.googleapis.com/arrow.flight.protocol.sql.CommandGetTables" in data
    found = command_of(data)
    assert isinstance(found, CommandGetTables)
    assert (found.HasField("catalog"), found.HasField("table_name_filter_pattern")) == (True, False)


@pytest.mark.parametrize(
    ("data", "error", "what"),
    [
        (b"\xff", InvalidArgument, "no Any"),
        (b"", InvalidArgument, "no command"),
        (packed(CommandStatementQuery(), "google.rpc."), InvalidArgument, "no command"),
        (packed(Ticket()), Unsupported, "Ticket is not supported"),
        (packed(CommandStatementQuery(query="?")).replace(b"?", b"\xff"), InvalidArgument, "no CommandStatementQuery"),
    ],
)
def test_bytes_that_are_no_command_are_refused(data: bytes, error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what):
        command_of(data)
