"""The table of K3's lines says what there is."""

from __future__ import annotations

from tests.client.k3.lines import FIRST, LAST, LINES, line_tests


def test_each_line_has_a_row() -> None:
    assert [line.number for line in LINES] == list(range(FIRST, LAST + 1))


def test_each_line_that_is_true_has_a_test_and_each_test_has_a_line() -> None:
    found = line_tests()
    assert {line.number for line in LINES if line.outcome != "not yet"} <= found.keys() <= {line.number for line in LINES}


def test_what_is_not_true_says_why() -> None:
    assert [line.number for line in LINES if line.outcome != "true" and not line.reason] == []
