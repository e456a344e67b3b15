"""The small pictures of the page, as SVG and as shares: seven days of a number, and groups of scopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

from lakewarden.base.quantities import in_units
from lakewarden.catalog.state.fleet_days import WEEK, FleetDay
from lakewarden.catalog.state.floors.summaries import FILE_COUNTS, FILE_SIZES

_WIDTH, _HEIGHT, _EDGE = 96, 22, 2.5


@dataclass(frozen=True)
class Sparkline:
    """A number of the last seven days: the points of its line, without the days of which nothing is known."""

    points: str
    last: tuple[float, float]
    text: str
    """The same in words."""

    @property
    def area(self) -> str:
        first, last = self.points.split(" ")[0].split(",")[0], self.points.split(" ")[-1].split(",")[0]
        return f"{first},{_HEIGHT} {self.points} {last},{_HEIGHT}"


def sparkline(days: Sequence[FleetDay], name: str, today: date, *, worst: bool) -> Sparkline | None:
    """Of a figure of `TableLook`; None where nothing is known of any day.

    Args:
        worst: whether the most of each day counts, or its last look.
    """
    found = {one.day: getattr(one.worst if worst else one.look, name) for one in days if one.looked_at}
    week = [(today - timedelta(days=WEEK - 1 - at)).isoformat() for at in range(WEEK)]
    known = [(at, day, found[day]) for at, day in enumerate(week) if day in found]
    if not known:
        return None
    most = max(value for _, _, value in known) or 1
    places = [(_across(at), _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * value / most) for at, _, value in known]
    said = ", ".join(f"{day[5:]}: {value:,}" for _, day, value in known)
    return Sparkline(" ".join(f"{x:.1f},{y:.1f}" for x, y in places), places[-1], said)


def _across(at: int) -> float:
    return _EDGE + (_WIDTH - 2 * _EDGE) * at / (WEEK - 1)


@dataclass(frozen=True)
class Bar:
    """One group of a histogram; `share` of the largest group, in percent."""

    label: str
    count: int
    share: float


def size_bars(counts: Sequence[int]) -> list[Bar]:
    """Scopes by the mean size of their files."""
    ends = [in_units(end).replace(".0 ", " ") for end in FILE_SIZES]
    labels = [f"under {ends[0]}", *(f"{low} to {high}" for low, high in pairwise(ends)), f"{ends[-1]} or more"]
    return _bars(labels, counts)


def count_bars(counts: Sequence[int]) -> list[Bar]:
    """Scopes by how many files they have."""
    labels = ["1 file", *(f"{low} to {high - 1}" for low, high in pairwise(FILE_COUNTS)), f"{FILE_COUNTS[-1]} or more"]
    return _bars(labels, counts)


def _bars(labels: Sequence[str], counts: Sequence[int]) -> list[Bar]:
    most = max(counts, default=0) or 1
    return [Bar(label, count, 100 * count / most) for label, count in zip(labels, counts, strict=True)] if counts else []
