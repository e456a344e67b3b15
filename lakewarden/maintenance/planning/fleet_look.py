"""Looks at the fleet, and keeps a day of each table: `fleet_of` writes nothing, `book` alone does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from lakewarden.base.clock import from_millis, is_ahead, to_millis
from lakewarden.base.scope import TableName
from lakewarden.base.threads import at_once
from lakewarden.catalog.model import Table
from lakewarden.catalog.state.fleet_days import (
    WEEK_LONG,
    FleetDay,
    KeptFleet,
    counted,
    expire_days,
    first_day,
    keep_day,
    looked,
    seen_until,
)
from lakewarden.catalog.state.job import Job
from lakewarden.catalog.state.job_log import JobLog
from lakewarden.errors import Corrupt
from lakewarden.maintenance.planning.fleet import Fleet, FleetTable, look_of
from lakewarden.maintenance.planning.health import TableHealth, health_of
from lakewarden.maintenance.planning.overview import Overview, overview
from lakewarden.storage.location import local_path
from lakewarden.tables.warehouse import Warehouse, cold_tables

BOOK_EVERY = timedelta(minutes=10)
"""How old a table's newest look is before it is kept anew."""

FILES_OF = 20
"""Scopes without rows in the log that are listed for their files."""

Days = Mapping[str, Sequence[FleetDay]]


def fleet_of(warehouse: Warehouse, jobs: JobLog, seen: Overview | None = None) -> Fleet:
    """The fleet now, with all that was done until now, whether it is kept yet or not. Writes nothing.

    Args:
        seen: an overview that was just made.
    """
    catalog, now = warehouse.catalog.read(), warehouse.clock()
    seen = overview(warehouse, FILES_OF, keeps=False) if seen is None else seen
    healths = {one.table: one for one in health_of(warehouse, seen)}
    tables = [table for table in cold_tables(catalog) if table.name in healths]
    kept = KeptFleet(warehouse.state)
    days, unread = _until_now(jobs, kept.days([table.id for table in tables], now), tables, now)
    prices, (schedules, at), surveys = warehouse.kept_settings(catalog).prices, kept.schedules(), kept.surveys()

    def table_of(table: Table) -> FleetTable:
        found = looked(days.get(table.id, ()), look_of(healths[table.name]), now)
        older = [one for one in found if one.day < first_day(now)]
        week, before = tuple(found[len(older) :]), older[-1].ever if older else {}
        place = warehouse.location(catalog.storages[table.options.storage_id])
        disk = local_path(place.uri) is not None
        return FleetTable(table.id, healths[table.name], week, before, warehouse.retention_hours(table), disk, prices, now)

    ordered = sorted(map(table_of, tables), key=lambda one: (one.rank, one.name))
    notes = tuple(sorted(kept.unread))
    return Fleet(warehouse.uri, now, tuple(ordered), tuple(schedules), at, prices, tuple(surveys), unread, notes)


def book(warehouse: Warehouse, jobs: JobLog, healths: Sequence[TableHealth]) -> int:
    """Keeps the day of each table whose newest look is some minutes old; returns how many. To be called again and again: each
    job is counted once, whoever dies, and whoever does the same at the same time."""
    catalog, now = warehouse.catalog.read(), warehouse.clock()
    by_name: Mapping[TableName, TableHealth] = {one.table: one for one in healths}
    tables = [table for table in cold_tables(catalog) if table.name in by_name]
    fleet = KeptFleet(warehouse.state)
    kept = fleet.days([table.id for table in tables], now)
    old = [table for table in tables if _is_old(kept.get(table.id, ()), now)]
    days, _ = _until_now(jobs, kept, old, now)
    for table in old:
        found = looked(days.get(table.id, ()), look_of(by_name[table.name]), now)
        for one in (each for each in found if each not in kept.get(table.id, ())):
            keep_day(warehouse.state, table.id, one)
        expire_days(warehouse.state, table.id, fleet.keys_of(table.id), now)
    return len(old)


def _is_old(days: Sequence[FleetDay], now: datetime) -> bool:
    return not days or now - from_millis(days[-1].looked_at) >= BOOK_EVERY or is_ahead(from_millis(days[-1].looked_at), now)


def _until_now(jobs: JobLog, kept: Days, tables: Iterable[Table], now: datetime) -> tuple[dict[str, list[FleetDay]], int]:
    """The days with the jobs that are not counted in them yet, and how many jobs of the week cannot be read."""
    since = {table.id: seen_until(kept.get(table.id, ()), now) for table in tables}
    if not since:
        return {}, 0
    written = list(jobs.since(min(since.values())))
    seen_to = max((min(modified, now) for _, modified, _ in written), default=None)
    fresh = [one for one in written if not all(each in kept and one[0] in kept[each][-1].recent for each in since)]
    found = at_once(_read, [job for _, _, job in fresh])
    unread = {job_id: to_millis(modified) for (job_id, modified, _), job in zip(fresh, found, strict=True) if job is None}
    read = [job for job in found if job is not None]
    days = {each: counted(kept.get(each, ()), each, read, seen_to, unread) for each in since}
    noted = (item for theirs in days.values() for item in (theirs[-1].unread.items() if theirs else ()))
    return days, len(unread.keys() | {job_id for job_id, at in noted if from_millis(at) > now - WEEK_LONG})


def _read(job: Callable[[], Job]) -> Job | None:
    with suppress(Corrupt):  # one that cannot be read keeps back none of the others; the page says how many
        return job()
    return None
