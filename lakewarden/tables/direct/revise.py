"""Of an update or a delete: each file that may have a row that is meant is read, and written again where it changes.

One file at a time is in memory, or small ones of a partition together: in this process, or in tasks where the files have many
bytes. The same function does it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from lakewarden.base.clock import Clock, random_id
from lakewarden.base.quantities import portions
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.commits import Between
from lakewarden.delta.commit_log.committing import check_held
from lakewarden.delta.parquet.files import DELETED, INSERT, POSTIMAGE, PREIMAGE, ChangeFile, DataFile, NewFile, by_partition
from lakewarden.delta.partitions import Partition
from lakewarden.delta.reading.bounds import Bound, files_to_read, may_have_within
from lakewarden.delta.reading.rows import FileGroup
from lakewarden.delta.scope import has_feed
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import LakewardenError
from lakewarden.storage.steps import Steps
from lakewarden.tables.direct.effects import Draft, removed
from lakewarden.tables.direct.outputs import Outputs
from lakewarden.tables.direct.value import Decide, Within
from lakewarden.tables.fanout import Run, SizedWork


@dataclass(frozen=True)
class Spread:
    """Has tasks revise the files, where they have at least this many bytes together."""

    run: Run
    here: Decide
    """Decides in this process, where the files have fewer bytes."""
    min_bytes: int
    decide: Decide
    """The same, picklable. No more rows come than the file had."""
    since: datetime
    """When the place of the table was looked up at the earliest."""
    clock: Clock


@dataclass(frozen=True)
class Revise:
    """The effect of an update or a delete."""

    decide: Decide
    bounds: Sequence[Bound] | Callable[[], Sequence[Bound]] = ()
    within: Within | None = None
    """Files of other partitions are not read."""
    spread: Spread | None = None

    @classmethod
    def by(
        cls, decide: Decide | Spread, bounds: Sequence[Bound] | Callable[[], Sequence[Bound]], within: Within | None
    ) -> Revise:
        """Decided here alone, or spread over tasks where there is much."""
        return cls(decide.here, bounds, within, decide) if isinstance(decide, Spread) else cls(decide, bounds, within)

    def check(self, given: Sequence[NewFile], target: ScopeTarget) -> None:
        return

    def draft(self, table: ScopeTable, target: ScopeTarget, outputs: Outputs) -> Draft:
        table.check_plain()
        table.check_partitions(target.schema)
        files = self._files(table, target)
        # Small files of one partition are read, and written again, together.
        apart = (portions(there, lambda file: file.size, target.target_file_size) for there in by_partition(files).values())
        groups = [FileGroup.of(table, some, target.schemas) for some in chain.from_iterable(apart)]
        images = has_feed(table, target)
        spread = self.spread
        if spread is None or sum(group.bytes for group in groups) < spread.min_bytes:
            return _sum(_revised(group, self.decide, outputs, images=images) for group in groups)
        return _in_tasks(spread, groups, target, outputs, images=images)

    def _files(self, table: ScopeTable, target: ScopeTarget) -> list[DataFile]:
        meant = self._meant({file.partition for file in table.files()})
        files = files_to_read(table, self._bounds, target.schemas, target.buckets)
        return [file for file in files if file.partition in meant]

    def stands(self, draft: Draft, since: Between, table: ScopeTable, target: ScopeTarget) -> bool:
        touched = self._meant(since.partitions)
        # By partition and bounds, as files were chosen: what could not have been read does not concern the write.
        read = any(may_have_within(table, partition, self._bounds) for partition in touched)
        return not (read or removed(draft, since))

    @property
    def _bounds(self) -> Sequence[Bound]:
        return self.bounds() if callable(self.bounds) else self.bounds

    def _meant(self, partitions: Collection[Partition]) -> Collection[Partition]:
        return partitions if self.within is None else self.within(partitions)


@dataclass(frozen=True)
class FileTask:
    """Files of one partition, and the first of as many `_seq` as they have rows."""

    group: FileGroup
    first: int


def _in_tasks(spread: Spread, groups: Sequence[FileGroup], target: ScopeTarget, outputs: Outputs, *, images: bool) -> Draft:
    """Errors of tasks are values: what the others wrote has to be known."""
    # As many numbers as rows: no task knows beforehand how many it will change.
    counts = (sum(file.rows or 0 for file in group.files) for group in groups)
    tasks = [FileTask(group, outputs.reserve(count)) for group, count in zip(groups, counts, strict=True)]
    work = partial(_task, _Shared(target, spread.decide, spread.since, spread.clock, images))
    done = spread.run(work, [SizedWork(task, task.group.bytes, target.on_disk) for task in tasks])
    drafts = [each for each in done if isinstance(each, Draft)]
    for draft in drafts:
        # Also where one failed: the files of all others have to be deleted then.
        outputs.took(draft.adds, draft.changes)
    if failed := next((each for each in done if not isinstance(each, Draft)), None):
        raise failed
    return _sum(drafts)


@dataclass(frozen=True)
class _Shared:
    """What all tasks of a write have in common. Picklable."""

    target: ScopeTarget
    decide: Decide
    since: datetime
    clock: Clock
    images: bool


def _task(shared: _Shared, task: FileTask) -> Steps[Draft | LakewardenError]:
    try:
        # A task that was paused for a day must not write where a fence may be gone (docs/decisions/0006-fences.md).
        check_held(f"the write to {shared.target.scope}", shared.since, shared.clock())
        outputs = Outputs(shared.target, _Reserved(task.first), random_id)
        made = _revised(task.group, shared.decide, outputs, images=shared.images)
    except LakewardenError as error:
        return error
    yield shared.target.uri
    return made


class _Reserved:
    """A `Reserve` of numbers that were reserved for a task."""

    def __init__(self, first: int) -> None:
        self._next = first

    def __call__(self, count: int) -> int:
        first, self._next = self._next, self._next + count
        return first


def _revised(group: FileGroup, decide: Decide, outputs: Outputs, *, images: bool) -> Draft:
    """What becomes of some files of a partition; nothing of those in which `decide` changes nothing.

    Args:
        images: whether to write how rows changed, too.
    """
    rows = group.read()
    edit = decide(rows)
    if not (len(edit.gone) or edit.rows.num_rows):
        return Draft()
    files, stays = _touched(group, rows, edit.gone)
    updated, copied = edit.rows.num_rows, stays.num_rows
    # A new version takes the place of a row that went; the others were deleted.
    deleted = max(0, len(edit.gone.unique()) - updated)
    comes = outputs.numbered(edit.rows) if updated else stays.slice(0, 0)
    made = _together(stays, comes) if updated else stays
    changes = _images(rows.take(edit.gone), comes, outputs) if images else ()
    del rows, edit, stays, comes  # their memory goes before the file is written
    adds = outputs.write(made) if made.num_rows else ()
    return Draft(tuple(adds), files, updated, deleted, copied, changes)


def _touched(group: FileGroup, rows: pa.Table, gone: pa.Array[Any]) -> tuple[tuple[DataFile, ...], pa.Table]:
    """The files that have rows among those that go, and their other rows."""
    counts = [file.rows or 0 for file in group.files]
    # Without counts that add up, it is not known which rows are of which file.
    if len(counts) == 1 or not len(gone) or sum(counts) != rows.num_rows:
        return group.files, _without(rows, gone)
    places, ends = gone.to_numpy(zero_copy_only=False), np.cumsum(counts)
    hit = np.unique(np.searchsorted(ends, places, side="right"))
    stays = np.repeat(np.isin(np.arange(len(counts)), hit), counts)
    stays[places] = False
    return tuple(group.files[number] for number in hit), rows.filter(pa.array(stays))


def _images(goes: pa.Table, comes: pa.Table, outputs: Outputs) -> tuple[ChangeFile, ...]:
    """As many rows as come are new versions of those that go."""
    revised = goes.num_rows == comes.num_rows
    before, after = (PREIMAGE, POSTIMAGE) if revised else (DELETED, INSERT)
    return (*outputs.changed(goes, before), *outputs.changed(comes, after))


def _sum(drafts: Iterable[Draft]) -> Draft:
    """The drafts of several files as one; each is made when the one before is there."""
    every = list(drafts)
    return Draft(
        tuple(file for each in every for file in each.adds),
        tuple(file for each in every for file in each.removes),
        sum(each.updated for each in every),
        sum(each.deleted for each in every),
        sum(each.copied for each in every),
        tuple(file for each in every for file in each.changes),
    )


def _without(rows: pa.Table, gone: pa.Array[Any]) -> pa.Table:
    stay = np.ones(rows.num_rows, np.bool_)
    stay[gone.to_numpy(zero_copy_only=False)] = False
    return rows.filter(pa.array(stay))


def _together(stays: pa.Table, comes: pa.Table) -> pa.Table:
    schema = pa.schema([(field.name, field.type) for field in stays.schema])
    return pa.concat_tables([stays.select(schema.names).cast(schema), comes.select(schema.names).cast(schema)])
