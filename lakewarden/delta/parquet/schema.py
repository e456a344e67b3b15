"""One schema in three forms: the catalog's, Delta's, and that of a data file.

Columns are distinguished by their id: it is in the Delta column's metadata (`lakewarden.id`) and is the Parquet field
id of our own files, so a file of an older schema version can be read under a newer one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import msgspec
import pyarrow as pa

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.column_values import initial_values
from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.delta.partitions import filled
from lakewarden.errors import Corrupt

SEQ = "_seq"
SEQ_ID = 2**31 - 1
"""Field id of `_seq`: the highest there is, far from those that the catalog gives out."""

_DELTA = {
    "BOOLEAN": "boolean",
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "TEXT": "string",
    "BYTES": "binary",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIME": "long",
    "UUID": "string",
    "JSON": "string",
    "FILE": "string",
}


@dataclass(frozen=True)
class LiveColumn:
    """A column as a Delta table has it now. `id` is None when another program created the column."""

    name: str
    type: str
    nullable: bool
    id: int | None
    declared: str = ""
    """Its type as the catalog has it; empty where another program created the column."""
    default: str | None = None
    """As of the last commit that brought columns."""
    not_null: bool = False
    """Whether it was NOT NULL then, and older rows may have NULL."""


@lru_cache(maxsize=1024)
def delta_schema(schema: TableSchema) -> str:
    """The Delta columns in JSON: those of the table, and `_seq`, which is nullable because rows of others lack it."""
    fields = [
        {
            "name": column.name,
            "type": _delta_type(column.type),
            "nullable": column.nullable or column.null_before,
            "metadata": _metadata(column),
        }
        for column in schema.columns
    ]
    seq = {"name": SEQ, "type": "long", "nullable": True, "metadata": {"lakewarden.id": SEQ_ID}}
    return msgspec.json.encode({"type": "struct", "fields": [*fields, seq]}).decode()


def _metadata(column: SchemaColumn) -> dict[str, object]:
    """What Delta has no words for. A repair reads it back, where the catalog came from an older backup."""
    more: dict[str, object] = {} if column.default is None else {"lakewarden.default": column.default}
    if column.null_before and not column.nullable:
        more["lakewarden.not_null"] = True
    return {"lakewarden.type": str(column.type), "lakewarden.id": column.id, **more}


@lru_cache(maxsize=1024)
def file_schema(schema: TableSchema) -> pa.Schema:
    """The columns of a data file, each with its field id: all but the partition columns. All optional: Delta's NOT NULL is
    the commit's matter."""
    return pa.schema([field for field in _every_field(schema) if field.name not in schema.partition_by])


@lru_cache(maxsize=1024)
def read_schema(schema: TableSchema) -> pa.Schema:
    """The columns of rows as they are read, each with its field id, and with what rows have that are older than the column
    (`fitted`)."""
    pairs = zip(_every_field(schema), (*schema.columns, None), strict=True)
    return pa.schema([field if column is None else with_initial(field, column) for field, column in pairs])


def _every_field(schema: TableSchema) -> list[pa.Field[Any]]:
    fields = [_field(column.name, column.type.arrow, column.id) for column in schema.columns]
    return [*fields, _field(SEQ, pa.int64(), SEQ_ID)]


def _field(name: str, type_: pa.DataType, id_: int) -> pa.Field[Any]:
    return pa.field(name, type_, metadata={"PARQUET:field_id": str(id_)})


@lru_cache(maxsize=1024)
def rows_schema(schema: TableSchema) -> pa.Schema:
    """The columns of rows in memory: those of `schema`, and `_seq`."""
    return pa.schema([(field.name, field.type) for field in _every_field(schema)])


def column_ids(schema: TableSchema) -> dict[str, int]:
    """The ids of the Delta columns by name."""
    return {column.name: column.id for column in schema.columns} | {SEQ: SEQ_ID}


@lru_cache(maxsize=1024)
def live_columns(schema_json: str) -> tuple[LiveColumn, ...]:
    """Reads a Delta schema's JSON text. A nested type is kept as its JSON: no version of ours has one."""
    return tuple(
        _live(field["name"], _text(field["type"]), bool(field["nullable"]), field.get("metadata", {}))
        for field in json.loads(schema_json)["fields"]
    )


def _live(name: str, type_: str, nullable: bool, metadata: dict[str, object]) -> LiveColumn:
    declared, default = metadata.get("lakewarden.type"), metadata.get("lakewarden.default")
    return LiveColumn(
        name,
        type_,
        nullable,
        _id(metadata),
        declared if isinstance(declared, str) else "",
        default if isinstance(default, str) else None,
        metadata.get("lakewarden.not_null") in (True, "true"),
    )


def is_ours(columns: Sequence[LiveColumn]) -> bool:
    """Whether each of a table's columns was created from a catalog of ours."""
    return all(column.id is not None and (column.declared or column.id == SEQ_ID) for column in columns)


