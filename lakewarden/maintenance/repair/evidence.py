"""What is left of a damaged scope: the last version whose files all exist, and rows that later commits had added.

A file counts as present when it has its recorded size. Rows that no readable version shows come from batch files,
whose footers name their scope and their `_seq`, and from the write log with its history, which has the tombstones too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.clock import CarriedClock
from lakewarden.catalog.state.floor_entries import KnownState
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.commits import CommitLog, is_fence
from lakewarden.delta.commit_log.committing import DIRECT_APP
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.manifest import read_manifest
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.parquet.reading import OpenDataFile, open_file
from lakewarden.delta.parquet.schema import read_schema
from lakewarden.delta.reading.rows import empty_rows, read_rows
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import LogEntry, walk
from lakewarden.errors import Corrupt, LakewardenError, NotFound
from lakewarden.log.chunk import RowRange
from lakewarden.log.log_reader import LogReader
from lakewarden.log.position import LAST_POSITION, NOTHING, end_of
from lakewarden.log.record import OP, SEQ, UPSERT, decode
from lakewarden.maintenance.repair.decide import with_survival
from lakewarden.maintenance.vacuum.unreferenced_files import data_files
from lakewarden.storage.objects import ObjectStore, StoredObject
from lakewarden.storage.open import open_store


@dataclass(frozen=True)
class RepairTask:
    """The scope, and what was read of its log: every number a `_seq`, `NOTHING` where there is none."""

    target: ScopeTarget
    table_id: str
    state_uri: str
    ranges: tuple[RowRange, ...]
    """Where the log and its history hold rows of the scope."""
    complete_after: int
    """Every row and tombstone after this `_seq` is in `ranges`."""
    settled_upto: int
    """Flushes have settled the scope's rows at least up to this `_seq`."""
    erased_upto: int
    """The `_seq` at which the user was erased; no older row comes back."""
    rewound_upto: int
    """A restore of the scope came before this `_seq`."""
    reads_files: bool
    """Whether its data files are read: a garbled one has the size that its commit says."""
    dry_run: bool
    job_id: str
    clock: CarriedClock

    @property
    def known_version(self) -> int:
        """The highest version that is known to have been committed; -1 where none is."""
        return -1 if self.known is None else self.known.version

    @property
    def known_watermark(self) -> int:
        """Up to which `_seq` the scope's rows were settled."""
        # The log and the floor each know it; either may be the one that was lost.
        return max(NOTHING if self.known is None else self.known.watermark, self.settled_upto)

    @property
    def known(self) -> KnownState | None:
        """What the floor records of the scope's table; None if it was given up."""
        known = self.target.known
        return None if known is None or known.forgotten else known


@dataclass(frozen=True)
class LastReadable:
    """The last version that can be read whole; `version` is None where there is none."""

    version: int | None
    watermark: int
    rows: pa.Table
    """The newest schema's columns and `_seq`."""
    files: frozenset[str]
    direct: int
    """The last possible `_seq` of the newest direct write in it."""


@dataclass(frozen=True)
class Later:
    """By the readable commits above a base: the last `_seq` after which a flush deleted rows, whether any set rows back
    (`CommitStamp.sets_back`), and those that brought rows."""

    last_delete: int
    restored: bool
    brought: tuple[CommitStamp, ...]


def missing_files(files: Sequence[DataFile], sizes: Mapping[str, int]) -> tuple[DataFile, ...]:
    """The files that do not exist, or do not have their recorded size."""
    return tuple(file for file in files if sizes.get(file.path) != file.size)


def garbled_files(target: ScopeTarget, files: Iterable[DataFile]) -> tuple[DataFile, ...]:
    """Those of the files, each of which has its recorded size, that cannot be read all the same."""
    store = open_store(target.location)
    return tuple(file for file in files if not _is_sound(store, file.path))


def _is_sound(store: ObjectStore, path: str) -> bool:
    try:
        open_file(store, path).check()
    except Corrupt:
        return False
    return True


def listed(task: RepairTask, listing: Sequence[StoredObject]) -> LastReadable | None:
    """The last version that was ever committed, by the manifest beside the table, if that is the manifest of that version and
    all its files are there. Then only the commit is lost."""
    target, known, sizes = task.target, task.known, {found.key: found.size for found in listing}
    manifest = read_manifest(target.location)
    # An older manifest would bring back what later commits deleted.
    if known is None or manifest is None or manifest[0] != known.version or manifest[1].items() - sizes.items():
        return None
    try:
        files = [open_file(open_store(target.location), path) for path in manifest[1]]
        if not all(_is_own(target, opened) for opened in files):
            return None
        parts = [opened.read(read_schema(target.schema), {}) for opened in files]
    except LakewardenError:
        return None
    rows = pa.concat_tables([empty_rows(target.schema), *parts])
    return LastReadable(known.version, known.watermark, rows, frozenset(manifest[1]), end_of(LAST_POSITION))


