"""What a message says to do with a row: `debezium-json`, or plain `json`."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast, get_args

from lakewarden.base import exact_json
from lakewarden.errors import InvalidArgument
from lakewarden.ingest.topic_client import ConnectField, schema_of
from lakewarden.storage.kafka_topics import TopicMessage

ValueFormat = Literal["debezium-json", "json"]
Row = Mapping[str, object]


@dataclass(frozen=True)
class MessageChange:
    """One row to write, or the key of one to remove; of the message with that offset."""

    offset: int
    row: Row
    removes: bool = False
    described: Mapping[str, ConnectField] = field(default_factory=dict)
    """By column, what the schema beside the message says of its values."""


Changes = tuple[MessageChange, ...]
Decode = Callable[[TopicMessage], Changes]
"""What a message says; nothing for one that says nothing. Raises `InvalidArgument` where it cannot be understood."""


def decoder(value_format: str) -> Decode:
    """Raises InvalidArgument: the format does not exist."""
    if value_format not in _DECODERS:
        raise InvalidArgument(f"the format {value_format!r} of values does not exist; use {' or '.join(get_args(ValueFormat))}")
    return _DECODERS[cast("ValueFormat", value_format)]


@dataclass(frozen=True)
class _Part:
    """A part of a message: an object, and its schema where the message has one."""

    what: str
    value: object
    schema: ConnectField | None = None

    def change(self, message: TopicMessage, *, removes: bool = False) -> MessageChange:
        return MessageChange(message.offset, self.row, removes, {} if self.schema is None else self.schema.by_column)

    def part(self, name: str) -> _Part:
        return _Part(name, self.row.get(name), None if self.schema is None else self.schema.part(name))

    @property
    def row(self) -> Row:
        """Raises InvalidArgument: it is not an object."""
        if not isinstance(self.value, dict):
            kind = self.value.__class__.__name__
            raise InvalidArgument(f"its {self.what} is {kind}, where an object with the row's columns is expected")
        return self.value


def _plain(message: TopicMessage) -> Changes:
    if message.value is None:
        return _tombstone(message)
    written = _part(message.value, "value").change(message)
    return (replace(written, row=_available(written.row, {})),)


def _debezium(message: TopicMessage) -> Changes:
    if message.value is None:
        return _tombstone(message)
    envelope = _part(message.value, "value")
    match envelope.row.get("op"):
        case "c" | "r":
            return (_written(message, envelope),)
        case "u":
            return _updated(message, envelope)
        case "d":
            before = envelope.part("before")
            gone = _key(message) if before.value is None else before
            return (gone.change(message, removes=True),)
        case op:
            raise InvalidArgument(f'"op" is {op!r}, and debezium-json has "c", "r", "u" and "d"')


def _updated(message: TopicMessage, envelope: _Part) -> Changes:
    """The row before goes, in case its key was another one; where it was not, the row after is the later of the two."""
    after = _written(message, envelope)
    before = envelope.part("before")
    gone = () if before.value is None else (before.change(message, removes=True),)
    return (*gone, after)


def _written(message: TopicMessage, envelope: _Part) -> MessageChange:
    after, before = envelope.part("after").change(message), envelope.part("before")
    return replace(after, row=_available(after.row, {} if before.value is None else before.row))


def _available(row: Row, before: Row) -> Row:
    """The row with the values from before in place of those that Debezium says are as before, and does not have.

    Raises:
        InvalidArgument: the message has no value from before.
    """
    left_out = [name for name, value in row.items() if value in _UNAVAILABLE]
    for name in left_out:
        if before.get(name, _NAME) in _UNAVAILABLE:
            raise InvalidArgument(
                f"column {name!r}: {_NAME} stands for a value that did not change, and the message does not have it;"
                " in PostgreSQL, ALTER TABLE … REPLICA IDENTITY FULL sends it"
            )
    return {**row, **{name: before[name] for name in left_out}} if left_out else row


def _tombstone(message: TopicMessage) -> Changes:
    """What Kafka compacts a key to: the row is gone."""
    return (_key(message).change(message, removes=True),)


def _key(message: TopicMessage) -> _Part:
    if message.key is None:
        raise InvalidArgument("it removes a row, and has neither a row before nor a key to say which")
    return _part(message.key, "key")


def _part(data: bytes, what: str) -> _Part:
    """Without the schema that Kafka Connect's converter puts beside what it describes."""
    found = _parsed(data, what)
    if isinstance(found, dict) and found.keys() == {"schema", "payload"} and isinstance(found["payload"], dict):
        return _Part(what, found["payload"], schema_of(found["schema"]) if found["schema"] else None)
    return _Part(what, found)


def _parsed(data: bytes, what: str) -> object:
    try:
        return exact_json.decoded(data)
    except ValueError as error:
        raise InvalidArgument(f"its {what} is not JSON: {error}") from error


_NAME = "__debezium_unavailable_value"
_UNAVAILABLE: tuple[object, ...] = (
    _NAME,
    base64.b64encode(_NAME.encode()).decode(),
    _NAME.encode().hex(),
    [_NAME],
    list(_NAME.encode()),
    {_NAME: _NAME},
    json.dumps({_NAME: _NAME}, separators=(",", ":")),
)
"""What Debezium writes in place of a value that PostgreSQL did not send: a text, bytes, a list of texts or of numbers, hstore."""

_DECODERS: Mapping[ValueFormat, Decode] = {"debezium-json": _debezium, "json": _plain}
