"""The files of a restore: which are added and removed, and how the added ones are written.

Our own readers find columns by their ids, all others by their names. So files whose column names mean something else in
the newest schema are written again (docs/decisions/0027-a-restore-speaks-the-newest-schema.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lakewarden.base.clock import Clock, NewId
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import DataFile, NewFile, compact_name
from lakewarden.delta.parquet.schema import version_of
from lakewarden.delta.partitions import directory
from lakewarden.delta.reading.rows import FileGroup
from lakewarden.delta.replay.paths import check_inside
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import Timeline
from lakewarden.maintenance.plans.scope_work import ScopeWork
from lakewarden.maintenance.rewrite import write_outputs
from lakewarden.storage.open import open_store

RESTORE = "RESTORE"
"""The operation in the stamps of restores."""

_SCHEMA = "schema_version"
"""Parameter of a restore that writes its files again: the version of the table's schema that it uses."""

_UNKNOWN = '{"minValues":{},"maxValues":{},"nullCount":{}}'
"""Statistics of a file of which the log has none."""


@dataclass(frozen=True)
class Difference:
    """What a restore changes: `removes` are live now, `adds` are the restored version's files in their place. `columns`: the
    table lacks the newest ones."""

    removes: tuple[DataFile, ...]
    adds: tuple[NewFile, ...]
    parameters: Mapping[str, str]
    """Parameters of the restore, where `adds` have to be written again."""
    columns: bool

    @property
    def rewrites(self) -> bool:
        return bool(self.adds and self.parameters)


def difference(target: ScopeTarget, table: ScopeTable, source: ScopeTable, timeline: Timeline) -> Difference:
    """The files to remove and to add. All of them, where those of one version do not read alike under the newest columns.

    Raises:
        Unsupported: `source` has another writer's columns.
    """
    lacks = version_of(table.head.schema, (target.schema,)) is None
    # The old files say the same by name and by number, so they are named again, and none is written.
    if source.named_alike(target.schemas):
        apart = lacks and not _stay(target, table, source)
        # Where the live files do not read alike, none may stay beside those that come: all are named anew
        # (docs/decisions/0027-a-restore-speaks-the-newest-schema.md).
        removes, returns = (table.files(), source.files()) if apart else _by_path(table, source)
        return Difference(removes, _known_files(source, returns), {}, lacks)
    again = {_SCHEMA: str(target.schema.version)}
    # Files that are written again have new names, so that nothing to do shows only in the parameters of the last such restore.
    if not lacks and _is_there(timeline, {"version": str(source.version)} | again):
        return Difference((), (), again, lacks)
    return Difference(table.files(), _known_files(source, source.files()), again, lacks)


def _stay(target: ScopeTarget, table: ScopeTable, source: ScopeTable) -> bool:
    """Whether files that are in both versions may stay where the columns change. `table` may have another writer's."""
    ours = version_of(table.head.schema, target.schemas) is not None
    return ours and table.keeps_files(target.schemas) and source.can_be_kept


def _by_path(table: ScopeTable, source: ScopeTable) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
    live, then = ({file.path for file in one.files()} for one in (table, source))
    removes = tuple(file for file in table.files() if file.path not in then)
    return removes, tuple(file for file in source.files() if file.path not in live)


def _is_there(timeline: Timeline, parameters: Mapping[str, str]) -> bool:
    """Whether the last commit that changed files was such a restore: its files have other names than those it restored."""
    last = next((entry for entry in reversed(timeline.entries) if entry.adds or entry.removes), None)
    if last is None or last.stamp is None or last.operation != RESTORE:
        return False
    return parameters.items() <= last.stamp.parameters.items()


def written_again(plan: ScopeWork, source: ScopeTable, clock: Clock, new_id: NewId) -> tuple[NewFile, ...]:
    """Writes the rows of every file of `source` to a file of the newest schema.

    Raises:
        TooLate: the plan is too old.
    """
    parts = (FileGroup.of(source, [file], plan.target.schemas).read() for file in source.files())
    return write_outputs(plan, plan.target, parts, clock, new_id)


def copied_apart(table: ScopeTable, adds: Iterable[NewFile], new_id: NewId) -> tuple[NewFile, ...]:
    """The files to add; those that are live now as copies, since no commit can remove and add the same path."""
    store = open_store(table.location)
    live = {file.path for file in table.files()}
    apart = []
    for file in adds:
        if file.path in live:
            name = f"{directory(file.partition)}{compact_name(new_id)}"
            # The path comes from a commit, which others may have written: it must not lead out of the table.
            store.write(name, store.get(check_inside(file.path, file.path, table.uri)))
            apart.append(replace(file, path=name))
        else:
            apart.append(file)
    return tuple(apart)


def _known_files(table: ScopeTable, files: Iterable[DataFile]) -> tuple[NewFile, ...]:
    """Live files of an older version, as files that a commit can add again, by what the log of that version says about them."""
    return tuple(_known(file, table.stats.get(file.path, _UNKNOWN)) for file in files)


def _known(file: DataFile, stats: str) -> NewFile:
    rows = file.rows or 0
    if '"numRecords"' not in stats:  # another writer's file: they were counted since
        stats = f'{{"numRecords":{rows},{stats[1:]}'
    version = file.schema_version or 1
    return NewFile(file.path, file.size, rows, stats, file.min_seq, file.max_seq, version, file.partition)
