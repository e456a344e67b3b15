"""The table of FLIP-188's lines says what there is."""

from __future__ import annotations

from tests.tables.dynamic.lines import DIFFERENCES, FIRST, LAST, LINES, line_tests


def test_each_line_has_a_row() -> None:
    assert [line.number for line in LINES] == list(range(FIRST, LAST + 1))


def test_each_line_that_is_true_has_a_test_and_what_is_not_says_why() -> None:
    assert {line.number for line in LINES if line.outcome != "not yet"} <= line_tests().keys()
    assert [line.number for line in LINES if line.outcome == "not yet" and not line.reason] == []


def test_what_differs_is_in_one_table_each_line_once() -> None:
    told = [number for difference in DIFFERENCES for number in difference.lines]
    assert sorted(told) == [line.number for line in LINES if line.outcome == "differs"]
    assert [line.number for line in LINES if line.outcome == "differs" and line.reason] == [], "its reason is in that table"
