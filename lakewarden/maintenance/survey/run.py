"""Surveys places: lists each, looks at the tables while it is listed, and puts the worst first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from lakewarden.base.connection import Connection, Location
from lakewarden.base.setting_sections import PricesSettings
from lakewarden.base.threads import Threads
from lakewarden.delta.replay.log_objects import LOG
from lakewarden.errors import LakewardenError, NoBucket, NotFound
from lakewarden.maintenance.engine import Progress, silent
from lakewarden.maintenance.survey.listing import FoundTable, list_tables
from lakewarden.maintenance.survey.ranking import RankedTables
from lakewarden.maintenance.survey.table_survey import TableSurvey
from lakewarden.maintenance.survey.verdict import SurveyOptions, survey_table
from lakewarden.storage.location import canonical, local_path, within
from lakewarden.storage.sources import open_source

Look = Callable[[Location, FoundTable], TableSurvey]
"""How one table is looked at: by `survey_table`, or by what an earlier look found."""

_AT_ONCE = 16
"""Tables: a store answers after some tens of milliseconds, in which others are read."""
_ON_A_DISK = 4
_LARGE = 16 << 20
"""Bytes of an object of a log from which its table is looked at while no other such is: it takes six times its size in memory."""
_WAITING = 64
"""Tables that are listed and not yet looked at. The listing waits for them."""

_WELL = {"sound", "catalog"}


@dataclass(frozen=True)
class ListingFailure:
    """A place that could not be listed, or not to its end."""

    uri: str
    error: LakewardenError


@dataclass(frozen=True)
class Survey:
    """What was found."""

    tables: RankedTables
    unlisted: tuple[ListingFailure, ...] = ()
    inside: tuple[tuple[str, str], ...] = ()
    """Places that are inside of a table, and that table, where nothing was found."""

    @property
    def is_well(self) -> bool:
        return not self.unlisted and not self.tables.counts.keys() - _WELL


def survey(
    uri: str | Sequence[str],
    *more: str,
    prices: PricesSettings | None = None,
    deep: bool = False,
    connection: Connection | None = None,
    progress: Progress = silent,
) -> list[TableSurvey]:
    """Looks at every Delta table at or below these places, whoever wrote it. Nothing is written; a key that may list and read is
    enough. No warehouse is needed.

    Args:
        uri: a table, a prefix, a bucket or a directory; or several.
        prices: what the costs are counted with; by default S3's list.
        deep: read the footers of data files and the deletion vectors, too: two requests a file.
        connection: how the store is reached; what it leaves open comes from the environment, as of a storage.
        progress: receives the number of tables just finished, and how many were found so far.

    Returns:
        The tables, the worst first.

    Raises:
        NotFound: there is no such place.
        InvalidArgument: a URI names no place, or contains a credential.
        StorageUnavailable, StorageRefused: a place can't be listed.
    """
    uris = [uri, *more] if isinstance(uri, str) else [*uri, *more]
    options = SurveyOptions(prices or PricesSettings(), deep)
    return whole_survey([Location(each, connection or Connection()) for each in uris], options, progress)


def whole_survey(places: Sequence[Location], options: SurveyOptions, progress: Progress = silent) -> list[TableSurvey]:
    """The tables of these places, the worst first. Raises as `survey`."""
    found = survey_places(places, lambda location, table: survey_table(location, table, options), progress)
    if found.unlisted:
        raise found.unlisted[0].error
    return [*found.tables]


def survey_places(places: Sequence[Location], look: Look, progress: Progress = silent) -> Survey:
    """Looks at each table once, however often the places name it.

    Raises:
        InvalidArgument: a URI names no place, or contains a credential.
    """
    run = _Run(look, progress)
    unlisted = []
    for place in outermost(places):
        try:
            run.place(place)
        except LakewardenError as error:
            unlisted.append(ListingFailure(place.uri, error))
    around = [(place.uri, table_around(place)) for place in (() if run.tables or unlisted else places)]
    return Survey(run.tables, tuple(unlisted), tuple((uri, table) for uri, table in around if table is not None))


def outermost(places: Sequence[Location]) -> list[Location]:
    """Each place once, in its canonical form, without those that are in another one."""
    named = {canonical(place.uri): replace(place, uri=canonical(place.uri)) for place in places}
    return [place for uri, place in named.items() if not any(within(uri, other) for other in named if other != uri)]


class _Run:
    """Tables of one survey, looked at by threads."""

    def __init__(self, look: Look, progress: Progress) -> None:
        self.tables = RankedTables()
        self._look = look
        self._progress = progress
        self._found = 0
        self._lock, self._large = threading.Lock(), threading.Lock()

    def place(self, place: Location) -> None:
        """Raises:
        NotFound: there is nothing at the place.
        StorageUnavailable, StorageRefused: it can't be listed.
        """
        waiting, source = threading.Semaphore(_WAITING), open_source(place, links=False)
        with Threads(_AT_ONCE if local_path(place.uri) is None else _ON_A_DISK) as threads:

            def take(found: FoundTable) -> None:
                waiting.acquire()
                with self._lock:
                    self._found += 1
                done = threads.submit(self._one, place.below(found.path), replace(found, store=source.store(found.path)))
                done.add_done_callback(lambda _done: waiting.release())

            try:
                _check_there(place, list_tables(source, take))
            except NoBucket as error:
                raise NotFound(error.message) from error

    def _one(self, location: Location, found: FoundTable) -> None:
        is_large = max(found.listing.sizes[: len(found.etags)], default=0) >= _LARGE
        with self._large if is_large else nullcontext():
            self.tables.add(self._look(location, found))
        with self._lock:
            self._progress(1, self._found)


def _check_there(place: Location, objects: int) -> None:
    """Raises NotFound: there is no such directory, or nothing below that prefix of a bucket."""
    path = local_path(place.uri)
    if path is None and not objects and "/" in place.uri.partition("://")[2]:
        raise NotFound(f"there is nothing at {place.uri}")
    if path is not None and not path.is_dir():
        raise NotFound(f"there is no directory {place.uri}")


def table_around(place: Location) -> str | None:
    """The URI of the innermost table that a place is inside of; None where there is none, or the key may not look there."""
    uri = canonical(place.uri)
    while (above := uri.rpartition("/")[0]) and not above.endswith(":/"):
        uri = above
        try:
            if next(iter(open_source(replace(place, uri=uri), links=False).uploads(below=LOG)), None) is not None:
                return uri
        except LakewardenError:
            return None
    return None
