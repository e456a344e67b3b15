"""With a ratio a compaction leaves what it folded, until the newer files are large beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.catalog.kept_settings import TailRule
from lakewarden.delta.parquet.files import DataFile
from lakewarden.tables.upkeep_files import fitting, small_run
from tests.fixtures.examples import examples

_SIZES = st.one_of(st.integers(0, 40), st.sampled_from([999, 1_000, 1_001, 9_999, 10_000, 30_000]))
_LAYOUTS = st.lists(_SIZES | st.none(), max_size=14)
_RULES = st.builds(
    TailRule,
    min_files=st.integers(2, 9),
    max_files=st.integers(2, 9),
    max_rows=st.sampled_from([50, 1_000, 10_000]),
    ratio=st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.5, 3.0, 7.0, 100.0]),
)


def layout(*rows: int | None) -> list[DataFile]:
    """Files, newest first."""
    return [DataFile(f"f{place}", 1, count, 0, place, place) for place, count in enumerate(rows)]


def taken(rule: TailRule, *rows: int | None) -> list[int]:
    return [file.rows or 0 for file in fitting(small_run(layout(*rows), rule), rule)]


def _searched(rule: TailRule, rows: Sequence[int | None]) -> list[int]:
    """What the rule takes, by trying each length."""
    small: list[int] = []
    for count in rows:
        if count is None or count >= rule.max_rows:
            break
        small.append(count)
    best: list[int] = []
    for length in range(2, min(len(small), rule.max_files) + 1):
        *newer, oldest = run = small[:length]
        allowed = oldest <= rule.ratio * sum(newer) and length >= min(rule.min_files, rule.max_files) if rule.ratio else True
        if rule.min_files <= len(small) and sum(run) <= rule.max_rows and allowed:
            best = run
    return best


@settings(max_examples=examples(400))
@given(_RULES, _LAYOUTS)
def test_it_takes_what_a_search_of_all_lengths_finds(rule: TailRule, rows: list[int | None]) -> None:
    assert taken(rule, *rows) == _searched(rule, rows)


def test_a_folded_file_waits_until_the_newer_ones_are_many() -> None:
    rule = TailRule(min_files=5, max_files=8, max_rows=10_000, ratio=3.0)
    assert taken(rule, 20, 20, 20, 20, 400) == []
    assert taken(rule, 20, 20, 20, 20, 20, 400) == [20] * 5
    assert taken(rule, 20, 20, 20, 100, 400) == [20, 20, 20, 100, 400]
    assert taken(replace(rule, ratio=0.0), 20, 20, 20, 20, 400) == [20, 20, 20, 20, 400]


def test_neither_a_tiny_file_nor_a_large_one_among_many_ends_the_search() -> None:
    rule = TailRule(min_files=5, max_files=8, max_rows=10_000, ratio=3.0)
    assert taken(rule, 1, 20, 20, 20, 20) == [1, 20, 20, 20, 20]
    assert taken(rule, 20, 1_000, 20, 20, 20) == [20, 1_000, 20, 20, 20]


def test_it_has_at_least_as_many_files_as_the_rule_needs_and_at_most_as_it_may() -> None:
    rule = TailRule(min_files=5, max_files=8, max_rows=10_000, ratio=3.0)
    assert taken(rule, 5_000, 2_400, 2_400, 2_400, 2_400) == [], "four would fit"
    assert taken(rule, *[1] * 20) == [1] * 8
