"""Converts the catalog to JSON and back. Fields are those of `catalog.model`; an absent field has its default.

A release that does not know a field leaves it out when it writes the catalog again. So what came later than format 1 has a format
of its own, which older releases refuse. A catalog has the lowest one that holds all that is in it: as long as nothing of the
later ones is used, older processes go on.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from lakewarden.base.scope import TableName
from lakewarden.catalog.columns.types import ColumnType
from lakewarden.catalog.model import Catalog, Namespace, Table, TableOptions, TableSchema
from lakewarden.errors import Corrupt, InvalidArgument
from lakewarden.storage.sums import is_whole, with_sum

NEWEST = 3

_LATER: Mapping[type, Mapping[str, int]] = {
    Catalog: {"pipelines": 2, "rules": 2, "blanks": 2, "settings": 3},
    Namespace: {"engine": 2},
    Table: {"description": 2, "dynamic": 2},
    TableOptions: {"on_duplicate": 2, "change_tracking": 2, "log_retention": 2, "change_data_feed": 2, "compaction_ratio": 3},
    TableSchema: {"partition_by": 2, "keeps_before": 3},
}
"""The fields of later formats than 1, and the format of each."""


@dataclass(frozen=True)
class CatalogVersion:
    """One version object: the catalog, and who wrote it and the versions before it (newest last)."""

    catalog: Catalog
    writes: tuple[str, ...]
    at: datetime | None
    """When its writer's clock said; for people, nothing depends on it."""


def encode(written: CatalogVersion) -> bytes:
    body = {"format": format_of(written.catalog)} | _plain(written)
    return with_sum(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())


def decode(data: bytes, name: str) -> CatalogVersion:
    """`name` says in a message where the bytes came from.

    Raises:
        Corrupt: they are not a catalog, or have a newer format.
    """
    try:
        if not is_whole(data):
            raise ValueError("its checksum is another one")
        body = json.loads(data)
        if body["format"] not in range(1, NEWEST + 1):
            raise Corrupt(f"{name} has format {body['format']!r}; this version of Lakewarden reads formats up to {NEWEST}")
        written: CatalogVersion = _value(CatalogVersion, body)
        return written
    except (ValueError, KeyError, TypeError, InvalidArgument) as error:
        raise Corrupt(f"{name} is no catalog: {error!r} in {data[:80]!r}") from error


def format_of(catalog: Catalog) -> int:
    """The lowest format that holds the catalog."""
    tables = catalog.tables.values()
    schemas = [schema for table in tables for schema in table.schemas]
    keyless = any(not (schema.keyed or schema.append_only) for schema in schemas)
    parts = (catalog, *catalog.namespaces.values(), *tables, *(table.options for table in tables), *schemas)
    return max(2 if keyless else 1, *map(_format_of_part, parts))


def _format_of_part(part: Any) -> int:
    """The highest format of its fields that have another value than their default, or than nothing."""
    later = _LATER.get(type(part), {})
    if not later:
        return 1
    used = (each for each in fields(part) if each.name in later and getattr(part, each.name) not in (_default(each), {}))
    return max((later[each.name] for each in used), default=1)


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


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
        return None if value is None else _value(type(value) if type(value) in arguments else arguments[0], value)
    if value not in arguments if origin is Literal else type(value) is not kind:
        raise ValueError(f"{value!r} is no {kind}")
    return value


_SHAPES: dict[Any, type] = {dict: dict, tuple: list}
_PARSERS: dict[Any, Any] = {datetime: datetime.fromisoformat, ColumnType: ColumnType.parse, TableName: TableName.parse}


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
