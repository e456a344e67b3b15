"""The calls of Flight, for one open warehouse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain

import grpc
import pyarrow as pa
from google.protobuf.message import Message

from lakewarden.base.arrays import stream_bytes
from lakewarden.base.scope import TableName
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.serve.common import Common, Listening
from lakewarden.serve.flight.calls import FlightCall, admitted, connected, observed
from lakewarden.serve.flight.listings import LISTINGS, listed
from lakewarden.serve.flight.messages import command_of, decoded, packed
from lakewarden.serve.flight.messages_pb2 import (
    Action,
    ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult,
    CommandPreparedStatementQuery,
    CommandPreparedStatementUpdate,
    CommandStatementIngest,
    CommandStatementQuery,
    CommandStatementUpdate,
    DoPutPreparedStatementResult,
    DoPutUpdateResult,
    FlightData,
    FlightDescriptor,
    FlightEndpoint,
    FlightInfo,
    PutResult,
    Result,
    SchemaResult,
    Ticket,
)
from lakewarden.serve.flight.rows import BulkIngest, ingested, received, sent
from lakewarden.serve.flight.statements import AnswerStream, FlightStatements, answered, once, rows_of, whole, written
from lakewarden.serve.flight.tickets import AnswerTicket, ListingTicket, StatementTicket, Tickets
from lakewarden.serve.tokens import SigningKeys

_SERVICE = "arrow.flight.protocol.FlightService"


@dataclass(frozen=True)
class FlightSql:
    """Each method is one of the protocol's; requests and answers are the bytes of its messages."""

    common: Common
    tickets: Tickets
    statements: FlightStatements

    @classmethod
    def of(cls, common: Common) -> FlightSql:
        warehouse = common.lake.warehouse
        tickets = Tickets(SigningKeys(warehouse.state), warehouse.id, warehouse.clock)
        return cls(common, tickets, FlightStatements(common.lake, tickets, common.writes))

    def handler(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            _SERVICE,
            {
                "Handshake": grpc.stream_stream_rpc_method_handler(self.handshake),
                "GetFlightInfo": grpc.unary_unary_rpc_method_handler(self.get_flight_info),
                "GetSchema": grpc.unary_unary_rpc_method_handler(self.get_schema),
                "DoGet": grpc.unary_stream_rpc_method_handler(self.do_get),
                "DoPut": grpc.stream_stream_rpc_method_handler(self.do_put),
                "DoAction": grpc.unary_stream_rpc_method_handler(self.do_action),
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
            endpoint = FlightEndpoint(ticket=Ticket(ticket=self._ticket(call, descriptor)))
            found = FlightInfo(flight_descriptor=descriptor, endpoint=[endpoint], total_records=-1, total_bytes=-1, ordered=True)
            return found.SerializeToString()

    def get_schema(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """The columns of a result, of which nothing runs."""
        with admitted(self.common, "GetSchema", context) as call:
            schema = self._schema(call, decoded(FlightDescriptor, request))
            return SchemaResult(schema=schema.serialize().to_pybytes()).SerializeToString()

    def do_get(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        with admitted(self.common, "DoGet", context) as call:
            stream = self._fetched(call, decoded(Ticket, request).ticket)
            yield from sent(stream.schema, stream.tables)

    def do_put(self, request: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        with admitted(self.common, "DoPut", context) as call:
            stream = (decoded(FlightData, message) for message in request)
            first = next(stream, FlightData())
            command = command_of(first.flight_descriptor.cmd)
            most = self.common.lake.warehouse.settings.serve.ingest_bytes
            answer = self._put(call, command, partial(received, chain([first], stream), most))
        yield PutResult(app_metadata=answer).SerializeToString()

    def do_action(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        with admitted(self.common, "DoAction", context) as call:
            match command_of(decoded(Action, request).body):
                case ActionCreatePreparedStatementRequest() as action:
                    _no(action.transaction_id)
                    handle = self.tickets.sign(StatementTicket(action.query), call.principal)
                    made = ActionCreatePreparedStatementResult(prepared_statement_handle=handle)
                    yield Result(body=packed(made)).SerializeToString()
                case ActionClosePreparedStatementRequest() as action:
                    self.tickets.statement(action.prepared_statement_handle, call.principal)  # nothing is kept of it
                case other:
                    raise Unsupported(f"DoAction does not take {type(other).__name__}")

    def _ticket(self, call: FlightCall, descriptor: FlightDescriptor) -> bytes:
        match command_of(descriptor.cmd):
            case CommandStatementQuery() | CommandPreparedStatementQuery() as command:
                return self.statements.ticket(call, self._query(call, command))
            case command if isinstance(command, LISTINGS):
                return self.tickets.sign(ListingTicket(descriptor.cmd), call.principal)
            case other:
                raise Unsupported(f"GetFlightInfo does not take {type(other).__name__}")

    def _schema(self, call: FlightCall, descriptor: FlightDescriptor) -> pa.Schema:
        match command_of(descriptor.cmd):
            case CommandStatementQuery() | CommandPreparedStatementQuery() as command:
                return self.statements.schema(call, self._query(call, command))
            case command if isinstance(command, LISTINGS):
                return self._listed(call, command).schema
            case other:
                raise Unsupported(f"GetSchema does not take {type(other).__name__}")

    def _query(self, call: FlightCall, command: CommandStatementQuery | CommandPreparedStatementQuery) -> StatementTicket:
        if isinstance(command, CommandPreparedStatementQuery):
            return self.tickets.statement(command.prepared_statement_handle, call.principal)
        _no(command.transaction_id)
        return StatementTicket(command.query)

    def _fetched(self, call: FlightCall, ticket: bytes) -> AnswerStream:
        match self.tickets.read(ticket, call.principal):
            case StatementTicket() as text:
                return self.statements.rows(call, text)
            case AnswerTicket() as answer:
                return answered(answer)
            case ListingTicket(command):
                return whole(self._listed(call, command_of(command)))

    def _listed(self, call: FlightCall, command: Message) -> pa.Table:
        return listed(command, self.common.lake.sessions.served(call.principal).seen)

    def _put(self, call: FlightCall, command: Message, rows: Callable[[], pa.Table]) -> bytes:
        """The answer to the rows of a DoPut, which are read where the command has any."""
        match command:
            case CommandStatementUpdate():
                _no(command.transaction_id)
                return _changed(self.statements.update(call, command.query))
            case CommandPreparedStatementUpdate():
                statement = self.tickets.statement(command.prepared_statement_handle, call.principal)
                return _changed(self.statements.update(call, statement.text, rows()))
            case CommandPreparedStatementQuery():
                return self._bound(call, self._query(call, command), rows())
            case CommandStatementIngest():
                _no(command.transaction_id)
                return _changed(self._ingested(call, command, rows()))
            case other:
                raise Unsupported(f"DoPut does not take {type(other).__name__}")

    def _ingested(self, call: FlightCall, command: CommandStatementIngest, rows: pa.Table) -> int:
        asked = BulkIngest(command.schema, command.table)
        place = TableName(command.schema or call.namespace or "", command.table)

        def write() -> pa.Table:
            return written(rows=ingested(self.common.lake, call, command, rows))

        return rows_of(once(self.common.writes, call, asked, write, lambda: [place], rows))

    def _bound(self, call: FlightCall, statement: StatementTicket, rows: pa.Table) -> bytes:
        """A handle with the parameters in it."""
        if rows.num_rows != 1:
            raise Unsupported(f"a query runs with one row of parameters, not {rows.num_rows:,}")
        handle = self.tickets.sign(StatementTicket(statement.text, stream_bytes(rows)), call.principal)
        return DoPutPreparedStatementResult(prepared_statement_handle=handle).SerializeToString()


def _changed(rows: int) -> bytes:
    return DoPutUpdateResult(record_count=rows).SerializeToString()


def _no(transaction: bytes) -> None:
    if transaction:
        raise Unsupported("a transaction is not supported: every statement is one of its own")


# Starts and stops the service of one server process.
_CALLS = 256
"""At the same time in a process, a thread each; a user has `serve.concurrent_per_user` of them. Further ones are declined."""
_KEEPALIVE_MS = 30_000
"""A client that does not answer this long is gone, and so are its calls."""


@contextmanager
def served(common: Common, at: Listening) -> Iterator[int]:
    """Serves during the block; yields the port. Behind it, no call is accepted, and those that were begun end first.

    Raises:
        InvalidArgument: the port cannot be listened at, or the certificate and its key are not valid.
    """
    settings = common.lake.warehouse.settings.serve
    with ThreadPoolExecutor(_CALLS, "flight") as threads:
        server = grpc.server(
            threads,
            handlers=[FlightSql.of(common).handler()],
            maximum_concurrent_rpcs=_CALLS,
            options=[
                ("grpc.max_receive_message_length", settings.body_bytes),
                ("grpc.so_reuseport", int(at.processes > 1)),
                ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
                ("grpc.keepalive_timeout_ms", _KEEPALIVE_MS),
                ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MS // 3),
            ],
        )
        port = _listening(server, at)
        server.start()
        try:
            yield port
        finally:
            server.stop(settings.stop_seconds).wait()


def _listening(server: grpc.Server, at: Listening) -> int:
    host = f"[{at.host}]" if ":" in at.host else at.host
    address = f"{host}:{at.flight_port}"
    try:
        if at.tls_certificate is None or at.tls_key is None:
            return server.add_insecure_port(address)
        pair = (at.tls_key.read_bytes(), at.tls_certificate.read_bytes())
        return server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    except RuntimeError as error:
        raise InvalidArgument(f"Flight SQL cannot listen at {address}: {error}") from error
