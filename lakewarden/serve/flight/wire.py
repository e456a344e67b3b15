"""Dataclasses as messages of protobuf: a field's type and its number, `Annotated[str, 1]`, say how it is encoded.

All whole numbers are `int64` here: on the wire an enum, and a number of 32 bits, look the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from types import UnionType
from typing import Annotated, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from lakewarden.errors import InvalidArgument

T = TypeVar("T")

_KINDS = {
    str: FieldDescriptorProto.TYPE_STRING,
    bytes: FieldDescriptorProto.TYPE_BYTES,
    bool: FieldDescriptorProto.TYPE_BOOL,
    int: FieldDescriptorProto.TYPE_INT64,
}


class WireField(NamedTuple):
    """`kind` without what is around it: `tuple[…, ...]` is repeated, `… | None` may be absent."""

    name: str
    number: int
    kind: type
    repeated: bool
    optional: bool


def encoded(value: object) -> bytes:
    """A message's bytes. Fields with their default value are left out, as proto3 does."""
    kind: type = type(value)
    made = _class_of(kind)()
    _fill(made, value)
    return made.SerializeToString()


def decoded(kind: type[T], data: bytes) -> T:
    """Raises:
    InvalidArgument: the bytes are not that message.
    """
    described: type = kind
    try:
        return cast("T", _read(described, _class_of(described).FromString(data)))
    except DecodeError as error:
        raise InvalidArgument(f"the bytes are no {kind.__name__} of Flight's protocol") from error


def _fill(made: Message, value: object) -> None:
    kind: type = type(value)
    for field in _fields_of(kind):
        given = getattr(value, field.name)
        if given is None or (not field.optional and not given):
            continue
        if field.kind in _KINDS:
            getattr(made, field.name).extend(given) if field.repeated else setattr(made, field.name, given)
            continue
        for each in given if field.repeated else (given,):
            inner = getattr(made, field.name)
            _fill(inner.add() if field.repeated else inner, each)


def _read(kind: type, message: Message) -> object:
    found: dict[str, object] = {}
    for field in _fields_of(kind):
        given = getattr(message, field.name)
        if field.repeated:
            found[field.name] = tuple(_value(field.kind, each) for each in given)
        else:
            absent = field.optional and not message.HasField(field.name)
            found[field.name] = None if absent else _value(field.kind, given)
    return kind(**found)


def _value(kind: type, given: object) -> object:
    return given if kind in _KINDS else _read(kind, cast("Message", given))


@cache
def _fields_of(kind: type) -> tuple[WireField, ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_field(one.name, hints[one.name]) for one in fields(kind))


def _field(name: str, hint: object) -> WireField:
    assert get_origin(hint) is Annotated, f"{name} has a number"
    kind, number = get_args(hint)
    repeated, optional = get_origin(kind) is tuple, get_origin(kind) is UnionType
    return WireField(name, number, get_args(kind)[0] if repeated or optional else kind, repeated, optional)


@cache
def _class_of(kind: type) -> type[Message]:
    """Made by protobuf from a description of the dataclass and of those inside it. As proto2, where every field may be absent."""
    file = FileDescriptorProto(name=kind.__name__, package=kind.__name__, syntax="proto2")
    for one in dict.fromkeys(_with_inner(kind)):
        described = file.message_type.add(name=one.__name__)
        for field in _fields_of(one):
            label = FieldDescriptorProto.LABEL_REPEATED if field.repeated else FieldDescriptorProto.LABEL_OPTIONAL
            made = described.field.add(name=field.name, number=field.number, label=label)
            if field.kind in _KINDS:
                made.type = _KINDS[field.kind]
            else:
                made.type, made.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{kind.__name__}.{field.kind.__name__}"
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())  # type: ignore[no-untyped-call]  # its stubs lack it
    return GetMessageClass(pool.FindMessageTypeByName(f"{kind.__name__}.{kind.__name__}"))  # type: ignore[no-untyped-call]  # as above


def _with_inner(kind: type) -> Iterator[type]:
    yield kind
    for field in _fields_of(kind):
        if field.kind not in _KINDS:
            yield from _with_inner(field.kind)
