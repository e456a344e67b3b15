"""Tables come the worst first, in memory and beyond."""

from __future__ import annotations

from random import Random

import pytest

from lakewarden.maintenance.survey import ranking
from lakewarden.maintenance.survey.ranking import RankedTables
from lakewarden.maintenance.survey.table_survey import Damage, TableSurvey


def test_many_tables_are_sorted_beyond_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    hollow = Damage("hollow", "x is missing")
    made = [TableSurvey(f"/t{n:03}", "sound", small_files=n % 3) for n in range(40)]
    made += [TableSurvey(f"/d{n}", "damaged", damage=(hollow,) * n) for n in range(1, 6)]
    made += [TableSurvey("/u", "unreadable"), TableSurvey("/c", "catalog")]
    Random(1).shuffle(made)
    whole = RankedTables()
    monkeypatch.setattr(ranking, "_IN_MEMORY", 1_000)
    cut = RankedTables()
    for each in made:
        whole.add(each)
        cut.add(each)
    assert len(whole) == len(cut) == len(made)
    first, second = iter(cut), iter(cut)
    assert [next(first).path for _ in range(8)] == ["/d5", "/d4", "/d3", "/d2", "/d1", "/u", "/c", "/t002"]
    assert [*second] == [*whole]
    assert {each.small_files for each in [*cut][7:20]} == {2}
    assert cut.counts == {"damaged": 5, "unreadable": 1, "catalog": 1, "sound": 40}
    assert list(cut.counts) == ["damaged", "unreadable", "catalog", "sound"]
