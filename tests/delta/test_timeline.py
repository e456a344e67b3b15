"""Versions in time, where clocks are slow or fast."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.base.clock import from_millis
from lakewarden.delta.timeline import VACUUM_END, VACUUM_START, LogEntry, Timeline

_HOUR = 3_600_000
_HOURS = st.integers(0, 400)
_SKEW = st.one_of(st.just(0), st.integers(-400, 400))
_BEGIN = 10_000 * _HOUR


@dataclass(frozen=True)
class Made:
    """A commit `after` so many hours; what each clock was ahead by then, in hours."""

    after: int
    writer: int
    store: int
    operation: str

    @property
    def doubtful(self) -> bool:
        """Whether both clocks were slow, so that nothing can tell."""
        return self.writer < 0 and self.store < 0


_OPERATIONS = st.sampled_from(["WRITE", "WRITE", "OPTIMIZE", VACUUM_START, VACUUM_END])
_MADE = st.lists(
    st.builds(Made, _HOURS, _SKEW, _SKEW, _OPERATIONS).filter(lambda made: not made.doubtful), min_size=1, max_size=8
)


def _truth(made: list[Made]) -> list[int]:
    """When each version was made, in milliseconds."""
    moments, moment = [], _BEGIN
    for each in made:
        moment += each.after * _HOUR
        moments.append(moment)
    return moments


def _timeline(made: list[Made]) -> Timeline:
    entries = (
        LogEntry(
            version,
            moment + each.writer * _HOUR,
            each.operation,
            None,
            frozenset(),
            frozenset(),
            stored=moment + each.store * _HOUR,
        )
        for version, (each, moment) in enumerate(zip(made, _truth(made), strict=True))
    )
    return Timeline(tuple(entries), newest=len(made) - 1, oldest=0, kept=frozenset())


def _replaced(made: list[Made]) -> dict[int, datetime]:
    """When each version but the newest was truly followed by the next."""
    return {version: from_millis(moment) for version, (_, moment) in enumerate(pairwise(_truth(made)))}


@given(_MADE, st.integers(0, 3000))
def test_a_version_stays_while_one_clock_of_each_commit_was_not_slow(made: list[Made], hours: int) -> None:
    horizon = from_millis(_BEGIN + hours * _HOUR)
    oldest = _timeline(made).needed_since(horizon)
    for version, replaced in _replaced(made).items():
        assert version >= oldest or replaced <= horizon


@given(_MADE, st.integers(0, 3000), _HOURS)
def test_a_restore_to_a_moment_since_the_horizon_finds_its_version(made: list[Made], hours: int, after: int) -> None:
    timeline, horizon = _timeline(made), from_millis(_BEGIN + hours * _HOUR)
    found = timeline.at(horizon + timedelta(hours=after))
    assert found is None or found >= timeline.needed_since(horizon)


@given(_MADE, st.integers(0, 3000), _HOURS)
def test_what_a_later_vacuum_needs_an_earlier_one_needed(made: list[Made], hours: int, after: int) -> None:
    timeline, horizon = _timeline(made), from_millis(_BEGIN + hours * _HOUR)
    assert timeline.needed_since(horizon) <= timeline.needed_since(horizon + timedelta(hours=after))


@given(st.lists(_HOURS, min_size=1, max_size=8), st.integers(0, 3000))
def test_right_clocks_keep_nothing_longer_than_promised(after: list[int], hours: int) -> None:
    made = [Made(each, 0, 0, "WRITE") for each in after]
    horizon = from_millis(_BEGIN + hours * _HOUR)
    gone = [version for version, replaced in _replaced(made).items() if replaced <= horizon]
    assert _timeline(made).needed_since(horizon) == len(gone)


@given(_MADE, st.integers(1, 400))
def test_a_vacuum_with_right_clocks_ends_every_doubt_below_it(made: list[Made], retention: int) -> None:
    timeline = _timeline([*made, Made(1, 0, 0, VACUUM_START)])
    seen = from_millis(timeline.entries[-1].at)
    assert timeline.needed_since(seen + timedelta(hours=retention)) == timeline.newest
    assert not timeline.ahead(seen + timedelta(hours=retention))
