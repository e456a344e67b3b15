"""Looks at places again and again: what a listing shows to be as it was costs no request, and changes are reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

import msgspec

from lakewarden.base import VERSION
from lakewarden.base.clock import Pause
from lakewarden.base.connection import Location
from lakewarden.catalog.state.fleet_days import SurveySums
from lakewarden.delta.examination.kept_log import KeptLog
from lakewarden.errors import NoBucket, NotFound
from lakewarden.maintenance.engine import Progress, silent
from lakewarden.maintenance.survey.last_look import LastLook, SeenTable, SeenTables, digest_of
from lakewarden.maintenance.survey.listing import FoundTable
from lakewarden.maintenance.survey.ranking import RankedTables
from lakewarden.maintenance.survey.run import ListingFailure, Look, Survey, outermost, survey_places
from lakewarden.maintenance.survey.survey_store import keep, last_look
from lakewarden.maintenance.survey.table_survey import TableSurvey
from lakewarden.maintenance.survey.verdict import LOCKS, SurveyOptions, survey_table
from lakewarden.storage.location import local_path
from lakewarden.tables.warehouse import Warehouse

T = TypeVar("T")


@dataclass(frozen=True)
class SurveyRound:
    """One look at some places, beside the one before."""

    survey: Survey
    """The worst first; tables that are gone since the last look stand last."""
    before: Mapping[str, str]
    """By path, the verdicts of the last look of tables that changed."""
    following: Mapping[str, LastLook]
    """By place: what the next look begins with."""
    is_first: bool
    """Whether no place was looked at before."""


def look_again(
    places: Sequence[Location], options: SurveyOptions, before: Callable[[str], LastLook], progress: Progress = silent
) -> SurveyRound:
    """Looks at each place, and compares it with the look before, as `before` returns it; without a `rule` where there was none.

    Raises:
        InvalidArgument: a URI names no place, or contains a credential.
    """
    rounds = [_PlaceRound(place, before(place.uri), options, progress) for place in outermost(places)]
    tables, verdicts = RankedTables(), dict[str, str]()
    for one, verdict in (found for each in rounds for found in each.found()):
        tables.add(one)
        if one.change in ("changed", "gone"):
            verdicts[one.path] = verdict
    unlisted = [one for each in rounds for one in each.unlisted]
    return SurveyRound(
        Survey(tables, tuple(unlisted)),
        verdicts,
        {each.place.uri: each.following for each in rounds},
        not any(each.last.rule for each in rounds),
    )


def survey_and_keep(
    warehouse: Warehouse, places: Sequence[Location], options: SurveyOptions, progress: Progress = silent
) -> tuple[SurveyRound, Callable[[], list[SurveySums]]]:
    """Looks at the places, beside what the warehouse keeps of them. Returns what was found, and what keeps it, to be called once
    it was reported: a process that dies in between leaves its changes to be reported again. It returns the sums of each place."""
    found = look_again(places, options, lambda place: last_look(warehouse, place), progress)

    def keep_all() -> list[SurveySums]:
        return [keep(warehouse, place, look, warehouse.clock()) for place, look in found.following.items()]

    return found, keep_all


def survey_and_remember(
    looks: dict[str, LastLook], places: Sequence[Location], options: SurveyOptions, progress: Progress = silent
) -> tuple[SurveyRound, Callable[[], object]]:
    """The same beside what is in `looks`, by place, for as long as this process runs."""
    found = look_again(places, options, lambda place: looks.get(place, LastLook()), progress)
    return found, lambda: looks.update(found.following)


def watch(
    look: Callable[[int], T], every: float, wait: Pause = time.sleep, monotonic: Callable[[], float] = time.monotonic
) -> Iterator[T]:
    """Looks each `every` seconds, counted from the beginning of a look; at once where one took longer. Never ends by itself.

    Args:
        look: takes the number of the look, from 0.
    """
    for number in count():
        began = monotonic()
        yield look(number)
        wait(max(0.0, every - (monotonic() - began)))


def rule_of(options: SurveyOptions) -> str:
    """By what tables are judged: another release, other prices, or a lock that others declare make another verdict. Whether the
    last look was deep is no part of it: what a deep look found stays true while the listing shows no change."""
    prices = msgspec.json.encode(options.prices).decode()
    return " ".join((VERSION, str(options.target_size), options.environment.get(LOCKS, ""), prices))


class _PlaceRound:
    """A look at one place."""

    def __init__(self, place: Location, last: LastLook, options: SurveyOptions, progress: Progress) -> None:
        self.place, self.last = place, last
        self._options, self._rule = options, rule_of(options)
        self._seen = SeenTables()
        look: Look = self._look
        self.unlisted: Sequence[ListingFailure] = [
            each for each in survey_places([place], look, progress).unlisted if not self._is_empty(each)
        ]
        self._compared = last.compared(self._seen.values(), [each.uri for each in self.unlisted])
        self.following = last.following(self._rule, self._compared)

    def found(self) -> Iterator[tuple[TableSurvey, str]]:
        """What this look saw, and what is gone; each with the verdict before."""
        for name, one in self._compared.items():
            if one.survey.change == "gone" or one.survey.path in self._seen:
                yield one.survey, self.last.verdict_before(name)

    def _look(self, location: Location, found: FoundTable) -> TableSurvey:
        digest = digest_of(found.log, found.data)
        # a deep look reads what no listing shows, and what is left out was not listed
        trusted = not self._options.deep and not found.left_out
        seen = self.last.seen(location.uri, self._rule) if trusted else None
        if seen is None or not seen.is_unchanged(digest):
            # requests are what is saved, and a disk has none
            kept = KeptLog(found.log, b"" if seen is None else seen.log) if local_path(location.uri) is None else None
            made = survey_table(location, found, self._options, kept)
            seen = SeenTable(made, digest, b"" if kept is None else kept.packed())
        self._seen.put(location.uri, seen)
        return seen.survey

    def _is_empty(self, failure: ListingFailure) -> bool:
        """Whether a place in a bucket, where tables were, was listed and has no object any more. Of a directory that is not there
        this is not said: its disk may be."""
        empty = isinstance(failure.error, NotFound) and not isinstance(failure.error.__cause__, NoBucket)
        return empty and bool(self.last.tables) and local_path(self.place.uri) is None
