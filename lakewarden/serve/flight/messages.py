"""The messages of Flight and of Flight SQL, as far as they are used, by the names of their .proto files.

Docs: https://arrow.apache.org/docs/format/FlightSql.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, get_args

from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.serve.flight.wire import decoded, encoded

COMMAND = 2
"""The type of a descriptor that is a command, not a path."""


@dataclass(frozen=True)
class Any:
    """`google.protobuf.Any`: a message and its name."""

    type_url: Annotated[str, 1] = ""
    value: Annotated[bytes, 2] = b""


@dataclass(frozen=True)
class FlightDescriptor:
    type: Annotated[int, 1] = 0
    cmd: Annotated[bytes, 2] = b""


@dataclass(frozen=True)
class Ticket:
    ticket: Annotated[bytes, 1] = b""


@dataclass(frozen=True)
class FlightEndpoint:
    """Without a location: the server that answers."""

    ticket: Annotated[Ticket, 1]


@dataclass(frozen=True)
class FlightInfo:
    """Records and bytes are -1 where they are unknown; a schema that is unknown is empty."""

    schema: Annotated[bytes, 1] = b""
    flight_descriptor: Annotated[FlightDescriptor | None, 2] = None
    endpoint: Annotated[tuple[FlightEndpoint, ...], 3] = ()
    total_records: Annotated[int, 4] = -1
    total_bytes: Annotated[int, 5] = -1
    ordered: Annotated[bool, 6] = True


@dataclass(frozen=True)
class SchemaResult:
    """A schema as Arrow's IPC has it: one encapsulated message."""

    schema: Annotated[bytes, 1] = b""


@dataclass(frozen=True)
class FlightData:
    flight_descriptor: Annotated[FlightDescriptor | None, 1] = None
    data_header: Annotated[bytes, 2] = b""
    app_metadata: Annotated[bytes, 3] = b""
    data_body: Annotated[bytes, 1000] = b""


@dataclass(frozen=True)
class PutResult:
    app_metadata: Annotated[bytes, 1] = b""


@dataclass(frozen=True)
class Action:
    type: Annotated[str, 1] = ""
    body: Annotated[bytes, 2] = b""


@dataclass(frozen=True)
class Result:
    body: Annotated[bytes, 1] = b""


@dataclass(frozen=True)
class ErrorInfo:
    """`google.rpc.ErrorInfo`, without its metadata."""

    reason: Annotated[str, 1] = ""
    domain: Annotated[str, 2] = ""


@dataclass(frozen=True)
class RequestInfo:
    """`google.rpc.RequestInfo`."""

    request_id: Annotated[str, 1] = ""


@dataclass(frozen=True)
class Status:
    """`google.rpc.Status`: what `grpc-status-details-bin` holds."""

    code: Annotated[int, 1] = 0
    message: Annotated[str, 2] = ""
    details: Annotated[tuple[Any, ...], 3] = ()


@dataclass(frozen=True)
class CommandStatementQuery:
    query: Annotated[str, 1] = ""
    transaction_id: Annotated[bytes | None, 2] = None


@dataclass(frozen=True)
class CommandStatementUpdate:
    query: Annotated[str, 1] = ""
    transaction_id: Annotated[bytes | None, 2] = None


@dataclass(frozen=True)
class CommandPreparedStatementQuery:
    prepared_statement_handle: Annotated[bytes, 1] = b""


@dataclass(frozen=True)
class CommandPreparedStatementUpdate:
    prepared_statement_handle: Annotated[bytes, 1] = b""


@dataclass(frozen=True)
class CommandGetSqlInfo:
    info: Annotated[tuple[int, ...], 1] = ()


@dataclass(frozen=True)
class CommandGetCatalogs:
    """Has no field."""


@dataclass(frozen=True)
class CommandGetDbSchemas:
    catalog: Annotated[str | None, 1] = None
    db_schema_filter_pattern: Annotated[str | None, 2] = None


@dataclass(frozen=True)
class CommandGetTables:
    catalog: Annotated[str | None, 1] = None
    db_schema_filter_pattern: Annotated[str | None, 2] = None
    table_name_filter_pattern: Annotated[str | None, 3] = None
    table_types: Annotated[tuple[str, ...], 4] = ()
    include_schema: Annotated[bool, 5] = False


@dataclass(frozen=True)
class CommandGetTableTypes:
    """Has no field."""


@dataclass(frozen=True)
class CommandGetPrimaryKeys:
    catalog: Annotated[str | None, 1] = None
    db_schema: Annotated[str | None, 2] = None
    table: Annotated[str, 3] = ""


@dataclass(frozen=True)
class TableDefinitionOptions:
    """Numbers as in FlightSql.proto."""

    if_not_exist: Annotated[int, 1] = 0
    if_exists: Annotated[int, 2] = 0


@dataclass(frozen=True)
class CommandStatementIngest:
    table_definition_options: Annotated[TableDefinitionOptions | None, 1] = None
    table: Annotated[str, 2] = ""
    schema: Annotated[str | None, 3] = None
    catalog: Annotated[str | None, 4] = None
    temporary: Annotated[bool, 5] = False
    transaction_id: Annotated[bytes | None, 6] = None


@dataclass(frozen=True)
class DoPutUpdateResult:
    record_count: Annotated[int, 1] = 0


@dataclass(frozen=True)
class DoPutPreparedStatementResult:
    """The handle to go on with, which holds the parameters."""

    prepared_statement_handle: Annotated[bytes | None, 1] = None


@dataclass(frozen=True)
class ActionCreatePreparedStatementRequest:
    query: Annotated[str, 1] = ""
    transaction_id: Annotated[bytes | None, 2] = None


@dataclass(frozen=True)
class ActionCreatePreparedStatementResult:
    prepared_statement_handle: Annotated[bytes, 1] = b""
    dataset_schema: Annotated[bytes, 2] = b""
    parameter_schema: Annotated[bytes, 3] = b""


@dataclass(frozen=True)
class ActionClosePreparedStatementRequest:
    prepared_statement_handle: Annotated[bytes, 1] = b""


Command = (
    CommandStatementQuery
    | CommandStatementUpdate
    | CommandPreparedStatementQuery
    | CommandPreparedStatementUpdate
    | CommandStatementIngest
    | CommandGetSqlInfo
    | CommandGetCatalogs
    | CommandGetDbSchemas
    | CommandGetTables
    | CommandGetTableTypes
    | CommandGetPrimaryKeys
    | ActionCreatePreparedStatementRequest
    | ActionClosePreparedStatementRequest
)

_PREFIX = "type.googleapis.com/"
_SQL = "arrow.flight.protocol.sql."
_COMMANDS: Mapping[str, type[Command]] = {each.__name__: each for each in get_args(Command)}


def command_of(data: bytes) -> Command:
    """The command in the bytes of a descriptor or an action.

    Raises:
        InvalidArgument: they are no command.
        Unsupported: it is one that this server does not have.
    """
    found = decoded(Any, data)
    name = found.type_url.removeprefix(_PREFIX)
    if not name.startswith(_SQL):
        raise InvalidArgument("the call has no command of Flight SQL")
    kind = _COMMANDS.get(name.removeprefix(_SQL))
    if kind is None:
        raise Unsupported(f"{name.removeprefix(_SQL)} is not supported")
    return decoded(kind, found.value)


def packed(message: object, package: str = _SQL) -> bytes:
    """A message of Flight SQL with its name around it."""
    return encoded(wrapped(message, package))


def wrapped(message: object, package: str) -> Any:
    return Any(f"{_PREFIX}{package}{type(message).__name__}", encoded(message))
