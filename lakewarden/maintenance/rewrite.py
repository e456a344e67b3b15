"""The commit of compact and optimize: the same rows in other files. On a race with a flush, the rewrite backs off.

The commit may follow others' commits as long as every file that it replaces is still live; delta-rs would rebase it the
same way. It is a strict commit anyway, on a snapshot that was checked: a rebase could also pass a vacuum's horizon, and a
vacuum may delete files that were not committed before it (maintenance/vacuum/scope.py).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import ClassVar

import pyarrow as pa

from lakewarden.base.clock import Clock, NewId
from lakewarden.base.faults import Reach, no_faults
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.commit_log.committing import TooLate
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.commit_log.version import Snapshot
from lakewarden.delta.features import check_features
from lakewarden.delta.manifest import write_manifest
from lakewarden.delta.parquet.files import DataFile, NewFile, compact_name, write_files
from lakewarden.delta.scope import open_place
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import walk
from lakewarden.errors import Conflict
from lakewarden.maintenance.plans.scope_work import ScopeWork, check_fresh, unmoved
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps
from lakewarden.tables.predicate import PREDICATE

_ATTEMPTS = 10
"""How many commits of others in a row may come between; a scope that is written that fast is compacted later."""

Objection = Callable[[ScopeTable], str]
"""Returns why a rewrite may not follow this newer version; empty where it may."""


@dataclass(frozen=True, kw_only=True)
class PartitionWork(ScopeWork):
    """A plan to rewrite files of all partitions, or of those that a condition chooses."""

    commits: ClassVar[str]
    """The operation that its commits are stamped with."""
    where: str = ""
    """Stands in the commit, and not among the parameters of a stored plan, which has no values of columns."""

    @property
    def of_all(self) -> bool:
        return not self.where

    @property
    @abstractmethod
    def inputs(self) -> tuple[DataFile, ...]:
        """The files that it replaces."""

    @abstractmethod
    def parts(self, table: ScopeTable, target: ScopeTarget, reach: Reach) -> Iterator[pa.Table]:
        """The rows of each new file, from the table and its current schema."""

    def objection(self, newer: ScopeTable) -> str:
        """Why it may not follow this newer version; empty where it may."""
        return ""

    def written(self, table: ScopeTable, target: ScopeTarget, clock: Clock, new_id: NewId, reach: Reach) -> tuple[NewFile, ...]:
        """The new files."""
        return write_outputs(self, target, self.parts(table, target, reach), clock, new_id)

    def run(self, *, job_id: str, clock: Clock, new_id: NewId, reach: Reach = no_faults) -> Steps[ScopeReport]:
        """Writes the new files and swaps them in; discards them where others changed what they replace meanwhile."""
        plan = replace(self, parameters={**self.parameters, PREDICATE: self.where}) if self.where else self
        if plan.nothing:
            return plan.skipped(plan.nothing)
        table = unmoved(plan, clock())
        target = live_schema(plan.target, table)
        inputs, outputs = plan.inputs, plan.written(table, target, clock, new_id, reach)
        reach("after-data-file")
        metrics = rewrite_metrics(inputs, outputs)
        stamp = CommitStamp(job_id, plan.commits, dict(plan.parameters), native_metrics(metrics))
        rewrite = Rewrite(target, table, inputs, outputs, stamp, plan.planned_at)
        landed = yield from land(rewrite, plan.objection, clock, reach)
        if isinstance(landed, str):
            return plan.skipped(landed)
        return plan.done(landed.state, metrics, plan.files, clock())


@dataclass(frozen=True)
class Rewrite:
    """New files, and those that they replace. `table` is the snapshot from which the latter were read."""

    target: ScopeTarget
    table: ScopeTable
    inputs: tuple[DataFile, ...]
    outputs: tuple[NewFile, ...]
    stamp: CommitStamp
    since: datetime
    """When the inputs were planned."""


def rewrite_metrics(inputs: Sequence[DataFile], outputs: Sequence[NewFile]) -> dict[str, int]:
    return {
        "files_added": len(outputs),
        "files_removed": len(inputs),
        "bytes_added": sum(file.size for file in outputs),
        "bytes_removed": sum(file.size for file in inputs),
        "rows_rewritten": sum(file.rows for file in outputs),
    }


def native_metrics(metrics: Mapping[str, int]) -> dict[str, int]:
    """The same under the names of Delta's own OPTIMIZE, for its history."""
    return {
        "numAddedFiles": metrics["files_added"],
        "numRemovedFiles": metrics["files_removed"],
        "numAddedBytes": metrics["bytes_added"],
        "numRemovedBytes": metrics["bytes_removed"],
        "numOutputRows": metrics["rows_rewritten"],
    }


