"""Converts the catalog to JSON and back. Fields are those of `catalog.model`; an absent field has its default."""

from __future__ import annotations

import json
import types
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from lakewarden.catalog.model import Catalog
from lakewarden.catalog.types import ColumnType
from lakewarden.errors import Corrupt, InvalidArgument
from lakewarden.scope import TableName

FORMAT = 1


@dataclass(frozen=True)
class Written:
    """One version object: the catalog, and who wrote it and the versions before it (newest last)."""

    catalog: Catalog
    writes: tuple[str, ...]
    at: datetime | None
    """When its writer's clock said; for people, nothing depends on it."""


def encode(written: Written) -> bytes:
    body = {"format": FORMAT} | _plain(written)
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def decode(data: bytes, name: str) -> Written:
    """`name` says in a message where the bytes came from.

    Raises:
        Corrupt: they are not a catalog, or have a newer format.
    """
    try:
        body = json.loads(data)
        if body["format"] != FORMAT:
            raise Corrupt(f"{name} has format {body['format']!r}; this version of Lakewarden reads format {FORMAT}")
        written: Written = _value(Written, body)
        return written
    except (ValueError, KeyError, TypeError, InvalidArgument) as error:
        raise Corrupt(f"{name} is no catalog: {error!r} in {data[:80]!r}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (ColumnType, TableName)):
        return str(value)
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _value(kind: Any, value: Any) -> Any:
    """The value that a field of this type had. Raises ValueError, TypeError, KeyError or InvalidArgument."""
    if kind in _PARSERS:
        return _PARSERS[kind](value)
    origin, arguments = get_origin(kind), get_args(kind)
    shape = _SHAPES.get(dict if is_dataclass(kind) else origin)
    if shape is not None and type(value) is not shape:
        raise ValueError(f"{value!r} is no {kind}")
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{name: _value(hints[name], item) for name, item in value.items() if name in hints})
    if origin is tuple:
        return tuple(_value(arguments[0], item) for item in value)
    if origin is dict:
        return {_value(arguments[0], key): _value(arguments[1], item) for key, item in value.items()}
    if origin in (Union, types.UnionType):
        return None if value is None else _value(arguments[0], value)
    if value not in arguments if origin is Literal else type(value) is not kind:
        raise ValueError(f"{value!r} is no {kind}")
    return value


_SHAPES: dict[Any, type] = {dict: dict, tuple: list}
_PARSERS: dict[Any, Any] = {datetime: datetime.fromisoformat, ColumnType: ColumnType.parse, TableName: TableName.parse}


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
