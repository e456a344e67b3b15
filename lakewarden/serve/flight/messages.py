"""The messages of Flight and of Flight SQL as bytes, and a command of Flight SQL with its name around it.

Their classes are made by protoc from messages.proto (`make messages`). Docs: https://arrow.apache.org/docs/format/FlightSql.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError, Message

from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.serve.flight import messages_pb2

M = TypeVar("M", bound=Message)

_PREFIX = "type.googleapis.com/"
_SQL = "arrow.flight.protocol.sql."
_COMMANDS: Mapping[str, type[Message]] = {
    name: getattr(messages_pb2, name)
    for name in messages_pb2.DESCRIPTOR.message_types_by_name
    if name.startswith("Command") or name.endswith("PreparedStatementRequest")
}


def decoded(kind: type[M], data: bytes) -> M:
    """Raises InvalidArgument: the bytes are not that message."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise InvalidArgument(f"the bytes are no {kind.__name__} of Flight's protocol") from error


def command_of(data: bytes) -> Message:
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


def packed(message: Message, package: str = _SQL) -> bytes:
    """A message of Flight SQL with its name around it."""
    return wrapped(message, package).SerializeToString()


def wrapped(message: Message, package: str) -> Any:
    return Any(type_url=f"{_PREFIX}{package}{type(message).__name__}", value=message.SerializeToString())
