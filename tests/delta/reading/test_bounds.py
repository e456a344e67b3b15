"""Files are passed over by their bounds only where no row of theirs can be wanted."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from lakewarden.delta.reading.bounds import Bound, files_within, key_bounds
from tests.delta.scopes import flush, people, schema, table_of, target
from tests.fixtures.bucket import AnyPath


@pytest.mark.parametrize(
    ("bound", "first_ids"),
    [
        (Bound("id", 19, 30), [10, 20, 30]),
        (Bound("id", 20, 29), [20]),
        (Bound("id", None, 10), [10]),
        (Bound("id", 39, None), [30]),
        (Bound("id", 40, None), []),
        (Bound("name", "n19", "n19"), [10]),
        (Bound("name", "n2", "n20"), [20]),
    ],
    ids=str,
)
def test_a_row_on_a_bound_is_within_it(tmp_path: AnyPath, bound: Bound, first_ids: list[int]) -> None:
    scope = target(tmp_path)
    for start in (10, 20, 30):
        flush(scope, people(*range(start, start + 10)), first_seq=start)
    assert [file.min_seq for file in files_within(table_of(scope), [bound])] == first_ids


def test_the_only_file_is_passed_over_too(tmp_path: AnyPath) -> None:
    scope = target(tmp_path)
    flush(scope, people(1, 2), first_seq=1)
    assert len(files_within(table_of(scope), [Bound("id", 2, 3)])) == 1
    assert files_within(table_of(scope), [Bound("id", 3, 4)]) == []


def test_files_are_passed_over_by_a_decimal_key(tmp_path: AnyPath) -> None:
    scope = target(tmp_path, schema("id DECIMAL(10,2) NOT NULL", "name TEXT"))
    for start in (10, 20, 30):
        flush(scope, [{"id": Decimal(start) + Decimal("0.25"), "name": "n"}], first_seq=start)
    keys = pa.table({"id": pa.array([Decimal("20.25")], pa.decimal128(10, 2))})
    assert [file.min_seq for file in files_within(table_of(scope), key_bounds(["id"], keys))] == [20]