def last_whole(target: ScopeTarget, newest: ScopeTable | None, sizes: Mapping[str, int]) -> LastReadable:
    """Goes back from `newest` to the first version whose files all exist and can be read; never below a fence."""
    for table in _versions(target, newest):
        if missing_files(table.files(), sizes):
            continue
        try:
            rows = read_rows(table, target.schemas)
        except Corrupt:
            continue  # a file with its size but not its content
        known, direct = table.watermark(target.app_id), table.watermark(DIRECT_APP)
        return LastReadable(
            table.version,
            NOTHING if known is None else known,
            rows,
            frozenset(file.path for file in table.files()),
            NOTHING if direct is None else end_of(direct),
        )
    return LastReadable(None, NOTHING, empty_rows(target.schema), frozenset(), NOTHING)


def _versions(target: ScopeTarget, newest: ScopeTable | None) -> Iterator[ScopeTable]:
    if newest is None:
        return
    yield newest
    log = CommitLog(open_store(target.location))
    for version in range(newest.version - 1, -1, -1):
        above = log.read(version + 1)
        # Below a fence are the rows of a dropped table, or of an erased user.
        if above is None or is_fence(above):
            return
        try:
            table = ScopeTable.open(target.location, version)
        except NotFound:
            return  # the version is no longer in the log
        except Corrupt:
            continue
        if table is not None:
            yield table


def later_commits(target: ScopeTarget, newest: ScopeTable | None, base: LastReadable) -> Later:
    entries: list[LogEntry] = []
    if newest is not None:
        above = -1 if base.version is None else base.version
        entries += walk(open_store(target.location), newest.version, above=above)
    deletes = [
        entry.stamp.last_seq or 0
        for entry in entries
        if entry.stamp is not None and entry.stamp.metrics.get("numTargetRowsDeleted", 0)
    ]
    stamps = [entry.stamp for entry in entries if entry.stamp is not None]
    brought = tuple(stamp for stamp in stamps if stamp.direct or stamp.log_rows)
    return Later(max(deletes, default=NOTHING), any(stamp.sets_back for stamp in stamps), brought)


def rows_of_files(target: ScopeTarget, listing: Sequence[StoredObject], base: LastReadable, upto: int) -> pa.Table:
    """Rows of the scope's data files that the base does not name, beyond its watermark and not beyond `upto`, as `decide`
    has them. A file's rows survived the deletions up to the flush that wrote it."""
    parts = [with_survival(decode([], [], target.schemas), None)]
    for settled_upto, rows in _not_in(base, target, listing):
        own = rows.filter((pc.field(SEQ) > base.watermark) & (pc.field(SEQ) <= upto))
        if own.num_rows:
            # The flush that wrote the file had applied all deletions up to its watermark.
            newest = pc.max(rows.column(SEQ)).as_py()
            parts.append(with_survival(_as_log(target, own), max(newest, settled_upto or NOTHING)))
    return pa.concat_tables(parts)


def _not_in(
    base: LastReadable, target: ScopeTarget, listing: Sequence[StoredObject], *, direct: bool = False
) -> Iterator[tuple[int | None, pa.Table]]:
    """The rows of each of the scope's data files that the base does not name, and up to where its flush had settled. `direct`:
    of those alone that no flush wrote."""
    for found in data_files(listing):
        if found.key not in base.files:
            with suppress(LakewardenError):  # torn: its rows are found elsewhere or lost
                opened = open_file(open_store(target.location), found.key)
                if _is_own(target, opened) and not (direct and opened.footer.settled_upto is not None):
                    yield opened.footer.settled_upto, opened.read(read_schema(target.schema), {})


def rows_of_direct_writes(target: ScopeTarget, listing: Sequence[StoredObject], base: LastReadable, upto: int) -> pa.Table:
    """Rows that direct writes made after the base: the newest schema's columns and `_seq`. Whether they were ever committed, and
    are still live, is not known.

    Args:
        upto: the watermark. A flush's rows beyond it are in the log.
    """
    # Up to the base's own direct write they are in the base, if they lived; those of flushes end at the watermark.
    after = max(base.direct, upto)
    parts = [empty_rows(target.schema)]
    parts += [rows.filter(pc.field(SEQ) > after) for _, rows in _not_in(base, target, listing, direct=True)]
    rows = pa.concat_tables(parts)
    places = pa.table({"seq": rows.column(SEQ), "at": pa.array(range(rows.num_rows), pa.int64())})
    return rows.take(places.group_by("seq", use_threads=False).aggregate([("at", "min")]).column("at_min"))


def _is_own(target: ScopeTarget, opened: OpenDataFile) -> bool:
    footer = opened.footer
    return footer.schema_version is not None and footer.table == str(target.scope.table) and footer.user == target.scope.user


def _as_log(target: ScopeTarget, rows: pa.Table) -> pa.Table:
    wanted = decode([], [], target.schemas).schema
    return rows.append_column(OP, pa.array([UPSERT] * rows.num_rows, pa.int8())).select(wanted.names).cast(wanted)


def rows_of_log(log: LogReader, target: ScopeTarget, ranges: Sequence[RowRange], upto: int) -> pa.Table:
    """The scope's rows and tombstones that the log and its history still have, not beyond `upto`, as `decide` has them.

    Raises:
        Missing: objects of the log were removed meanwhile.
    """
    wanted = [each for each in ranges if each.first_seq <= upto]
    rows = decode([log.chunk(each) for each in wanted], wanted, target.schemas)
    return with_survival(rows.filter(pc.field(SEQ) <= upto), None)
