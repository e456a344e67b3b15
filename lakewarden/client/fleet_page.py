"""The fleet as one page: a file without scripts and without anything from a network. Every name in it is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import get_args

from jinja2 import Environment, StrictUndefined, Template

from lakewarden.base.quantities import in_units, lasting, number_of
from lakewarden.base.scope import Scope
from lakewarden.catalog.state.fleet_days import WEEK, FleetDay, WorstTable
from lakewarden.catalog.state.floor_summaries import FILE_COUNTS, FILE_SIZES
from lakewarden.client.dagster_links import forms_for
from lakewarden.maintenance.planning.fleet import Fleet, FleetTable
from lakewarden.maintenance.planning.health import Severity

UI = "http://127.0.0.1:3000"
"""Where `lakewarden ui` serves Dagster's pages, unless it gets another port."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}
"""Those of an answer with the page: it is self-contained, and of its moment."""

_TABLES = 400
_TROUBLES = 200
"""Lines, the worst first: of more, the page says how many, and `status --all` lists them."""

_FOREIGN = 10

_SEVERITIES = get_args(Severity)
_TONES = {"away": "bad", "broken": "bad", "failed check": "bad", "late": "warn", "waiting": "quiet", "many files": "quiet"}


def fleet_page(fleet: Fleet, dagster: str = UI) -> str:
    """The page as HTML.

    Args:
        dagster: the address of Dagster's web server, to whose forms links lead.
    """
    found = [each for one in fleet.tables for each in one.health.worst]
    troubles = sorted(found, key=lambda one: (_SEVERITIES.index(one.severity), -one.count))
    return _template().render(
        fleet=fleet,
        tables=fleet.tables[:_TABLES],
        tables_left=max(len(fleet.tables) - _TABLES, 0),
        troubles=troubles[:_TROUBLES],
        troubles_left=max(len(troubles) - _TROUBLES, 0),
        worst_foreign=_worst_foreign(fleet),
        size_bars=size_bars(fleet.grouped("file_sizes")),
        count_bars=count_bars(fleet.grouped("file_counts")),
        dagster=dagster.rstrip("/"),
    )


def _worst_foreign(fleet: Fleet) -> list[tuple[str, WorstTable]]:
    """The worst ten of all places, with their verdict; each once, where one place is in another."""
    found = {
        each.path: (verdict, each)
        for verdict in ("damaged", "unreadable")
        for one in fleet.surveys
        for each in one.worst.get(verdict, ())
    }
    return sorted(found.values(), key=lambda one: (one[0], -sum(one[1].damage.values())))[:_FOREIGN]


def _week_of(one: FleetTable, name: str, *, worst: bool = False) -> Sparkline | None:
    return sparkline(one.days, name, one.now.astimezone(UTC).date(), worst=worst)


def _whose(scope: Scope) -> str:
    return str(scope.table) if scope.user is None else scope.user


def _dollars(amount: float) -> str:
    if amount == 0:
        return "$0"
    return "< $0.01" if amount < 0.01 else f"${amount:,.2f}"  # a cent


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "bytes": in_units,
        "age": lasting,
        "dollars": _dollars,
        "moment": _moment,
        "number": "{:,}".format,
        "number_of": number_of,
        "week": _week_of,
        "whose": _whose,
        "tone": _TONES.get,
        "forms": forms_for,
    }
    return environment.from_string(files("lakewarden.client").joinpath("fleet_page.html").read_text(encoding="utf-8"))


# The small pictures of the page, as SVG and as shares: seven days of a number, and groups of scopes.

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
    step = (_WIDTH - 2 * _EDGE) / (WEEK - 1)
    places = [(_EDGE + step * at, _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * value / most) for at, _, value in known]
    said = ", ".join(f"{day[5:]}: {value:,}" for _, day, value in known)
    return Sparkline(" ".join(f"{x:.1f},{y:.1f}" for x, y in places), places[-1], said)


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
