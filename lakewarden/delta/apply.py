"""Flushes one scope's rows into its Delta table with one strict commit, which carries the watermark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import pyarrow as pa

from lakewarden.base.clock import NewId
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.threads import at_once
from lakewarden.catalog.report import ScopeState
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.change import AT_ONCE, BatchChanges, PartitionChange, TooLarge, changes_of
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.commit_log.commits import CommitLog, is_fence
from lakewarden.delta.commit_log.committing import Committer, TooLate, check_held, transactions_of
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.commit_log.version import Snapshot
from lakewarden.delta.lifecycle.states import commit_rows, open_for_rows
from lakewarden.delta.manifest import refresh_manifest, write_manifest
from lakewarden.delta.parquet.files import ChangeFile, DataFile, NewFile, batch_name, write_changes, write_files
from lakewarden.delta.parquet.schema import SEQ
from lakewarden.delta.partitions import Partition
from lakewarden.delta.scope import has_feed, open_place
from lakewarden.errors import Conflict, ConstraintViolation, Unsupported
from lakewarden.log.chunk import bare, taken
from lakewarden.log.position import NOTHING
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps

__all__ = ["ColdApply", "CommitResult", "TooLarge", "WrittenFiles"]


@dataclass(frozen=True)
class WrittenFiles:
    """Files written for one commit, the files that they replace, and the batch's effect: rows by outcome, range of `_seq`."""

    files: tuple[NewFile, ...]
    replaced: tuple[DataFile, ...]
    inserted: int
    updated: int
    deleted: int
    rows: int
    """The number of rows in `files`, including old ones."""
    first_seq: int | None
    last_seq: int | None
    log_rows: int
    """The number of log rows in the batch."""
    changes: tuple[ChangeFile, ...] = ()
    """For readers of a change data feed: how rows changed, where files are replaced."""

    @property
    def data_change(self) -> bool:
        """Whether a row changed: not where files are only written again, with the columns of a newer schema."""
        return bool(self.inserted or self.updated or self.deleted) or not self.replaced

    @property
    def paths(self) -> list[str]:
        return [*(file.path for file in self.files), *(file.path for file in self.changes)]


@dataclass(frozen=True)
class CommitResult:
    """The result of one commit. `metrics` are those of a report, in snake_case."""

    version: int
    operation: str
    metrics: dict[str, int]
    state: ScopeState


