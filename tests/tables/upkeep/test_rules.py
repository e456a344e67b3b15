"""A verdict holds under the rule that it was made by, and under stricter ones: no scope is quiet that has something to do."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.catalog.kept_settings import TailRule
from lakewarden.catalog.report import ScopeState
from lakewarden.delta.parquet.files import DataFile
from lakewarden.tables.upkeep_rules import UNKNOWN, FoldRule, PackRule, UpkeepRule, files_of, loosest, verdict
from tests.fixtures.examples import examples

SEED = TailRule(5, 8, 10_000, 0.0)
FOLD = replace(SEED, ratio=3.0)

_RATIOS = st.sampled_from([0.0, 0.5, 1.0, 2.9999, 3.0, 3.0001, 10.0])
_TAILS = st.builds(TailRule, st.integers(2, 7), st.sampled_from([4, 8]), st.sampled_from([100, 10_000]), _RATIOS)
_RULES = _TAILS.map(FoldRule) | st.builds(
    PackRule, st.sampled_from([4096, 100_000]), st.sampled_from([0.0, 0.25, 0.5, 1.0]), _RATIOS
)
_LAYOUTS = st.lists(st.tuples(st.integers(0, 60) | st.integers(0, 20_000), st.integers(1, 120_000)), min_size=1, max_size=12)


def _files(layout: list[tuple[int, int]]) -> list[DataFile]:
    return [DataFile(str(at), size, rows, 0, None, None) for at, (rows, size) in enumerate(layout)]


@settings(max_examples=examples(500))
@given(_RULES, _RULES, _LAYOUTS)
def test_what_one_rule_leaves_each_leaves_that_covers_its_verdict(
    noted: UpkeepRule, now: UpkeepRule, layout: list[tuple[int, int]]
) -> None:
    files = _files(layout)
    if noted.finds_nothing(files) and now.covers(noted.number):
        assert now.finds_nothing(files)
    assert noted.covers(noted.number)
    assert not now.covers(UNKNOWN)


def test_the_order_of_rules() -> None:
    fold = FoldRule(FOLD)
    assert fold.covers(FoldRule(SEED).number), "an upgrade opens none"
    assert not FoldRule(SEED).covers(fold.number)
    assert fold.covers(FoldRule(replace(FOLD, ratio=4)).number)
    assert not fold.covers(FoldRule(replace(FOLD, ratio=2.9)).number)
    assert FoldRule(replace(FOLD, min_files=6)).covers(fold.number)
    assert not fold.covers(FoldRule(replace(FOLD, min_files=6)).number)
    for other in (replace(FOLD, max_files=9), replace(FOLD, max_rows=9_999)):
        assert not fold.covers(FoldRule(other).number)
    assert PackRule(4096, 0.5).covers(PackRule(4096, 0.25).number)
    assert not PackRule(4096, 0.25).covers(PackRule(4096, 0.5).number)
    assert PackRule(4096, 0.25, 3).covers(PackRule(4096, 0.25).number)
    assert not PackRule(4096, 0.25, 3).covers(PackRule(4096, 0.25, 4).number)
    assert not PackRule(4096, 0.25).covers(PackRule(4096, 0.25, 3).number)
    assert not PackRule(4097, 0.25).covers(PackRule(4096, 0.25).number)


@pytest.mark.parametrize(
    ("rule", "noted"),
    [
        (FoldRule(SEED), 65366396261744224),
        (FoldRule(FOLD), 65366396261744224),
        (PackRule(128 << 20, 0.25), 13552552356317795),
        (PackRule(128 << 20, 0.25, 3), 13552552356317795),
    ],
)
def test_verdicts_of_earlier_releases_hold(rule: UpkeepRule, noted: int) -> None:
    assert rule.covers(noted)
    assert not FoldRule(replace(FOLD, max_rows=5)).covers(noted)


def test_of_two_thousand_layouts_none_is_quiet_without_the_ratio_and_has_work_with_it() -> None:
    chance, fold, seed = random.Random(36), FoldRule(FOLD), FoldRule(SEED)

    def layout() -> list[tuple[int, int]]:
        flushed = [chance.choice((1, 5, 20, 20, 1000)) for _ in range(chance.randrange(9))]
        folded = sorted(int(chance.paretovariate(0.4) * 40) for _ in range(chance.randrange(9)))
        return [(rows, 1000) for rows in flushed + folded]

    layouts = [layout() for _ in range(2_000)]
    quiet = [(seed.finds_nothing(_files(each)), fold.finds_nothing(_files(each))) for each in layouts]
    assert quiet.count((True, False)) == 0
    assert quiet.count((False, True)) > 40, "the order is not that of any two rules"


def test_the_verdict_is_noted_that_holds_under_most_rules() -> None:
    seed, fold = FoldRule(SEED), FoldRule(FOLD)
    few = ScopeState(3, 40, 2, 2000, 9, layout=((20, 1000), (20, 1000)))
    folded = ScopeState(3, 480, 5, 5000, 9, layout=((20, 1000),) * 4 + ((400, 1000),))
    small = ScopeState(3, 100, 5, 5000, 9, layout=((20, 1000),) * 5)
    states = [files_of(each) for each in (few, folded, small)]
    found = [loosest((verdict(seed, files), verdict(fold, files)), (seed, fold)) for files in states]
    assert found == [seed.number, fold.number, UNKNOWN]
