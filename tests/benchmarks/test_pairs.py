"""Comparisons of two commits: their statistics, and one of this commit with itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import width
from benchmarks.measuring.ratio import Ratio, ratio
from benchmarks.pairs import Requests, paired, side

_ROOT = Path(__file__).parent.parent.parent
_BOTH_SIDES = pytest.mark.skipif(not (_ROOT / ".venv").exists(), reason="each side runs in the .venv of its commit")


def test_equal_times_are_a_ratio_of_one_without_doubt() -> None:
    assert ratio([1.0, 2.0, 4.0], [1.0, 2.0, 4.0]) == Ratio(1.0, 1.0, 1.0)


def test_a_slow_moment_that_both_meet_changes_nothing() -> None:
    found = ratio([1.0, 10.0, 1.0], [1.2, 12.0, 1.2])
    assert (found.mean, found.low, found.high) == pytest.approx((1.2, 1.2, 1.2))


def test_the_interval_is_student_s() -> None:
    """Seven pairs whose logarithms have the mean 0.1 and the standard deviation 0.1: t(6) is 2.447, the error 0.1 / √7."""
    logs = [0.1 + 0.1 * (3 / 4) ** 0.5 * each for each in (-1.0, 1.0, -1.0, 1.0, -(2**0.5), 2**0.5, 0.0)]
    found = ratio([1.0] * 7, [2.718281828459045**each for each in logs])
    assert (found.mean, found.low, found.high) == pytest.approx((1.10517, 1.00754, 1.21227), abs=2e-5)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (Ratio(1.2, 1.06, 1.3), "slower"),
        (Ratio(1.2, 1.04, 1.3), "not shown"),
        (Ratio(1.0, 0.9, 1.05), "within the bound"),
        (Ratio(0.5, 0.4, 0.6), "within the bound"),
    ],
)
def test_a_regression_lies_above_the_bound_as_a_whole(found: Ratio, verdict: str) -> None:
    assert found.verdict == verdict


def test_requests_of_a_scope_are_told_from_those_of_the_job() -> None:
    """Sixteen flushes with 20 requests a job and 22 a scope, of one scope and of five."""
    found = Requests(one=16 * (20 + 22), several=16 * (20 + 5 * 22))
    assert (found.a_job, found.a_scope) == (20, 22)


@pytest.mark.slow
@_BOTH_SIDES
def test_merges_of_few_columns_and_of_many(tmp_path: Path) -> None:
    table = width.compare(_ROOT, 2, "tiny", tmp_path)
    assert [row[0] for row in table.rows] == [
        "200 of 3 columns onto 1,000",
        "30 of 19 columns onto 150",
        "many columns are, times",
    ]


@pytest.mark.slow
@_BOTH_SIDES
def test_a_commit_beside_itself(tmp_path: Path) -> None:
    with side(_ROOT, str(tmp_path / "old"), "tiny", {}) as old, side(_ROOT, str(tmp_path / "new"), "tiny", {}) as new:
        for what in (
            "appends",
            "bulk",
            "inserts of many rows at once",
            "first flush",
            "flush",
            "few of many",
            "optimize",
            "point look-up",
        ):
            before, after = paired((old, new), what, rounds=2)
            assert len(before) == len(after) == 2
            assert min(before + after) > 0
