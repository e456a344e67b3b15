"""A bit of a data file that turned over is found, or changes no value."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.delta.reading.rows import read_rows
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Corrupt
from tests.delta.scopes import flush, paths, people, target

pytestmark = pytest.mark.disk


@pytest.mark.slow
def test_each_byte_of_a_file_matters_or_does_not(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1, 2, 3))
    (name,) = paths(scope)
    path = tmp_path / "t" / name
    data = path.read_bytes()

    def rows() -> pa.Table:
        table = ScopeTable.open(scope.location)
        assert table is not None
        return read_rows(table, scope.schemas)

    right = rows()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        assert _rows(rows, name) in (right, "corrupt"), at


@given(st.binary(max_size=200))
def test_what_is_no_parquet_at_all_is_corrupt(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    scope = target(tmp_path_factory.mktemp("t"))
    flush(scope, people(1))
    (name,) = paths(scope)
    Path(scope.uri, name).write_bytes(data)
    table = ScopeTable.open(scope.location)
    assert table is not None
    with pytest.raises(Corrupt, match=name):
        read_rows(table, scope.schemas)


def _rows(read: object, name: str) -> pa.Table | str:
    assert callable(read)
    try:
        found: pa.Table = read()
    except Corrupt as error:
        return "corrupt" if name in error.message else str(error)
    return found
