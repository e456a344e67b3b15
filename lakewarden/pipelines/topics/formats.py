"""What a message says to do with a row: `debezium-json`, or plain `json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from lakewarden import exact_json
from lakewarden.errors import InvalidArgument
from lakewarden.kafka.reader import Message

ValueFormat = Literal["debezium-json", "json"]
Row = Mapping[str, object]


@dataclass(frozen=True)
class Change:
    """One row to write, or the key of one to remove; of the message with that offset."""

    offset: int
    row: Row
    removes: bool = False


Changes = tuple[Change, ...]
Decode = Callable[[Message], Changes]
"""What a message says; nothing for one that says nothing. Raises `InvalidArgument` where it cannot be understood."""


def decoder(value_format: str) -> Decode:
    """Raises:
    InvalidArgument: the format does not exist.
    """
    if value_format not in _DECODERS:
        raise InvalidArgument(f"the format {value_format!r} of values does not exist; use {' or '.join(get_args(ValueFormat))}")
    return _DECODERS[cast("ValueFormat", value_format)]


def _plain(message: Message) -> Changes:
    if message.value is None:
        return _tombstone(message)
    return (Change(message.offset, _object(_parsed(message.value, "value"), "value")),)


def _debezium(message: Message) -> Changes:
    if message.value is None:
        return _tombstone(message)
    envelope = _unwrapped(_object(_parsed(message.value, "value"), "value"))
    match envelope.get("op"):
        case "c" | "r":
            return (_written(message, envelope),)
        case "u":
            return _updated(message, envelope)
        case "d":
            before = envelope.get("before")
            gone = _key(message) if before is None else _object(before, "before")
            return (Change(message.offset, gone, removes=True),)
        case op:
            raise InvalidArgument(f'"op" is {op!r}, and debezium-json has "c", "r", "u" and "d"')


def _updated(message: Message, envelope: Row) -> Changes:
    """The row before goes, in case its key was another one; where it was not, the row after is the later of the two."""
    after = _written(message, envelope)
    before = envelope.get("before")
    gone = () if before is None else (Change(message.offset, _object(before, "before"), removes=True),)
    return (*gone, after)


def _written(message: Message, envelope: Row) -> Change:
    return Change(message.offset, _object(envelope.get("after"), "after"))


def _tombstone(message: Message) -> Changes:
    """What Kafka compacts a key to: the row is gone."""
    return (Change(message.offset, _key(message), removes=True),)


def _key(message: Message) -> Row:
    if message.key is None:
        raise InvalidArgument("it removes a row, and has neither a row before nor a key to say which")
    return _unwrapped(_object(_parsed(message.key, "key"), "key"))


def _unwrapped(found: Row) -> Row:
    """Without the schema that Kafka Connect's converter puts beside what it describes."""
    payload = found.get("payload")
    return cast("Row", payload) if found.keys() == {"schema", "payload"} and isinstance(payload, dict) else found


def _parsed(data: bytes, what: str) -> object:
    try:
        return exact_json.ANY.decode(data)
    except ValueError as error:
        raise InvalidArgument(f"its {what} is not JSON: {error}") from error
    except RecursionError as error:
        raise InvalidArgument(f"its {what} is nested too deeply") from error


def _object(found: object, what: str) -> Row:
    if not isinstance(found, dict):
        raise InvalidArgument(f"its {what} is {type(found).__name__}, where an object with the row's columns is expected")
    return found


_DECODERS: Mapping[ValueFormat, Decode] = {"debezium-json": _debezium, "json": _plain}