class ColdApply:
    """A scope's Delta table, opened once, as the cold side of `log.drain`: read the watermark, then commit at most once.

    Reads and commits use the same snapshot, so of two flushes one is refused.
    """

    def __init__(
        self,
        target: ScopeTarget,
        by: Committer,
        *,
        new_id: NewId,
        reach: Reach = no_faults,
        large_bytes: int | None = None,
        named: Mapping[str, str] | None = None,
        newest: bool = True,
    ) -> None:
        """Opens the table.

        Args:
            named: more parameters of the commit.
            newest: as in `open_scope`.
        """
        self._target = target
        self._by = by
        self._named = named or {}
        self._new_id = new_id
        self._reach = reach
        self._large_bytes = large_bytes
        self.table = open_for_rows(target, newest=newest)
        self.applied: CommitResult | None = None

    def watermark(self) -> int | None:
        return None if self.table is None else self.table.watermark(self._target.app_id)

    def state(self) -> ScopeState | None:
        """The version, after the commit if there was one; None when there is no table."""
        if self.applied is not None:
            return self.applied.state
        return None if self.table is None else self.table.state(self._target.app_id)

    def next_batch(self) -> int:
        """The number in the file names of this commit."""
        return 0 if self.table is None else self.table.next_batch()

    def replaces_all(self) -> bool:
        """Whether this commit has to replace every file, because they would say something else under the newest columns."""
        return self.table is not None and not self.table.keeps_files(self._target.schemas)

    @property
    def feeds(self) -> bool:
        """Whether the commit has to say how rows changed, where it replaces files."""
        return has_feed(self.table, self._target)

    def refresh_manifest(self) -> None:
        """Writes the manifest again if a crash after another commit left it stale."""
        if self.table is not None:
            refresh_manifest(self._target, self.table, self._by.clock())

    def commit(self, rows: pa.Table, end: int) -> Steps[None]:
        """Applies rows above the watermark (newest schema, `_seq`, `_op`) and sets it to `end`.

        Raises:
            Conflict: another commit came first; nothing was changed, open the table again.
            TooLarge: more than `large_bytes` would have to be rewritten; nothing was changed.
        """
        metadata = taken(rows, self.watermark() or NOTHING)
        written = self._written(bare(rows), end)
        del rows  # frees memory for other scopes while this one waits
        yield from self.commit_written(written, end, metadata)

    def _written(self, rows: pa.Table, end: int) -> WrittenFiles:
        """Writes the files of the commit. If one fails, none stays."""
        changes = changes_of(self.table, self._target, rows, self._large_bytes, images=self.feeds)
        files: list[NewFile] = []
        with ExitStack() as undo:
            undo.callback(lambda: open_store(self._target.location).delete(file.path for file in files))
            parts = at_once(partial(self._part, changes, files, end), changes.partitions, AT_ONCE)
            effects = [effect for _, effect in parts]
            images = self._images(changes, effects)
            undo.pop_all()
        replaced = tuple(file for effect in effects for file in effect.replaced)
        made = tuple(file for some, _ in parts for file in some)
        total = sum(file.rows for file in made)
        return WrittenFiles(made, replaced, *changes.counted(effects), total, *_first_and_last(rows), rows.num_rows, images)

    def _images(self, changes: BatchChanges, effects: Sequence[PartitionChange]) -> tuple[ChangeFile, ...]:
        """Where only files were added, their rows are the changes."""
        if not self.feeds or not any(effect.replaced for effect in effects):
            return ()
        return tuple(write_changes(self._target, changes.images(effects), self._new_id))

    def _part(
        self, changes: BatchChanges, files: list[NewFile], end: int, partition: Partition
    ) -> tuple[list[NewFile], PartitionChange]:
        """Writes the files of one partition, and returns the effect on it without the rows. `files` gets each at once."""
        change = changes.of(partition)
        self._reach("after-read")
        # before rows are written there again
        check_held(f"the flush of {self._target.scope}", self._by.since, self._by.clock())
        number = self.next_batch()
        made: list[NewFile] = []
        for rows in _file_rows(change, self._target):
            some = write_files(self._target, rows, partial(batch_name, number, self._new_id), end)
            made += some
            files += some
        return made, replace(change, rows=changes.coming.slice(0, 0))

    def commit_written(self, written: WrittenFiles, end: int, metadata: Sequence[str] = ()) -> Steps[None]:
        """Commits files that were written before, with the watermark `end`. Raises as `commit`.

        Args:
            metadata: what the writers of the rows attached, in their order.
        """
        self._reach("after-data-file")
        now = self._by.clock()
        stamp = _stamp(self._by.job_id, self._target, written, new=self.table is None)
        stamp = replace(stamp, parameters={**stamp.parameters, **self._named}).with_metadata(metadata)
        number = self.next_batch()
        try:
            snapshot = yield from self._commit(written, stamp, end, number if written.files else None, now)
        except TooLate:
            open_store(self._target.location).delete(written.paths)
            raise
        except ConstraintViolation as error:
            open_store(self._target.location).delete(written.paths)
            raise Unsupported(
                f"{error.message}; the rows stay in the log until they are changed, or the rule is dropped"
            ) from error
        except Conflict:
            self._discard(written, stamp)
            raise
        self._reach("after-commit")
        write_manifest(self._target, snapshot, now=now)
        self._reach("after-manifest")
        self.applied = CommitResult(snapshot.version, stamp.operation, _metrics(written), snapshot.state)

    def _discard(self, written: WrittenFiles, stamp: CommitStamp) -> None:
        """Removes the files of a refused commit, unless the commit exists: the answer of an earlier try may have been lost."""
        newest = open_place(self._target)
        if newest is None or not written.paths:
            return
        store = open_store(self._target.location)
        log, since = CommitLog(store), -1 if self.table is None else self.table.version
        later = [log.read(version) for version in range(newest.version, since, -1)]
        stamps = [None if commit is None else commit.info.get("userMetadata") for commit in later]
        # Behind a fence no file is live, whoever wrote it. A commit that can't be read may be this one: then the files stay.
        fenced = later[:1] and later[0] is not None and is_fence(later[0])
        if fenced or (None not in later and stamp.text() not in stamps):
            store.delete(written.paths)

    def _commit(self, written: WrittenFiles, stamp: CommitStamp, end: int, batch: int | None, now: datetime) -> Steps[Snapshot]:
        change = CommitChange(
            stamp,
            transactions_of((self._target.app_id, end), batch),
            adds=written.files,
            removes=written.replaced,
            changes=written.changes,
            data_change=written.data_change or not self.feeds,
        )
        since, new_id, reach = self._by.since, self._new_id, self._reach
        return (yield from commit_rows(self.table, self._target, change, since=since, now=now, new_id=new_id, reach=reach))


