"""The columns of a table of any writer: under which name or id each of its files has them, and the values that a file lacks.

Sources: Delta's protocol, "Schema Serialization Format", "DeltaColumn Mapping", "Partition Value Serialization", "Type Widening",
"Delta Data Type to Parquet Type Mappings". No type and no name of what is read is taken from a file: writers differ in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewarden.base.connection import Location
from lakewarden.delta.failures import file_errors
from lakewarden.delta.partitions import filled
from lakewarden.delta.replay.actions import Metadata, Vector
from lakewarden.delta.replay.live_files import vectors_of
from lakewarden.delta.replay.log_state import LogState
from lakewarden.delta.replay.paths import check_inside
from lakewarden.delta.replay.vectors import mask_of
from lakewarden.errors import Corrupt, InvalidArgument, Unsupported
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store

_PLAIN: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
    "null": pa.null(),
    "decimal": pa.decimal128(10, 0),
}

_DECIMAL = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")
_TEXT = re.compile(r"(?:var)?char\(\d+\)")
_DEEPEST = 100
"""Levels of a nested type: more than any engine writes."""

_MAPPING = "delta.columnMapping."

Stored = Any
"""An Arrow array of any kind, which its stubs do not know together."""

_absent: Any = pa.nulls


@dataclass(frozen=True)
class DeltaColumn:
    """A column, or a field of one. `stored` is its name in files, `id` its Parquet field id where files are read by those."""

    name: str
    type: pa.DataType
    nullable: bool
    stored: str
    id: int | None = None
    parts: tuple[DeltaColumn, ...] = ()
    """Of a struct its fields, of a list its element, of a map its key and its value."""


@dataclass(frozen=True)
class DeltaColumns:
    """The columns of one version of a table. The names of partition columns in the log are those in files, too."""

    every: tuple[DeltaColumn, ...]
    partition: tuple[DeltaColumn, ...]

    @classmethod
    def of(cls, metadata: Metadata) -> DeltaColumns:
        """Raises:
        Corrupt: the schema is not as Delta's protocol has it, or lacks a partition column.
        Unsupported: a column has a type that is not read, as VARIANT.
        """
        mode = metadata.property(f"{_MAPPING}mode") or "none"
        if mode not in ("none", "name", "id"):
            raise Unsupported(f"the table maps its columns by {mode[:40]!r}; only 'name' and 'id' are read")
        every = tuple(_fields(_schema(metadata.schema_string), mode, 0))
        by_name = {column.name: column for column in every}
        if missing := [name for name in metadata.partition_columns if name not in by_name]:
            raise Corrupt(f"the table is partitioned by {', '.join(missing)}, which is no column of it")
        return cls(every, tuple(by_name[name] for name in metadata.partition_columns))

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(column.name, column.type, column.nullable) for column in self.every])

    def only(self, names: Sequence[str]) -> DeltaColumns:
        """Some of the columns, in that order.

        Raises:
            InvalidArgument: there is no such column.
        """
        by_name = {column.name: column for column in self.every}
        if missing := [name for name in names if name not in by_name]:
            raise InvalidArgument(f"there is no column {', '.join(missing)}; there are {', '.join(by_name)}")
        return replace(self, every=tuple(by_name[name] for name in names))

    def stored(self, file: pa.Schema) -> list[str]:
        """Names of the columns of a file that are read."""
        names = (_found(column, file) for column in self.every if column not in self.partition)
        return [name for name in names if name is not None]

    def rows(self, file: pa.Table, partition: Mapping[str, str | None]) -> pa.Table:
        """The columns of a file's rows.

        Args:
            file: at least what `stored` names.
            partition: its values as the log has them.

        Raises:
            Corrupt: a value is not of its column's type.
        """
        return pa.Table.from_arrays([self._column(column, file, partition) for column in self.every], schema=self.schema)

    def _column(self, column: DeltaColumn, file: pa.Table, partition: Mapping[str, str | None]) -> Stored:
        if column in self.partition:
            return _of_partition(partition.get(column.stored), file.num_rows, column)
        name = _found(column, file.schema)
        if name is None:
            return _absent(file.num_rows, column.type)
        try:
            return _shaped(_whole(file.column(name)), column)
        except (pa.ArrowException, ValueError) as error:
            raise Corrupt(f"the column {column.name} of a data file is no {column.type}: {str(error)[:200]}") from error


def _of_partition(text: str | None, count: int, column: DeltaColumn) -> Stored:
    """Raises Corrupt: the text is no value of the column's type."""
    try:
        return filled(text, count, column.type)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        said = (text or "")[:100]
        raise Corrupt(f"the partition column {column.name} has the value {said!r}, which is no {column.type}") from error