@lru_cache(maxsize=1024)
def reads_alike(written: TableSchema, now: TableSchema) -> bool:
    """Whether files of one schema version say the same under another to readers who go by names, as all Delta readers but ours
    do, as to those who go by ids.

    A column that was dropped since makes the answer no: a later one may take its name. So what reads alike under a version also
    does under every version that this one reads alike under, and a table's files need not be looked at.
    """
    there = {column.id: column for column in now.columns}
    kept = all(
        column.id in there and (there[column.id].name, there[column.id].type) == (column.name, column.type)
        for column in written.columns
    )
    known = {column.id for column in written.columns}
    return kept and all(column.initial is None for column in now.columns if column.id not in known)


def version_of(schema_json: str, schemas: tuple[TableSchema, ...]) -> TableSchema | None:
    """Returns the newest schema version that the columns of a Delta schema's JSON text match; None when another program changed
    them."""
    return next(filter(partial(_is, schema_json), reversed(schemas)), None)


@lru_cache(maxsize=1024)
def _is(schema_json: str, schema: TableSchema) -> bool:
    wanted = {column.name: (_delta_type(column.type), column.id) for column in schema.columns} | {SEQ: ("long", SEQ_ID)}
    loose = {column.name for column in schema.columns if column.nullable or column.null_before}
    found = {column.name: column for column in live_columns(schema_json)}
    return found.keys() == wanted.keys() and all(
        column.type == wanted[name][0]
        and column.id in (None, wanted[name][1])
        and (column.nullable or name not in loose)  # a NULL could not be committed
        for name, column in found.items()
    )


def _delta_type(type_: ColumnType) -> str:
    return f"decimal({type_.precision},{type_.scale})" if type_.name == "DECIMAL" else _DELTA[type_.name]


def _text(delta_type: object) -> str:
    return delta_type if isinstance(delta_type, str) else json.dumps(delta_type, sort_keys=True)


def _id(metadata: dict[str, object]) -> int | None:
    value = metadata.get("lakewarden.id")
    return int(value) if isinstance(value, int | float | str) else None


# Columns as they were found, made those that are wanted: by their ids, older types widened, absent ones with the value that
# rows have that are older than the column.

_INITIAL, _TYPE = "lakewarden.initial", "lakewarden.type"


def field_id(field: pa.Field[Any]) -> int:
    return int((field.metadata or {})[b"PARQUET:field_id"])


def with_initial(field: pa.Field[Any], column: SchemaColumn) -> pa.Field[Any]:
    """The field, which then tells the value of rows that are older than the column."""
    if column.initial is None:
        return field
    kept = {"PARQUET:field_id": str(column.id), _INITIAL: column.initial, _TYPE: str(column.type)}
    return pa.field(field.name, field.type, metadata=kept)


def fitted(found: pa.Table, wanted: pa.Schema, names: Mapping[int, str], where: str) -> pa.Table:
    """The wanted columns out of what was found; `names` are those of the found columns, by id."""
    arrays = [_column(found, names.get(field_id(field)), field, where) for field in wanted]
    return pa.Table.from_arrays(arrays, names=wanted.names)


def _absent(field: pa.Field[Any], count: int) -> pa.Array[Any]:
    kept = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    if _INITIAL in kept:
        return initial_values(kept[_INITIAL], ColumnType.parse(kept[_TYPE]), count)
    nulls: pa.Array[Any] = pa.nulls(count, field.type)
    return nulls


def constant(text: str | None, count: int) -> pa.Array[Any]:
    """A column of that one text, in a byte a row; `fitted` makes it one of the wanted type."""
    # of a buffer of zeros: NumPy's array would be converted, for each small file anew
    first = pa.Array.from_buffers(pa.int8(), count, [None, pa.py_buffer(bytes(count))])
    return pa.DictionaryArray.from_arrays(first, pa.array([text], pa.string()))


def _filled(column: pa.ChunkedArray[Any], kind: pa.DataType) -> pa.ChunkedArray[Any]:
    whole: Any = column.combine_chunks()
    (text,) = whole.dictionary.to_pylist()
    return pa.chunked_array([filled(text, len(column), kind)])


def _column(found: pa.Table, name: str | None, field: pa.Field[Any], where: str) -> pa.ChunkedArray[Any]:
    if name is None:
        return pa.chunked_array([_absent(field, found.num_rows)])
    column = found.column(name)
    if column.type == field.type:
        return column
    try:
        if isinstance(column.type, pa.DictionaryType):  # the one value of a partition column, as the log spells it
            return _filled(column, field.type)
        return column.cast(field.type)
    except (pa.ArrowException, ValueError) as error:
        raise Corrupt(f"{where} has {name} as {column.type}, which does not fit {field.type}: {error}") from error
