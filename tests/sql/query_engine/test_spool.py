"""A spool yields the rows that it took, in their order, as often as they are needed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakewarden.sql.query_engine.engine import Spool


@pytest.mark.parametrize(("memory_bytes", "in_memory"), [(1 << 20, True), (100, False), (0, False)])
def test_rows_come_as_they_were_added_from_memory_or_from_disk(memory_bytes: int, in_memory: bool) -> None:
    spool = Spool(memory_bytes)
    for first in range(0, 60, 6):  # 48 bytes each: two are held before all go to the file
        spool.add(pa.table({"n": pa.array(range(first, first + 6), pa.int64())}))
    assert spool.in_memory is in_memory
    for _ in range(2):
        assert pa.concat_tables(list(spool.tables())).column("n").to_pylist() == [*range(60)]


def test_a_result_without_rows_has_its_columns() -> None:
    for memory_bytes in (0, 100):
        spool = Spool(memory_bytes)
        spool.add(pa.table({"n": pa.array([], pa.int64())}))
        assert [rows.column_names for rows in spool.tables()] == [["n"]]
        assert spool.in_memory
