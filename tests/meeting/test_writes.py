"""What the campaign (`python -m tests.meeting`, in `make torture` for five minutes) sees of a wrong row or reader."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.meeting.readers import differences, times_of
from tests.meeting.writes import Row, Write, wrong_rows, wrong_times

_WRITES = [Write(1, 5, True), Write(1, 6, True), Write(2, 7, False), Write(3, 8, True), Write(3, None, False)]
_HEARD: dict[Row, int] = {(1, 5): 1, (1, 6): 1, (3, 8): 1}


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ([(1, 6), (3, 8)], []),
        ([(1, 6), (2, 7)], []),
        ([(1, 5), (3, 8)], ["1 is [5], not one of (6,)"]),
        ([(3, 8)], ["1 is [None], not one of (6,)"]),
        ([(1, 6), (1, 6), (3, 8)], ["1 is [6, 6], not one of (6,)"]),
        ([(1, 6), (2, 8), (3, 8)], ["2 is [8], not one of (None, 7)"]),
        ([(1, 6), (3, 8), (4, 1)], ["4 has no writer"]),
    ],
)
def test_a_row_that_is_lost_doubled_or_changed_is_seen(there: list[Row], said: list[str]) -> None:
    assert [*wrong_rows(_WRITES, Counter(there))] == said


@pytest.mark.parametrize(
    ("heard", "said"),
    [
        ({}, []),
        ({(2, 7): 1, (3, None): 1}, []),
        ({(1, 5): 0}, ["(1, 5) was heard 0 times, not (1,)"]),
        ({(1, 6): 2}, ["(1, 6) was heard 2 times, not (1,)"]),
        ({(2, 7): 2}, ["(2, 7) was heard 2 times, not (0, 1)"]),
        ({(2, 8): 1}, ["(2, 8) was heard, and has no writer"]),
    ],
)
def test_a_change_that_is_missed_or_repeated_is_seen(heard: dict[Row, int], said: list[str]) -> None:
    assert [*wrong_times(_WRITES, {**_HEARD, **heard})] == said


def test_a_change_counts_by_what_is_behind_it() -> None:
    kinds = ("insert", "update_preimage", "update_postimage", "delete")
    changes = [{"_change_type": kind, "id": 1, "value": value} for value, kind in enumerate(kinds)]
    assert times_of(changes) == {(1, 0): 1, (1, 2): 1, (1, None): 1}


def test_a_reader_that_differs_is_named() -> None:
    found: dict[str, Counter[Row]] = {
        "a": Counter([(1, 5)]),
        "b": Counter([(1, 5)]),
        "c": Counter([(1, 5), (1, 5)]),
        "d": Counter(),
    }
    assert dict(differences(found)) == {
        "c": "[((1, 5), 1)] too many, [] missing beside the a",
        "d": "[] too many, [((1, 5), 1)] missing beside the a",
    }
