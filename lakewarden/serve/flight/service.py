"""The calls of Flight, for one open warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import grpc

from lakewarden.errors import Unsupported
from lakewarden.serve.common import Common
from lakewarden.serve.flight.calls import Call, admitted, connected, observed
from lakewarden.serve.flight.messages import (
    CommandStatementQuery,
    CommandStatementUpdate,
    DoPutUpdateResult,
    FlightData,
    FlightDescriptor,
    FlightEndpoint,
    FlightInfo,
    PutResult,
    Ticket,
    command_of,
)
from lakewarden.serve.flight.statements import Statements, Stream, answered
from lakewarden.serve.flight.streams import sent
from lakewarden.serve.flight.tickets import Answer, Listing, Statement, Tickets
from lakewarden.serve.flight.wire import decoded, encoded
from lakewarden.serve.keys import Keys

_SERVICE = "arrow.flight.protocol.FlightService"
_NO_TRANSACTION = "a transaction is not supported: every statement is one of its own"


@dataclass(frozen=True)
class FlightSql:
    """Each method is one of the protocol's; requests and answers are the bytes of its messages."""

    common: Common
    tickets: Tickets
    statements: Statements

    @classmethod
    def of(cls, common: Common) -> FlightSql:
        warehouse = common.lake.warehouse
        tickets = Tickets(Keys(warehouse.state), warehouse.id, warehouse.clock)
        return cls(common, tickets, Statements(common.lake, tickets))

    def handler(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            _SERVICE,
            {
                "Handshake": grpc.stream_stream_rpc_method_handler(self.handshake),
                "GetFlightInfo": grpc.unary_unary_rpc_method_handler(self.get_flight_info),
                "DoGet": grpc.unary_stream_rpc_method_handler(self.do_get),
                "DoPut": grpc.stream_stream_rpc_method_handler(self.do_put),
            },
        )

    def handshake(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """The token comes in a header."""
        with observed(self.common, "Handshake", context) as request:
            context.send_initial_metadata((("authorization", f"Bearer {connected(self.common, request)}"),))
            yield from ()

    def get_flight_info(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        with admitted(self.common, "GetFlightInfo", context) as call:
            descriptor = decoded(FlightDescriptor, request)
            ticket = Ticket(self._ticket(call, descriptor))
            return encoded(FlightInfo(flight_descriptor=descriptor, endpoint=(FlightEndpoint(ticket),)))

    def do_get(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        with admitted(self.common, "DoGet", context) as call:
            stream = self._fetched(call, decoded(Ticket, request).ticket)
            yield from sent(stream.schema, stream.tables)

    def do_put(self, request: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        with admitted(self.common, "DoPut", context) as call:
            first = decoded(FlightData, next(request, b""))
            answer = self._put(call, first.flight_descriptor or FlightDescriptor())
        yield encoded(PutResult(answer))

    def _ticket(self, call: Call, descriptor: FlightDescriptor) -> bytes:
        match command_of(descriptor.cmd):
            case CommandStatementQuery(query, transaction):
                _no(transaction)
                return self.statements.ticket(call, Statement(query))
            case other:
                raise Unsupported(f"GetFlightInfo does not take {type(other).__name__}")

    def _fetched(self, call: Call, ticket: bytes) -> Stream:
        match self.tickets.read(ticket, call.principal):
            case Statement() as text:
                return self.statements.rows(call, text)
            case Answer() as answer:
                return answered(answer)
            case Listing():
                raise Unsupported("not yet")

    def _put(self, call: Call, descriptor: FlightDescriptor) -> bytes:
        match command_of(descriptor.cmd):
            case CommandStatementUpdate(query, transaction):
                _no(transaction)
                return encoded(DoPutUpdateResult(self.statements.update(call, Statement(query))))
            case other:
                raise Unsupported(f"DoPut does not take {type(other).__name__}")


def _no(transaction: bytes | None) -> None:
    if transaction:
        raise Unsupported(_NO_TRANSACTION)
