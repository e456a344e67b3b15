"""What a file that Spark wrote is, told from its footer alone: what all of its rows would tell."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakewarden.base.connection import Location
from lakewarden.catalog.model import TableSchema
from lakewarden.delta.parquet.files import NewFile, write_files
from lakewarden.delta.parquet.reading import open_file, spark_file
from lakewarden.delta.parquet.schema import file_schema
from lakewarden.errors import Corrupt
from lakewarden.maintenance.verify import formats
from lakewarden.maintenance.verify.contents import named_in_data
from lakewarden.storage.open import open_store
from tests.delta.scopes import PEOPLE, schema, stats_of, target

pytestmark = pytest.mark.disk  # pyarrow writes the file, as Spark would

_TYPES = {
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DOUBLE": st.floats(),
    "BOOLEAN": st.booleans(),
    "TEXT": st.text(st.characters(exclude_categories=["Cs"]), max_size=70),
    "BYTES": st.binary(max_size=5),
    "DATE": st.integers(-(2**31), 2**31 - 1),
    "TIMESTAMP": st.integers(-(2**62), 2**62),
    "DECIMAL(9,2)": st.decimals(min_value=-9_999_999, max_value=9_999_999, places=2),
    "DECIMAL(38,10)": st.decimals(min_value=-(10**20), max_value=10**20, places=10),
}
_LONG_TEXT = st.integers(0, 5_000).map("x".__mul__) | st.text(st.characters(exclude_categories=["Cs"]), max_size=70)
_WRITTEN = _TYPES | {"FLOAT": st.floats(width=32), "TEXT": _LONG_TEXT}
_EVERY = schema(*(f"c{number} {type_}" for number, type_ in enumerate(_TYPES)))
_OWN = schema(*(f"c{number} {type_}" for number, type_ in enumerate(_WRITTEN)))
_DOUBLE = "c2"
_ROWS = st.lists(st.tuples(*(st.none() | values for values in _TYPES.values())), min_size=1, max_size=12)


@pytest.mark.slow
@given(rows=_ROWS, group=st.integers(1, 5))
def test_statistics_are_those_of_all_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]], group: int
) -> None:
    table = _every([(*row, number) for number, row in enumerate(rows, 7)])
    made = _told(tmp_path_factory.mktemp("scope"), table, group)
    assert (made.rows, made.min_seq, made.max_seq, made.schema_version) == (len(rows), 7, 6 + len(rows), 1)
    known = json.loads(stats_of(table))
    for ends in ("minValues", "maxValues"):
        known[ends].pop(_DOUBLE, None)  # a footer does not tell whether there was a NaN
    assert json.loads(made.stats) == known


def _numbers(value: float) -> tuple[Any, ...]:
    """A row with this number in its floating columns alone."""
    return tuple(value if kind in ("DOUBLE", "FLOAT") else None for kind in _WRITTEN)


@example(rows=[_numbers(1.0), _numbers(math.nan)])
@given(rows=st.lists(st.tuples(*(st.none() | values for values in _WRITTEN.values())), max_size=12))
def test_what_we_write_has_the_statistics_of_its_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]]
) -> None:
    """The footer of our own writer tells most of them; floating numbers and long texts are looked at."""
    table = _table(_OWN, [(*row, number) for number, row in enumerate(rows, 7)])
    made = write_files(target(tmp_path_factory.mktemp("scope"), _OWN), table, lambda: "batch-0-x.parquet")[0]
    assert json.loads(made.stats) == json.loads(stats_of(table))
    assert (made.min_seq, made.max_seq) == ((7, 6 + len(rows)) if rows else (None, None))


@pytest.mark.slow
def test_a_long_footer_and_long_values(tmp_path: Path) -> None:
    """A footer of more than one read; values of which Parquet keeps no ends."""
    table = _every([(None, 1, None, None, "x" * 5_000 if number == 500 else "y", *[None] * 5, number) for number in range(1_000)])
    made = _told(tmp_path, table, 1)
    stats = json.loads(made.stats)
    assert (made.rows, made.min_seq, made.max_seq, stats["minValues"]) == (1_000, 0, 999, {"c1": 1, "_seq": 0})
    assert stats["nullCount"]["c3"] == 1_000


def test_other_columns_are_refused(tmp_path: Path) -> None:
    table = _every([(*[None] * len(_TYPES), 1)])
    changed = table.set_column(7, "c7", table.column("c7").cast(pa.timestamp("ns", "UTC")))
    with pytest.raises(Corrupt, match="not with the requested ones"):
        _told(tmp_path, changed, 1)


def test_whose_it_is_stands_with_a_column(tmp_path: Path) -> None:
    """Both the library's and the search's readers find it there."""
    said = {"lakewarden.user": "u_1", "lakewarden.table": "chat.people", "lakewarden.schema_version": "3"}
    columns = [{"name": name, "metadata": said if name == "_seq" else {}} for name in ("id", "name", "_seq")]
    table = pa.Table.from_pylist([{"id": 1, "name": "n", "_seq": 4}], file_schema(PEOPLE))
    marked = {"org.apache.spark.sql.parquet.row.metadata": json.dumps({"type": "struct", "fields": columns})}
    pq.write_table(table.replace_schema_metadata(marked), tmp_path / "part.parquet")

    opened = open_file(open_store(Location(str(tmp_path))), "part.parquet")
    assert (opened.footer.rows, opened.footer.schema_version) == (1, 3)
    assert opened.names({}) == {1: "id", 2: "name", 2**31 - 1: "_seq"}
    data = (tmp_path / "part.parquet").read_bytes()
    assert named_in_data(data, "u_1", {"chat.people"}) == "its footer names the user"
    assert named_in_data(data, "u_2", {"chat.people"}) == ""
    assert (formats.footer(data) or {}).keys() >= said.keys()


def _told(place: Path, rows: pa.Table, group: int) -> NewFile:
    """What `spark_file` tells of these rows, in row groups of so many."""
    pq.write_table(rows, place / "part.parquet", row_group_size=group, store_schema=False, store_decimal_as_integer=True)
    return spark_file(target(place, _EVERY), "part.parquet", (place / "part.parquet").stat().st_size)


def _every(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    return _table(_EVERY, rows)


def _table(declared: TableSchema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    wanted = file_schema(declared)
    if not rows:
        return wanted.empty_table()
    columns = zip(zip(*rows, strict=True), wanted, strict=True)
    return pa.Table.from_arrays([_array(values, field.type) for values, field in columns], schema=wanted)


def _array(values: Sequence[Any], type_: pa.DataType) -> pa.Array[Any]:
    days_or_micros = pa.int32() if pa.types.is_date(type_) else pa.int64() if pa.types.is_timestamp(type_) else type_
    return pa.array(values, days_or_micros).cast(type_)


def test_a_footer_says_whose_rows_the_file_holds(tmp_path: Path) -> None:
    own, shared = target(tmp_path / "own"), target(tmp_path / "shared", user=None)
    rows = pa.table({"id": [1], "name": ["a"], "_seq": [1]})

    files = [(scope, write_files(scope, rows, lambda: "batch-0-x.parquet")[0].path) for scope in (own, shared)]

    found = [open_file(open_store(scope.location), path).footer for scope, path in files]
    assert [(footer.table, footer.user) for footer in found] == [("chat.people", "u_1"), ("chat.people", None)]