class _Field(msgspec.Struct, frozen=True):
    name: str
    type: Any
    nullable: bool = True
    metadata: dict[str, Any] | None = None


class _Struct(msgspec.Struct, frozen=True):
    fields: tuple[_Field, ...]


def _schema(text: str | None) -> _Struct:
    if text is None:
        raise Corrupt("the table has no schema")
    try:
        return msgspec.json.decode(text, type=_Struct)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Corrupt(f"the table's schema is not as Delta's protocol has it: {str(error)[:200]}") from error


def _fields(struct: _Struct, mode: str, depth: int) -> Iterator[DeltaColumn]:
    for field in struct.fields:
        kind, parts = _type(field.type, field.name, mode, depth)
        metadata = field.metadata or {}
        stored = field.name if mode == "none" else metadata.get(f"{_MAPPING}physicalName", field.name)
        id_ = metadata.get(f"{_MAPPING}id") if mode == "id" else None
        yield DeltaColumn(field.name, kind, field.nullable, str(stored), id_ if isinstance(id_, int) else None, parts)


def _type(said: Any, name: str, mode: str, depth: int) -> tuple[pa.DataType, tuple[DeltaColumn, ...]]:
    if depth > _DEEPEST:
        raise Unsupported(f"a column of the table is nested deeper than {_DEEPEST} levels")
    match said:
        case str() if (plain := plain_type(said)) is not None:
            return plain, ()
        case {"type": "struct", "fields": [*fields]}:
            parts = tuple(_fields(_converted({"fields": fields}), mode, depth + 1))
            return pa.struct([pa.field(part.name, part.type, part.nullable) for part in parts]), parts
        case {"type": "array", "elementType": element}:
            part = _element("element", element, bool(said.get("containsNull", True)), mode, depth)
            return pa.list_(pa.field("element", part.type, part.nullable)), (part,)
        case {"type": "map", "keyType": key, "valueType": value}:
            left = _element("key", key, False, mode, depth)
            right = _element("value", value, bool(said.get("valueContainsNull", True)), mode, depth)
            items: Any = pa.field("value", right.type, right.nullable)
            return pa.map_(left.type, items), (left, right)
        case {"type": "udt", "sqlType": stored}:
            return _type(stored, name, mode, depth + 1)
    raise Unsupported(f"the column {name} has the type {str(said)[:100].upper()}, which is not read")


def _element(name: str, said: Any, nullable: bool, mode: str, depth: int) -> DeltaColumn:
    kind, parts = _type(said, name, mode, depth + 1)
    return DeltaColumn(name, kind, nullable, name, None, parts)


def plain_type(said: str) -> pa.DataType | None:
    """The type of values that Delta's schema names so; None where it is not read."""
    if (found := _DECIMAL.fullmatch(said)) and int(found[2]) <= int(found[1]) <= 38:
        return pa.decimal128(int(found[1]), int(found[2]))
    return pa.string() if _TEXT.fullmatch(said) else _PLAIN.get(said)


def _converted(said: object) -> _Struct:
    try:
        return msgspec.convert(said, _Struct)
    except msgspec.ValidationError as error:
        raise Corrupt(f"the table's schema is not as Delta's protocol has it: {error}") from error


def _found(column: DeltaColumn, there: pa.Schema | pa.StructType) -> str | None:
    """The name of a column in a file, or of a field in a struct of it: by its id, if the file has ids, else by its name."""
    fields = [*there]
    if column.id is not None and any(_id_of(field) is not None for field in fields):
        return next((field.name for field in fields if _id_of(field) == column.id), None)
    names = [field.name for field in fields]
    if column.stored in names:
        return column.stored
    alike = [name for name in names if name.casefold() == column.stored.casefold()]
    return alike[0] if len(alike) == 1 else None


def _id_of(field: pa.Field[Any]) -> int | None:
    said = (field.metadata or {}).get(b"PARQUET:field_id")
    return int(said) if said is not None else None


