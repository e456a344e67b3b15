"""Which files a compaction takes."""

from __future__ import annotations

import pytest

from lakewarden.catalog.kept_settings import TailRule
from lakewarden.delta.parquet.files import DataFile
from lakewarden.tables.upkeep_files import fitting, small_run

_RULE = TailRule(min_files=4, max_files=8, max_rows=10_000)


def _newest_first(*rows: int | None) -> list[DataFile]:
    """Files of these row counts, given oldest first as the specification gives them."""
    return [DataFile(f"f{place}", 1, count, 0, place, place) for place, count in enumerate(rows)][::-1]


def _taken(*rows: int | None, rule: TailRule = _RULE) -> list[int | None]:
    return [file.rows for file in fitting(small_run(_newest_first(*rows), rule), rule)][::-1]


@pytest.mark.parametrize(
    ("rows", "taken"),
    [
        ([10_000, 3_000, 3_000, 3_000, 1_000, 1_000], [3_000, 3_000, 1_000, 1_000]),
        ([2_000, 10_000, 1_000, 1_000, 1_000, 1_000], [1_000, 1_000, 1_000, 1_000]),
        ([10_000, 2_000, 2_000, 2_000], []),
    ],
)
def test_the_vectors_of_the_specification(rows: list[int], taken: list[int]) -> None:
    assert _taken(*rows) == taken


def test_the_longest_specified_run_has_five_files() -> None:
    assert len(small_run(_newest_first(10_000, 3_000, 3_000, 3_000, 1_000, 1_000), _RULE)) == 5


def test_no_more_files_than_a_run_may_take() -> None:
    assert _taken(*[1] * 20) == [1] * 8


def test_a_file_as_large_as_the_bound_ends_the_run() -> None:
    assert _taken(1, 1, 1, 1, 10_000, 1, 1, 1) == []


def test_a_file_whose_rows_nobody_counted_ends_the_run() -> None:
    assert _taken(1, 1, 1, 1, None, 1, 1, 1) == []


def test_the_sum_of_the_rows_may_reach_the_bound() -> None:
    assert _taken(5_000, 2_000, 3_000, 5_000) == [2_000, 3_000, 5_000]


def test_one_file_alone_is_no_compaction() -> None:
    assert _taken(9_999, 9_999, 9_999, 9_999) == []
