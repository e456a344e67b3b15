"""Every door to a commit refuses what was planned too long ago: the fence that would have told it may be gone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.base.clock import HELD_AT_MOST
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.commit_log.committing import TooLate
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.lifecycle.states import create_table
from lakewarden.delta.table import ScopeTable
from lakewarden.storage.steps import alone
from tests.delta.scopes import PEOPLE, at, flush, people, target

_STAMP = CommitStamp("J-1", "OPTIMIZE")
_DOORS: dict[str, Callable[[ScopeTable, ScopeTarget, dict[str, Any]], object]] = {
    "commit": lambda table, _, held: alone(table.commit(CommitChange(_STAMP), schemas=(PEOPLE,), **held)),
    "empty": lambda table, _, held: alone(table.empty(stamp=_STAMP, **held)),
    "property": lambda table, _, held: alone(table.commit(CommitChange(_STAMP), properties={"a.b": "c"}, **held)),
    "create": lambda _, new, held: alone(create_table(new, CommitChange(_STAMP), **held)),
}


@pytest.mark.parametrize("door", _DOORS)
def test_a_commit_that_was_planned_a_day_ago_is_refused(tmp_path: Path, door: str) -> None:
    scope, new = target(tmp_path / "t"), target(tmp_path / "new")
    flush(scope, people(1))
    table = ScopeTable.open(scope.location)
    assert table is not None
    with pytest.raises(TooLate, match=r"was planned 1 day, 0:00:01\S* ago"):
        _DOORS[door](table, new, at(held=HELD_AT_MOST + timedelta(seconds=1)))
    assert ScopeTable.open(new.location) is None
    assert (found := ScopeTable.open(scope.location)) is not None
    assert found.version == 0
    _DOORS[door](table, new, at(held=HELD_AT_MOST - timedelta(minutes=1)))
