"""What a vacuum may delete, and how long it leaves what is superfluous.

What stays, whatever a writer's clock said:

- every file of every version that was the newest at some moment since the horizon (`now` less the retention), by its
  writer's clock or by the store's, and of the versions in `keep_versions`; so every live file too;
- the change files of the commits after the oldest of these versions, for readers of Delta's change data feed;
- a file that no commit names, until it is older than the horizon *and* than a day: its writer may still be about to
  commit it. Our own writers commit strictly, so one that wrote before the horizon's commit can't commit after it;
- in `_files/`, the files that rows refer to, in the newest version, in those in `keep_versions` and in the log; and files
  newer than both;
- a commit that was never given its name, until it is as old as that (other unfinished writes: storage/disk.py);
- `manifest.json`, and whatever else is not a Parquet file or is below a name that begins with `_` or `.`, but `_change_data/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, partial

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Table
from lakewarden.catalog.options import MAX_HOURS
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.damage import has_readable_checkpoint
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import DatedLog, Timeline
from lakewarden.errors import InvalidArgument, NotFound
from lakewarden.maintenance.vacuum import VacuumOptions
from lakewarden.maintenance.vacuum.unreferenced_files import ORPHAN_AGE, orphans, stray_files, table_files, unnamed_commits
from lakewarden.storage.objects import StoredObject
from lakewarden.tables.warehouse import Warehouse

LOG_AGE = timedelta(days=30)
"""Delta's own `logRetentionDuration`: a writer paused for longer could commit a version number a second time."""


@dataclass(frozen=True)
class Contents:
    """What there is of a scope: its table, what its log says, and all objects of its directory."""

    target: ScopeTarget
    table: ScopeTable
    timeline: Timeline
    listing: Sequence[StoredObject]
    log: DatedLog

    @cached_property
    def files(self) -> list[StoredObject]:
        """What the table's writers wrote."""
        return table_files(self.listing)

    @cached_property
    def unnamed(self) -> list[StoredObject]:
        """Commits that were never given their name."""
        return unnamed_commits(self.listing)

    @cached_property
    def live(self) -> frozenset[str]:
        """The paths of the newest version's files."""
        return frozenset(file.path for file in self.table.files())

    def has_dead(self) -> bool:
        """Whether a commit names a file that exists and is not live."""
        dead = self.timeline.named - self.live
        return any(found.key in dead for found in self.files)


@dataclass(frozen=True)
class Removable:
    """What may go, and why other things may not."""

    oldest: int
    """The version that was the newest at the horizon."""
    kept: tuple[int, ...]
    """Older versions that stay."""
    data: tuple[StoredObject, ...]
    log: tuple[str, ...]
    """Keys of log files, in the order in which they may go."""
    stray: tuple[str, ...]
    """Files of FILE columns that no row refers to."""
    deleted: frozenset[str]
    """The keys of all these."""
    young: tuple[StoredObject, ...]
    """Files that no row refers to, and that may not go yet."""


def removable(
    contents: Contents, horizon: datetime, now: datetime, *, versions: Sequence[int], files: frozenset[str]
) -> Removable:
    """What a vacuum with this horizon may delete.

    Args:
        versions: these stay, however old.
        files: paths of FILE columns that rows in the log refer to.

    Raises:
        NotFound: one of `versions` no longer exists.
    """
    timeline = contents.timeline
    # By both clocks, the later of the two: one that is slow must not age a version (docs/decisions/0022-vacuum-and-clocks.md).
    oldest = timeline.needed_since(horizon)
    kept = _kept(timeline, versions, oldest)
    # Never less than a day, however short the retention: a writer may be about to commit the file.
    nobodys = min(horizon, now - ORPHAN_AGE)
    data = _data(contents, _needed(contents, oldest, kept), nobodys)
    # Only commits below the oldest kept version: without a later one, a kept version could not be opened.
    unnamed = (found.key for found in contents.unnamed if found.modified <= nobodys)
    readable = partial(has_readable_checkpoint, contents.target.location, contents.log.files)
    expired = contents.log.expired(min(oldest, *kept, contents.table.version), min(horizon, now - LOG_AGE), readable)
    log = (*expired, *unnamed)
    strays = _strays(contents, versions, files)
    stray = tuple(found.key for found in strays if found.modified <= nobodys)
    deleted = frozenset([*(file.key for file in data), *log, *stray])
    young = tuple(found for found in strays if found.key not in deleted)
    return Removable(oldest, kept, data, log, stray, deleted, young)


def _kept(timeline: Timeline, wanted: Sequence[int], oldest: int) -> tuple[int, ...]:
    """The versions to keep that are older than the horizon's."""
    for version in wanted:
        if not timeline.has(version):
            raise NotFound(
                f"version {version} cannot be kept: it no longer exists; versions {timeline.oldest} to {timeline.newest} do"
            )
    return tuple(sorted({version for version in wanted if version < oldest}))


def _needed(contents: Contents, oldest: int, kept: Sequence[int]) -> frozenset[str]:
    """The paths that were live at `oldest`, were added since, or are in kept versions; and those that say what changed since."""
    # What a version between the horizon and now has was live at the horizon, or was added since.
    table = contents.table
    paths = contents.timeline.added_after(oldest) | contents.live
    for version in {oldest, *kept} - {table.version}:
        if old := ScopeTable.open(table.location, version, contents.log.files):
            paths |= old.log_state.keys
    return paths


def _data(contents: Contents, needed: frozenset[str], orphans_before: datetime) -> tuple[StoredObject, ...]:
    dead = [found for found in contents.files if found.key not in needed]
    young = {found.key for found in orphans(dead, contents.timeline, needed) if found.modified > orphans_before}
    return tuple(found for found in dead if found.key not in young)


def _strays(contents: Contents, versions: Sequence[int], files: frozenset[str]) -> list[StoredObject]:
    kept = (open_scope(contents.target, version) for version in versions)
    tables = [contents.table, *(old for old in kept if old is not None)]
    return stray_files(contents.listing, contents.target, tables, files)


SAFE_HOURS = 168
"""A week: below it, a reader of an older version or a slow writer may lose files while it runs."""

_LONGEST = 24 * 365 * 1000
"""Hours; more than this retains everything, and would overflow a `datetime`."""


def retention(options: VacuumOptions, subject: Scope | TableName, retention_hours: float) -> float:
    """Hours: those of the options, or else those of the table.

    Raises:
        InvalidArgument: not a number of hours, or below `SAFE_HOURS` and not forced.
    """
    hours = retention_hours if options.retain_hours is None else options.retain_hours
    if not 0 <= hours <= MAX_HOURS:
        raise InvalidArgument(f"vacuum {subject}: a retention of {hours:g} hours is not valid; give one from 0 to {MAX_HOURS}")
    if hours < SAFE_HOURS and not options.force:
        raise InvalidArgument(
            f"vacuum {subject}: a retention of {hours:g} hours is below {SAFE_HOURS}: files that readers and"
            f" restores still use would be deleted. Retain {SAFE_HOURS} hours or more, or force it"
        )
    return float(hours)


def vacuumable(warehouse: Warehouse, tables: Iterable[Table]) -> list[str]:
    """Those that a vacuum may run on unattended: a shorter retention has to be forced by an operator each time."""
    return [str(table.name) for table in tables if warehouse.retention_hours(table) >= SAFE_HOURS]


def horizon_of(hours: float, now: datetime, latest: datetime | None) -> datetime:
    """The moment before which what was superfluous is deleted; not after `latest`."""
    # A plan that is applied later must not delete more than it showed.
    return min(now - timedelta(hours=min(hours, _LONGEST)), latest or now)
