"""The list of tests that others have published says what there is."""

from __future__ import annotations

from tests.tables.dynamic.published import SUITES, our_tests


def test_each_counterpart_exists() -> None:
    named = {name for suite in SUITES for row in suite.rows for name in row.ours.split()}
    assert named - our_tests().keys() == set()


def test_each_test_has_a_counterpart_or_a_reason() -> None:
    assert [row.theirs for suite in SUITES for row in suite.rows if not row.ours and not row.reason] == []


def test_no_test_is_listed_twice_in_a_suite() -> None:
    for suite in SUITES:
        names = [name for row in suite.rows for name in row.theirs.split()]
        assert len(names) == len(set(names)), suite.title
