"""Columns that are kept in memory: the same rows, fewer reads, and never more bytes than allowed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.reading import OpenDataFile, open_file
from lakewarden.delta.parquet.schema import file_schema
from lakewarden.delta.reading.column_cache import ColumnCache
from lakewarden.delta.table import ScopeTable
from lakewarden.storage.open import open_store
from tests.delta.scopes import flush, people, table_of, target


class _Reader:
    """A cache over one table, which counts how often a file is opened."""

    def __init__(self, scope: ScopeTarget, max_bytes: int) -> None:
        self._scope = scope
        self._cache = ColumnCache(max_bytes)
        self.opened = 0

    def read(self, *names: str) -> list[dict[str, object]]:
        table: ScopeTable = table_of(self._scope)
        schema = file_schema(self._scope.schema)
        wanted = pa.schema([schema.field(name) for name in names])
        ids = table.column_ids(self._scope.schemas)
        parts = [self._cache.rows(table.uri, file, wanted, ids, partial(self._open, file.path)) for file in table.files()]
        return pa.concat_tables(parts).to_pylist()

    def _open(self, path: str) -> OpenDataFile:
        self.opened += 1
        return open_file(open_store(self._scope.location), path)


@pytest.fixture
def scope(tmp_path: Path) -> ScopeTarget:
    made = target(tmp_path / "people")
    flush(made, people(1, 2))
    return made


def test_a_column_is_read_once(scope: ScopeTarget) -> None:
    reader = _Reader(scope, 1 << 20)
    assert reader.read("id") == reader.read("id") == [{"id": 1}, {"id": 2}]
    assert reader.opened == 1
    assert reader.read("name", "id") == reader.read("name", "id") == people(1, 2)
    assert reader.opened == 2
    flush(scope, people(3), first_seq=10)
    assert sorted(str(row["name"]) for row in reader.read("name")) == ["n1", "n2", "n3"]
    assert reader.opened <= 4


@pytest.mark.parametrize("max_bytes", [0, 100])
def test_what_is_too_large_is_not_kept(scope: ScopeTarget, max_bytes: int) -> None:
    reader = _Reader(scope, max_bytes)
    assert reader.read("id", "name") == reader.read("id", "name") == people(1, 2)
    assert reader.opened == 2


def test_the_oldest_go_first(tmp_path: Path) -> None:
    cache = ColumnCache(64)
    opened: list[int] = []

    def read(number: int) -> None:
        scope = target(tmp_path / str(number))
        if not (tmp_path / str(number)).exists():
            flush(scope, people(1))
        table = table_of(scope)
        (file,) = table.files()
        wanted = pa.schema([file_schema(scope.schema).field("id")])

        def open_() -> OpenDataFile:
            opened.append(number)
            return open_file(open_store(scope.location), file.path)

        cache.rows(table.uri, file, wanted, table.column_ids(scope.schemas), open_)

    for number in (0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 0):
        read(number)
    assert opened == [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]
    assert 0 < cache._kept._size <= 64