def _first_and_last(rows: pa.Table) -> tuple[int | None, int | None]:
    """Of rows from the log, which ascend by `_seq`."""
    seqs = rows.column(SEQ)
    return (seqs[0].as_py(), seqs[-1].as_py()) if len(seqs) else (None, None)


def _file_rows(change: PartitionChange, target: ScopeTarget) -> list[pa.Table]:
    """Returns the rows to write, one table per file: as many as before when a large scope was replaced."""
    rows = change.rows.num_rows
    if not rows:
        return []
    before = sum(file.rows or 0 for file in change.replaced)
    size = sum(file.size for file in change.replaced) * rows // before if before else 0
    step = -(-rows // max(1, round(size / target.target_file_size)))
    if step == rows:
        return [change.rows]
    return [change.rows.slice(start, step) for start in range(0, rows, step)]


def _stamp(job_id: str, target: ScopeTarget, written: WrittenFiles, *, new: bool) -> CommitStamp:
    """Returns `WRITE` if rows were only added, `MERGE` if files were replaced: Spark's names for the same."""
    range_, source = (written.first_seq, written.last_seq, written.log_rows), (target.app_id, target.scope.user)
    output = {"numOutputRows": written.rows, "numOutputBytes": sum(file.size for file in written.files)}
    changed = {"numTargetChangeFilesAdded": len(written.changes)} if written.changes else {}
    if not written.replaced:
        mode = {"mode": "ErrorIfExists" if new else "Append"}
        added = {"numFiles": len(written.files)} | output
        return CommitStamp(job_id, "WRITE", mode, added, *range_, *source)
    predicate = " AND ".join(f"target.{name} = source.{name}" for name in target.schema.primary_key)
    merged = {
        "numTargetRowsInserted": written.inserted,
        "numTargetRowsUpdated": written.updated,
        "numTargetRowsDeleted": written.deleted,
        "numTargetFilesAdded": len(written.files),
        "numTargetFilesRemoved": len(written.replaced),
    }
    return CommitStamp(job_id, "MERGE", {"predicate": predicate}, merged | output | changed, *range_, *source)


def _metrics(written: WrittenFiles) -> dict[str, int]:
    return {
        "rows_upserted": written.inserted + written.updated,
        "rows_inserted": written.inserted,
        "rows_updated": written.updated,
        "rows_deleted": written.deleted,
        "rows_written": written.rows,
        "files_added": len(written.files),
        "files_removed": len(written.replaced),
        "bytes_removed": sum(file.size for file in written.replaced),
        "bytes_written": sum(file.size for file in written.files),
    }
