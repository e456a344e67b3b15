"""Reads the footer of a data file: its own properties, and those of a file that Spark wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.failures import file_errors
from lakewarden.delta.parquet.column_ends import of_file
from lakewarden.delta.parquet.files import PARTITION_KEY, SETTLED_KEY, TABLE_KEY, USER_KEY, VERSION_KEY, NewFile, new_file
from lakewarden.delta.parquet.schema import SEQ, file_schema
from lakewarden.errors import Corrupt
from lakewarden.storage.open import open_store

_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_MAGIC = b"PAR1"
_ENDING = 8
"""A footer's length and the magic bytes, at the very end."""

_TAIL = 64 << 10
"""Bytes that are read at first: the footer of a few dozen columns and row groups."""


@dataclass(frozen=True)
class Footer:
    """What a data file tells about itself: whose rows it holds, and of which schema version. A file of others says neither."""

    rows: int
    schema_version: int | None
    table: str | None = None
    user: str | None = None
    """None in files of a SHARED table too."""
    settled_upto: int | None = None
    """The last possible `_seq` of what the flush that wrote it took from the log: its rows survived all deletions up to there."""
    partition: Mapping[int, str | None] = field(default_factory=dict)
    """The values of its partition columns as the log spells them, by the columns' ids."""

    def of_another(self, scope: Scope) -> bool:
        """Whether it says that it is another scope's. A file of others says nothing."""
        return self.table is not None and (self.table, self.user) != (str(scope.table), scope.user)


def footer_of(metadata: pq.FileMetaData) -> Footer:
    keys = metadata.metadata or {}
    version, table, user, settled = (_said(keys, key) for key in (VERSION_KEY, TABLE_KEY, USER_KEY, SETTLED_KEY))
    upto = None if settled is None else int(settled)
    partition: dict[int, str | None] = dict(json.loads(keys.get(PARTITION_KEY, b"[]")))
    return Footer(metadata.num_rows, None if version is None else int(version), table, user, upto, partition)


def spark_file(target: ScopeTarget, path: str, size: int) -> NewFile:
    """A file of the newest schema's columns and `_seq` that Spark wrote, by one read of its end, or two.

    Raises:
        Corrupt: it has not these columns, or is no Parquet.
    """
    metadata = _read(target.location, path, size)
    schema = file_schema(target.schema)
    with file_errors(path):
        found = metadata.schema.to_arrow_schema()
    if [(field.name, field.type) for field in found] != [(field.name, field.type) for field in schema]:
        raise Corrupt(
            f"Spark wrote {path} with the columns {found.to_string(show_field_metadata=False)}, not with the requested ones"
        )
    return new_file(target, path, size, metadata.num_rows, of_file(metadata, schema))


def _said(keys: Mapping[bytes, bytes], key: bytes) -> str | None:
    found = keys.get(key)
    return _spark_key(keys, key.decode()) if found is None else found.decode()


def _spark_key(keys: Mapping[bytes, bytes], name: str) -> Any:
    """Spark's writer takes no keys of ours, but keeps what a column's metadata say: they stand with `_seq`."""
    schema = json.loads(keys[_SPARK_SCHEMA]) if _SPARK_SCHEMA in keys else {"fields": []}
    return next((field["metadata"].get(name) for field in schema["fields"] if field["name"] == SEQ), None)


def _read(location: Location, path: str, size: int) -> pq.FileMetaData:
    store = open_store(location)
    tail = store.get_range(path, max(0, size - _TAIL), min(size, _TAIL))
    length = int.from_bytes(tail[-_ENDING:-4], "little") + _ENDING
    if length > len(tail):
        tail = store.get_range(path, size - length, length)
    with file_errors(path):
        return pq.read_metadata(pa.BufferReader(_MAGIC + tail))
