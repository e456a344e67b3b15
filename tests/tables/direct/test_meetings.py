"""Flushes, updates, overwrites, appends, optimizes and a stranger's appends of one partition meet in any order; one may die.

Where test_crossings.py knows the outcome of two that meet at a named step, here any number meets at any change of the store.
So the outcome is one of those that they could have one after the other: each did all that it does, and one that was killed
all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from lakewarden import Lakehouse
from lakewarden.base.faults import no_faults
from tests.fixtures.examples import campaign
from tests.tables.direct.crossings import (
    FLUSH,
    KEYED,
    KEYLESS,
    STRANGER,
    Change,
    Place,
    State,
    begin,
    found,
    make_table,
)
from tests.tables.direct.meeting import Actor

pytestmark = [pytest.mark.slow, pytest.mark.disk]

_LATEST = 24
"""What is to come before a change of the store that it does not make comes when it has ended."""
_numbers = count()
_Model = Callable[[State], State]

Seen = tuple[dict[tuple[Place, str], int], dict[tuple[Place, str], int]]
"""The rows that are in Delta, and all of them."""


@dataclass(frozen=True)
class Meeting:
    keyed: bool
    one: Change
    others: Sequence[tuple[int, Change]]
    """What other processes do before which change of the store that `one` makes, in this order."""
    death: int | None
    """The change of the store before which `one` is killed."""

    def __str__(self) -> str:
        others = ", ".join(f"{change.name} before change {moment}" for moment, change in self.others)
        killed = "" if self.death is None else f", killed before change {self.death}"
        return f"{'keyed' if self.keyed else 'keyless'} {self.one.name}, with {others}{killed}"

    def outcomes(self, *, killed: bool) -> list[State]:
        """The states that it may leave: `one` has come at some moment, and where it was killed perhaps never."""
        whole = _placed([change.model for _, change in self.others], [self.one.first, self.one.model])
        partial = _placed([change.model for _, change in self.others], [self.one.first])
        never = [change.model for _, change in self.others]
        states = []
        for models in [*whole, *([*partial, never] if killed else [])]:
            state = begin(keyed=self.keyed)
            for model in models:
                state = model(state)
            states.append(state)
        return states


def _placed(others: Sequence[_Model], ones: Sequence[_Model]) -> Iterator[list[_Model]]:
    """Every order of both in which each keeps its own."""
    if not others or not ones:
        yield [*others, *ones]
        return
    yield from ([others[0], *rest] for rest in _placed(others[1:], ones))
    yield from ([ones[0], *rest] for rest in _placed(others, ones[1:]))


@st.composite
def meetings(draw: st.DrawFn) -> Meeting:
    keyed = draw(st.booleans())
    every = [*(KEYED if keyed else KEYLESS)]
    moments = st.integers(0, _LATEST)
    met = draw(st.lists(st.tuples(moments, st.sampled_from(every)), min_size=1, max_size=2))
    strange = draw(st.lists(st.tuples(moments, st.just(STRANGER)), max_size=1))  # two would be two rows of one key
    others = sorted([*met, *strange], key=lambda each: each[0])
    return Meeting(keyed, draw(st.sampled_from(every)), others, draw(st.none() | moments))


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    place: Path = tmp_path_factory.mktemp("meetings")
    with Lakehouse.open(str(place)) as lake:
        lake.create_namespace("app")
    return str(place)


@pytest.fixture(scope="module")
def actor() -> Iterator[Actor]:
    made = Actor()
    yield made
    made.kill()


@campaign(max(settings().max_examples // 2, 5), gate=15)
@given(meeting=meetings())
def test_those_that_meet_come_one_after_the_other(warehouse: str, actor: Actor, meeting: Meeting) -> None:
    name = f"app.t{next(_numbers)}"
    waiting = [*meeting.others]
    changes = 0
    with Lakehouse.open(warehouse) as lake:
        table = make_table(lake, name, keyed=meeting.keyed)

        def before(number: int) -> bool:
            nonlocal changes
            changes = number
            while waiting and waiting[0][0] <= number:
                waiting.pop(0)[1].run(lake, table, no_faults)
            return meeting.death is None or number < meeting.death

        lived = actor.run(warehouse, name, meeting.one.name, before)
        event(f"{meeting.one.name} {'done' if lived else 'killed'} after {changes} changes")
        while waiting:
            waiting.pop(0)[1].run(lake, table, no_faults)
        seen = found(table, freshness="eventual"), found(table)
        assert seen in [(dict(state.cold), state.rows()) for state in meeting.outcomes(killed=not lived)], f"{meeting}"
        FLUSH.run(lake, table, no_faults)
        assert found(table) == found(table, freshness="eventual") == seen[1], f"{meeting}"
        assert not [finding for finding in lake.check() if not finding.passed], f"{meeting}"
        lake.drop_table(name)
