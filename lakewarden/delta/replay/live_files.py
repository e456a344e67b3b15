"""The live files of a version as Arrow columns: a table may have millions, and none of them becomes an object of Python's."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute

from lakewarden.delta.replay.actions import AddFile, Vector
from lakewarden.delta.replay.paths import PLAIN, key_of
from lakewarden.errors import Corrupt, Unsupported

pc: Any = pyarrow.compute
"""Its stubs do not know chunked columns."""

MOST_UNPACKED = 1 << 30
"""Bytes of a checkpoint's files in memory."""

_FEW = 500
"""Files up to which a loop in Python costs less than the calls of Arrow's functions in its place (25 µs each)."""

_TEXTS = pa.map_(pa.string(), pa.string())

_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int64()),
        ("sizeInBytes", pa.int64()),
        ("cardinality", pa.int64()),
    ]
)

_SAID = pa.schema(
    [
        ("path", pa.string()),
        ("partitionValues", _TEXTS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("stats", pa.string()),
        ("tags", _TEXTS),
        ("deletionVector", _VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)
"""What a log says of a file, under the names that it has there."""

FILES = pa.schema([("key", pa.string()), ("vectorId", pa.string()), *_SAID])
"""The columns of live files: `key` as of `paths.key_of`, and `vectorId`, which is empty without a vector, tell them apart."""

NO_FILES = pa.Table.from_batches([], schema=FILES)  # `empty_table` would load pandas, for every command

FileKey = tuple[str, str]
"""Key and vector id."""


def whole(files: pa.Table, name: str) -> Any:
    """A column as one array: kernels of Arrow end the process where they are handed columns that are cut differently, and
    `indices_nonzero` does where it is handed one that is cut at all."""
    column = files.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def matching(texts: Any, pattern: re.Pattern[str]) -> Any:
    """Which of the texts the pattern matches as a whole; it has to be one that RE2 reads likewise. Arrow compiles it for each
    call, which takes as long as to look at hundreds of texts in Python."""
    if len(texts) > _FEW:
        return pc.match_substring_regex(texts, f"^(?:{pattern.pattern})$")
    return pa.array([pattern.fullmatch(each) is not None for each in texts.to_pylist()], pa.bool_())


def said_columns(names: Collection[str]) -> list[str]:
    """Of the columns that an `add` of a checkpoint has, those that are read."""
    return [name for name in _SAID.names if name in names]


def of_checkpoint(adds: pa.StructArray, root: str) -> pa.Table:
    """The `add` column of a part of a checkpoint. `root` as for `key_of`.

    Raises:
        pa.ArrowException: a column has a type that Delta's protocol does not give it.
    """
    found: dict[str, pa.Array[Any]] = dict(zip((field.name for field in adds.type), adds.flatten(), strict=True))
    there = found["path"].is_valid()
    count = there.true_count
    columns: dict[str, pa.Array[Any]] = {}
    for field in _SAID:
        column = found.get(field.name)
        if column is None or column.null_count == len(column):
            columns[field.name] = pa.nulls(count, field.type)
        else:
            columns[field.name] = _as(column.filter(there), field.type)
    files = _keyed(columns, root)
    files.validate(full=True)  # else a text that is no UTF-8 shows where it is used, and as no error of the file's
    return files


def of_adds(adds: Sequence[AddFile], root: str) -> pa.Table:
    """The same of actions of commits.

    Raises:
        Corrupt: a number or a text of theirs is not one that Delta allows.
    """
    if not adds:
        return NO_FILES
    said = [msgspec.to_builtins(each) | {"partitionValues": each.partition_values or {}} for each in adds]
    try:
        rows: Any = pa.array(said, pa.struct([*_SAID]))
        return _keyed(dict(zip(_SAID.names, rows.flatten(), strict=True)), root)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise Corrupt(f"an add is not as Delta's protocol has it: {error}") from error


def without(files: pa.Table, gone: Collection[FileKey]) -> pa.Table:
    """The files but for those."""
    if not gone or not files.num_rows:
        return files
    if files.num_rows <= _FEW:
        keys = zip(*(files.column(name).to_pylist() for name in ("key", "vectorId")), strict=True)
        kept = [key not in gone for key in keys]
        return files if all(kept) else files.filter(pa.array(kept))
    keys = whole(files, "key")
    places = pc.indices_nonzero(pc.is_in(keys, value_set=pa.array({key for key, _ in gone}, pa.string())))
    pairs = zip(keys.take(places).to_pylist(), whole(files, "vectorId").take(places).to_pylist(), strict=True)
    drop = [place for place, pair in zip(places.to_pylist(), pairs, strict=True) if pair in gone]
    if not drop:
        return files
    keep = pc.invert(pc.is_in(pa.array(range(files.num_rows), pa.int64()), value_set=pa.array(drop, pa.int64())))
    return files.filter(keep)


def vectors_of(files: pa.Table) -> list[Vector | None]:
    """The vector of each file."""
    return _vectors(files.column("deletionVector"))


def _vectors(column: Any) -> list[Vector | None]:
    if column.null_count == len(column):
        return [None] * len(column)
    fields = "storageType", "pathOrInlineDv", "sizeInBytes", "cardinality", "offset"
    return [None if said is None else Vector(*map(said.__getitem__, fields)) for said in column.to_pylist()]


def _keyed(columns: dict[str, pa.Array[Any]], root: str) -> pa.Table:
    arrays = [_keys(columns["path"], root), _vector_ids(columns["deletionVector"]), *columns.values()]
    return pa.Table.from_arrays(arrays, schema=FILES)


def _keys(paths: pa.Array[Any], root: str) -> pa.Array[Any]:
    if len(paths) > _FEW and pc.all(matching(paths, PLAIN)).as_py() is not False:
        return paths
    return pa.array([key_of(str(path), root) for path in paths.to_pylist()], pa.string())


def _vector_ids(vectors: pa.Array[Any]) -> pa.Array[Any]:
    if vectors.null_count == len(vectors):
        return pa.repeat("", len(vectors))
    return pa.array(["" if each is None else each.id for each in _vectors(vectors)], pa.string())


def _as(column: Any, kind: Any) -> Any:
    if column.type == kind:
        return column
    if pa.types.is_struct(kind) and pa.types.is_struct(column.type):
        parts = dict(zip((field.name for field in column.type), column.flatten(), strict=True))
        arrays = [_as(parts[each.name], each.type) if each.name in parts else pa.nulls(len(column), each.type) for each in kind]
        return pa.StructArray.from_arrays(arrays, fields=[*kind], mask=column.is_null())
    if pa.types.is_map(kind) and pa.types.is_map(column.type):
        keys, values = _as(column.keys, kind.key_type), _as(column.items, kind.item_type)
        made: Any = pa.MapArray.from_arrays
        return made(column.offsets, keys, values, kind, mask=column.is_null() if column.null_count else None)
    if pa.types.is_dictionary(column.type):
        _check_length(column)
    return column.cast(kind)


def _check_length(column: Any) -> None:
    """Call this before the texts of a dictionary are written out.

    Raises:
        Unsupported: they would have too many bytes.
    """
    if len(column) * column.dictionary.nbytes <= MOST_UNPACKED:
        return
    length = pc.sum(pc.take(pc.cast(pc.binary_length(column.dictionary), pa.int64()), column.indices)).as_py() or 0
    if length > MOST_UNPACKED:
        raise Unsupported(f"a checkpoint has more bytes in memory than are read: {length:,} of one column")
