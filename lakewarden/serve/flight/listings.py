"""What a caller may see of the warehouse, as Flight SQL lists it: a namespace is a schema, and the only catalog has no name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf.message import Message

from lakewarden.base import VERSION
from lakewarden.catalog.model import Table
from lakewarden.serve.flight.messages_pb2 import (
    CommandGetCatalogs,
    CommandGetDbSchemas,
    CommandGetPrimaryKeys,
    CommandGetSqlInfo,
    CommandGetTables,
    CommandGetTableTypes,
)
from lakewarden.sql.system_listings import VisibleObjects

# What the server says of itself: the answer to GetSqlInfo, numbers and values as FlightSql.proto lists them.
_NO_TRANSACTIONS = 0
_FACTS: Mapping[int, str | bool | int] = {
    0: "Lakewarden",
    1: VERSION,
    2: pa.__version__,
    3: False,  # it is not read-only
    4: True,  # it takes SQL,
    5: False,  # and no Substrait
    8: _NO_TRANSACTIONS,
    9: False,  # no action cancels a query: a client that goes away does
    504: '"',
    529: "namespace",
    531: "",  # no catalogs
}
_KINDS: Mapping[str, pa.DataType] = {
    "string_value": pa.string(),
    "bool_value": pa.bool_(),
    "bigint_value": pa.int64(),
    "int32_bitmask": pa.int32(),
    "string_list": pa.list_(pa.string()),
    "int32_to_int32_list_map": pa.map_(pa.int32(), pa.list_(pa.int32())),
}
_CODES = {str: 0, bool: 1, int: 3}


def sql_info(numbers: Sequence[int]) -> pa.Table:
    """The facts of these numbers, all without any; what is not known is left out."""
    facts = {number: _FACTS[number] for number in numbers or _FACTS if number in _FACTS}
    columns: list[list[object]] = [[] for _ in _KINDS]
    codes, offsets = list[int](), list[int]()
    for fact in facts.values():
        code = _CODES[type(fact)]
        codes.append(code)
        offsets.append(len(columns[code]))
        columns[code].append(fact)
    children = [pa.array(values, kind) for values, kind in zip(columns, _KINDS.values(), strict=True)]
    values: pa.Array[Any] = pa.UnionArray.from_dense(
        pa.array(codes, pa.int8()), pa.array(offsets, pa.int32()), children, list(_KINDS)
    )
    fields = [pa.field("info_name", pa.uint32(), nullable=False), pa.field("value", values.type)]
    return pa.Table.from_arrays([pa.array(list(facts), pa.uint32()), values], schema=pa.schema(fields))


LISTINGS = (
    CommandGetSqlInfo,
    CommandGetCatalogs,
    CommandGetDbSchemas,
    CommandGetTables,
    CommandGetTableTypes,
    CommandGetPrimaryKeys,
)
_CATALOG = ""
_TABLE, _VIEW = "TABLE", "VIEW"


def listed(command: Message, seen: Callable[[], VisibleObjects]) -> pa.Table:
    """The rows of a listing, in the order that Flight SQL asks for."""
    match command:
        case CommandGetSqlInfo():
            return sql_info(command.info)
        case CommandGetTableTypes():
            return _rows("table_type", [(_TABLE,), (_VIEW,)])
        case CommandGetCatalogs():
            return _rows("catalog_name", [(_CATALOG,)])
        case CommandGetDbSchemas():
            return _schemas(command, seen())
        case CommandGetTables():
            return _tables(command, seen())
        case CommandGetPrimaryKeys():
            return _primary_keys(command, seen())
        case _:
            raise AssertionError(f"{type(command).__name__} is not a listing")


def _schemas(command: CommandGetDbSchemas, seen: VisibleObjects) -> pa.Table:
    fits = _like(command, "db_schema_filter_pattern")
    return _rows(
        "catalog_name? db_schema_name",
        [(_CATALOG, name) for name in seen.namespaces if command.catalog == _CATALOG and fits(name)],
    )


def _tables(command: CommandGetTables, seen: VisibleObjects) -> pa.Table:
    columns = "catalog_name? db_schema_name? table_name table_type"
    namespace_fits, name_fits = _like(command, "db_schema_filter_pattern"), _like(command, "table_name_filter_pattern")
    found = [(one.name, _TABLE, _arrow(one)) for one in seen.tables] + [(name, _VIEW, pa.schema([])) for name in seen.views]
    rows = [
        (_CATALOG, name.namespace, name.name, kind, schema.serialize().to_pybytes())
        for name, kind, schema in sorted(found, key=lambda one: (one[0].namespace, one[0].name))
        if command.catalog == _CATALOG
        and namespace_fits(name.namespace)
        and name_fits(name.name)
        and kind in (command.table_types or (_TABLE, _VIEW))
    ]
    if command.include_schema:
        return _rows(f"{columns} table_schema", rows, table_schema=pa.binary())
    return _rows(columns, [row[:-1] for row in rows])


def _primary_keys(command: CommandGetPrimaryKeys, seen: VisibleObjects) -> pa.Table:
    columns = "catalog_name? db_schema_name? table_name column_name key_name? key_sequence"
    there = [one for one in seen.tables if command.catalog == _CATALOG and one.name.name == command.table]
    tables = [one for one in there if not command.HasField("db_schema") or one.name.namespace == command.db_schema]
    return _rows(
        columns,
        [
            (_CATALOG, one.name.namespace, one.name.name, column, None, number)
            for one in sorted(tables, key=lambda each: each.name.namespace)
            for number, column in enumerate(one.schema.primary_key, 1)
        ],
        key_sequence=pa.int32(),
    )


def _arrow(table: Table) -> pa.Schema:
    """The columns as Flight SQL describes them, each with the name of its type."""
    return pa.schema(
        [
            pa.field(column.name, column.type.arrow, column.nullable, {"ARROW:FLIGHT:SQL:TYPE_NAME": str(column.type)})
            for column in table.schema.shown
        ]
    )


def _like(command: CommandGetDbSchemas | CommandGetTables, field: str) -> Callable[[str], bool]:
    """`%` is any text, `_` any character, and a backslash takes the meaning from the next. Without the field, all fit."""
    if not command.HasField(field):
        return lambda _: True
    pattern: str = getattr(command, field)
    signs = {"%": ".*", "_": "."}
    parts = (signs.get(part) or re.escape(part[-1]) for part in re.findall(r"\\?.", pattern, re.DOTALL))
    compiled = re.compile("".join(parts), re.DOTALL)
    return lambda name: compiled.fullmatch(name) is not None


def _rows(columns: str, rows: Iterable[tuple[object, ...]], **kinds: pa.DataType) -> pa.Table:
    """The columns by their names, of text where `kinds` has no other type; one that may be NULL has a question mark behind it."""
    named = ((name.removesuffix("?"), name.endswith("?")) for name in columns.split())
    schema = pa.schema([pa.field(name, kinds.get(name, pa.string()), nullable) for name, nullable in named])
    found = list(rows)
    return pa.Table.from_arrays(
        [pa.array([row[at] for row in found], field.type) for at, field in enumerate(schema)], schema=schema
    )