def _shaped(stored: Stored, column: DeltaColumn) -> Stored:
    """An array of a file in the column's own type, by the names and in the order that the table gives to its fields."""
    kind: Any = column.type
    if isinstance(stored.type, pa.BaseExtensionType):
        stored = stored.storage
    if pa.types.is_null(kind):
        return pa.nulls(len(stored))
    if pa.types.is_struct(kind):
        return _struct(stored, column)
    if pa.types.is_map(kind):
        _check_stored(pa.types.is_map(stored.type), stored)
        keys, values = _shaped(stored.keys, column.parts[0]), _shaped(stored.items, column.parts[1])
        return pa.MapArray.from_arrays(stored.offsets, keys, values, kind, mask=_nulls(stored))  # type: ignore[call-overload]
    if pa.types.is_list(kind):
        if not pa.types.is_list(stored.type):
            _check_stored(pa.types.is_large_list(stored.type) or pa.types.is_fixed_size_list(stored.type), stored)
            stored = stored.cast(pa.list_(stored.type.value_type))
        values = _shaped(stored.values, column.parts[0])
        return pa.ListArray.from_arrays(stored.offsets, values, kind, mask=_nulls(stored))  # type: ignore[call-overload]
    return pc.cast(stored, kind, safe=not pa.types.is_timestamp(kind))


def _struct(stored: Stored, column: DeltaColumn) -> Stored:
    _check_stored(pa.types.is_struct(stored.type), stored)
    there = dict(zip((field.name for field in stored.type), stored.flatten(), strict=True))
    arrays = []
    for part in column.parts:
        name = _found(part, stored.type)
        arrays.append(_absent(len(stored), part.type) if name is None else _shaped(there[name], part))
    kind: Any = column.type
    return pa.StructArray.from_arrays(arrays, fields=[*kind], mask=stored.is_null())


def _check_stored(is_alike: bool, stored: Stored) -> None:
    if not is_alike:
        raise pa.ArrowInvalid(f"it is stored as {stored.type}")


def _whole(column: pa.ChunkedArray[Any]) -> Stored:
    whole: Any = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _nulls(stored: Stored) -> Stored | None:
    return stored.is_null() if stored.null_count else None


# The rows of a replayed version: its files by the table's own columns, without the rows that vectors delete.


@dataclass(frozen=True)
class LiveFile:
    """A file of a version, and which of its rows are deleted."""

    key: str
    path: str
    """As the log has it."""
    partition: dict[str, str | None]
    vector: Vector | None


def all_rows(state: LogState, names: Sequence[str] | None = None) -> pa.Table:
    """All rows. `names` of columns; None for all.

    Raises:
        InvalidArgument: there is no such column.
        Corrupt: a file or a vector is missing or garbled.
        Unsupported: a column has a type that is not read.
        OutsideTable: a file or a vector is not in the table's own directory.
    """
    columns, store = DeltaColumns.of(state.metadata), open_store(state.location)
    if names is not None:
        columns = columns.only(names)
    parts = (part for file in _files(state) for part in _rows(file, columns, store, state.location))
    return pa.concat_tables([columns.schema.empty_table(), *parts])


def _files(state: LogState) -> Iterator[LiveFile]:
    """The live files, by their keys."""
    found = state.files.sort_by([("key", "ascending"), ("vectorId", "ascending")])
    for part in found.to_batches(max_chunksize=10_000):
        table = pa.Table.from_batches([part])
        partitions = table.column("partitionValues").to_pylist(maps_as_pydicts="lossy")
        named = zip(table.column("key").to_pylist(), table.column("path").to_pylist(), strict=True)
        for (key, path), values, vector in zip(named, partitions, vectors_of(table), strict=True):
            yield LiveFile(str(key), str(path), values or {}, vector)


def _rows(file: LiveFile, columns: DeltaColumns, store: ObjectStore, location: Location) -> Iterator[pa.Table]:
    source = _source(file, store, location)
    with file_errors(file.key):
        reader = pa.BufferReader(source) if isinstance(source, bytes) else pa.OSFile(source, "r")
        parquet = pq.ParquetFile(reader, pre_buffer=False, coerce_int96_timestamp_unit="us", page_checksum_verification=True)
        stored, metadata = columns.stored(parquet.schema_arrow), parquet.metadata
    mask = None if file.vector is None else mask_of(file.vector, metadata.num_rows, store, location)
    first = 0
    for number in range(metadata.num_row_groups):
        with file_errors(file.key):
            found = parquet.read_row_group(number, stored, use_threads=False)
        rows = columns.rows(found, file.partition)
        yield rows if mask is None else rows.filter(pa.array(~mask[first : first + found.num_rows]))
        first += found.num_rows


def _source(file: LiveFile, store: ObjectStore, location: Location) -> str | bytes:
    """A file by its path, and where that is not there, by what a writer who did not escape it meant."""
    for key in dict.fromkeys((check_inside(file.key, file.path, location.uri), file.path)):
        try:
            return store.source(check_inside(key, file.path, location.uri))
        except Missing:
            continue
    raise Corrupt(f"hollow: the data file {file.key} of {location.uri} is named by the log and missing")