def live_schema(target: ScopeTarget, table: ScopeTable) -> ScopeTarget:
    """The target at the table's current schema version: maintenance brings no columns. Without files, it is the newest.

    Raises:
        Unsupported: the table's files cannot be rewritten: it has another writer's columns, deletion vectors or partitions.
    """
    if not table.has_files:  # a fence of a dropped table, perhaps with its columns
        return target
    schema = table.schema_version(target.schemas)
    check_features(table.head, table.uri)
    table.check_plain()
    table.check_partitions(schema)
    return replace(target, schemas=target.schemas[: target.schemas.index(schema) + 1])


def write_outputs(
    plan: ScopeWork, target: ScopeTarget, parts: Iterable[pa.Table], clock: Clock, new_id: NewId
) -> tuple[NewFile, ...]:
    """Writes each part as a file, or one for each bucket. If one fails, none stays: their rows may have been removed meanwhile.

    Raises:
        TooLate: the plan is too old.
    """
    outputs: list[NewFile] = []
    with ExitStack() as undo:
        undo.callback(discard, target, outputs)
        for rows in parts:
            check_fresh(plan, clock())  # before rows are written there again
            outputs += write_files(target, rows, partial(compact_name, new_id))
        undo.pop_all()
    return tuple(outputs)


def land(rewrite: Rewrite, objection: Objection, clock: Clock, reach: Reach) -> Steps[Snapshot | str]:
    """Commits with `dataChange` false and renews the manifest; or deletes the outputs and returns why they were discarded.

    Raises:
        TooLate: it was planned too long ago; the outputs are deleted.
    """
    table = rewrite.table
    reason = "other commits kept coming between"
    for _ in range(_ATTEMPTS):
        try:
            return (yield from _commit(rewrite, table, clock(), reach))
        except TooLate:
            discard(rewrite.target, rewrite.outputs)
            raise
        except Conflict:
            pass  # handled below
        newer = open_place(rewrite.target)
        if newer is None:
            reason = "the table is gone"
            break
        table = newer
        if _landed(table, rewrite):  # the response to an attempt was lost
            return _finish(rewrite, table.snapshot(rewrite.target.app_id), clock(), reach)
        if objected := _moved(rewrite, table) or objection(table):
            reason = objected
            break
    discard(rewrite.target, rewrite.outputs)
    return f"discarded: {reason}"


def discard(target: ScopeTarget, outputs: Iterable[NewFile]) -> None:
    """Deletes files that no commit names."""
    open_store(target.location).delete(file.path for file in outputs)


def _commit(rewrite: Rewrite, table: ScopeTable, now: datetime, reach: Reach) -> Steps[Snapshot]:
    change = CommitChange(rewrite.stamp, adds=rewrite.outputs, removes=rewrite.inputs, data_change=False)
    made = yield from table.commit(change, since=rewrite.since, now=now, reach=reach)
    reach("after-commit")
    snapshot = table.snapshot(rewrite.target.app_id).after(made)
    return _finish(rewrite, snapshot, now, reach)


def _finish(rewrite: Rewrite, snapshot: Snapshot, now: datetime, reach: Reach) -> Snapshot:
    write_manifest(rewrite.target, snapshot, now=now)
    reach("after-manifest")
    return snapshot


def _landed(table: ScopeTable, rewrite: Rewrite) -> bool:
    live = {file.path for file in table.files()}
    return any(file.path in live for file in rewrite.outputs)


def _moved(rewrite: Rewrite, newer: ScopeTable) -> str:
    return _vacuumed(newer, rewrite.table.version) or _replaced(newer, rewrite.inputs) or _lacking(rewrite.table, newer)


def _lacking(table: ScopeTable, newer: ScopeTable) -> str:
    """The new files have the columns that `table` has, each of which `newer` must have, too. It may have more."""
    there = {(column.name, column.type) for column in newer.columns}
    return "" if all((column.name, column.type) in there for column in table.columns) else "columns were changed meanwhile"


def _replaced(table: ScopeTable, inputs: Sequence[DataFile]) -> str:
    live = {file.path for file in table.files()}
    gone = sum(file.path not in live for file in inputs)
    return f"another commit replaced {gone} of its files meanwhile" if gone else ""


def _vacuumed(table: ScopeTable, since: int) -> str:
    between = walk(open_store(table.location), table.version, above=since)
    return "a vacuum started meanwhile" if any(entry.operation.startswith("VACUUM") for entry in between) else ""
