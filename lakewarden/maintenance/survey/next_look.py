"""Looks at places again and again: what a listing shows to be as it was costs no request, and changes are reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from lakewarden.maintenance.survey.run import ListingFailure, Survey, outermost, survey_places
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
    rule, tables, unlisted = rule_of(options), RankedTables(), list[ListingFailure]()
    verdicts, following, is_first = dict[str, str](), dict[str, LastLook](), True
    for place in outermost(places):
        last, seen = before(place.uri), SeenTables()
        found = survey_places([place], partial(_look, last, seen, rule, options), progress)
        failures = [each for each in found.unlisted if not _is_empty(place, last, each)]
        for one, verdict in last.compared(seen, [each.uri for each in failures]):
            tables.add(one)
            if one.change in ("changed", "gone"):
                verdicts[one.path] = verdict
        unlisted += failures
        following[place.uri] = replace(last, rule=rule, tables=seen)
        is_first = is_first and not last.rule
    return SurveyRound(Survey(tables, tuple(unlisted)), verdicts, following, is_first)


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


def _look(
    last: LastLook, seen: SeenTables, rule: str, options: SurveyOptions, location: Location, found: FoundTable
) -> TableSurvey:
    """Looks at a table, unless it is as it was at the last look, and puts it to those that were seen."""
    digest = digest_of(found.log, found.data)
    # a deep look reads what no listing shows, and what is left out was not listed
    trusted = not options.deep and not found.left_out
    one = last.seen(location.uri, rule) if trusted else None
    if one is None or not one.is_unchanged(digest):
        # requests are what is saved, and a disk has none
        kept = KeptLog(found.log, b"" if one is None else one.log) if local_path(location.uri) is None else None
        made = survey_table(location, found, options, kept)
        one = SeenTable(made, digest, b"" if kept is None else kept.packed())
    seen.put(last.name_of(location.uri), one)
    return one.survey


def _is_empty(place: Location, last: LastLook, failure: ListingFailure) -> bool:
    """Whether a place in a bucket, where tables were, was listed and has no object any more. Of a directory that is not there
    this is not said: its disk may be."""
    empty = isinstance(failure.error, NotFound) and not isinstance(failure.error.__cause__, NoBucket)
    return empty and bool(last.tables) and local_path(place.uri) is None
