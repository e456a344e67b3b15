"""Some live files of a scope's table: all that is needed to read them, in another process too, where no table is opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope
from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import DataFile, NewFile
from lakewarden.delta.parquet.reading import OpenDataFile, open_file
from lakewarden.delta.parquet.schema import column_ids, read_schema
from lakewarden.delta.reading.column_cache import ColumnCache
from lakewarden.delta.reading.keys import Keys
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Corrupt
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store


@dataclass(frozen=True)
class FileGroup:
    """Files of one version of a plain table, and the columns that are wanted of them."""

    location: Location
    scope: Scope | None
    files: tuple[DataFile, ...]
    wanted: pa.Schema
    column_ids: Mapping[str, int]

    @classmethod
    def of(
        cls, table: ScopeTable, files: Iterable[DataFile], schemas: tuple[TableSchema, ...], columns: Sequence[str] | None = None
    ) -> FileGroup:
        """`columns`: names of the newest schema, and `_seq`; None for all."""
        wanted = wanted_schema(schemas[-1], None if columns is None else tuple(columns))
        return cls(table.location, table.scope, tuple(files), wanted, table.column_ids(schemas))

    @classmethod
    def of_new(cls, target: ScopeTarget, file: NewFile) -> FileGroup:
        """A file of the newest schema that no version names yet."""
        there = DataFile(file.path, file.size, file.rows, 0, file.min_seq, file.max_seq, file.schema_version, file.partition)
        return cls(target.location, None, (there,), wanted_schema(target.schema, None), column_ids(target.schema))

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    def singly(self) -> Iterator[FileGroup]:
        """Each file by itself."""
        return (replace(self, files=(file,)) for file in self.files)

    def empty(self) -> pa.Table:
        return pa.schema([(field.name, field.type) for field in self.wanted]).empty_table()

    def read(self, cache: ColumnCache | None = None) -> pa.Table:
        """The rows, under the newest schema.

        Raises:
            Corrupt: a file is missing or unreadable.
        """
        store = open_store(self.location)
        parts = []
        for file in self.files:
            opened = partial(self._opened, store, file)
            if cache is None:
                parts.append(opened().read(self.wanted, self.column_ids))
            else:
                parts.append(cache.rows(self.location.uri, file, self.wanted, self.column_ids, opened))
        return pa.concat_tables(parts) if parts else self.empty()

    def with_keys(self, keys: Keys) -> pa.Table:
        """The rows with these keys. Of a file that has none, nothing but the key's columns is read. Raises as `read`."""
        store = open_store(self.location)
        columns = pa.schema([self.wanted.field(name) for name in keys.primary_key])
        parts = []
        for file in self.files:
            opened = self._opened(store, file)
            there = pc.is_valid(keys.places(opened.read(columns, self.column_ids)))
            if pc.any(there).as_py():
                parts.append(opened.read(self.wanted, self.column_ids).filter(there))
        return pa.concat_tables(parts) if parts else self.empty()

    def _opened(self, store: ObjectStore, file: DataFile) -> OpenDataFile:
        """Raises Corrupt: the file is missing or unreadable, or says that its rows are another scope's."""
        opened = open_file(store, file.path, file.partition)
        if self.scope is not None and opened.footer.of_another(self.scope):
            raise Corrupt(f"{self.location.uri}/{file.path} holds rows of another scope than {self.scope}: it was copied there")
        return opened


@lru_cache(maxsize=1024)
def wanted_schema(schema: TableSchema, columns: tuple[str, ...] | None) -> pa.Schema:
    """Some columns, or all, as they are read."""
    every = read_schema(schema)
    return every if columns is None else pa.schema([every.field(name) for name in columns])
