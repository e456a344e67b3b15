"""The commit of a direct write: strict, on the version that it was made for, or again where others came first.

What lost goes on top as it is if the commits between touched nothing that it read. Otherwise it runs again on what is there
now, at most `RUNS` times more: a flush wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakewarden.base.faults import Reach, no_faults
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.commit_log.commits import between
from lakewarden.delta.commit_log.committing import DIRECT_APP, Committer, TooLate, transactions_of
from lakewarden.delta.commit_log.stamp import SILENT, CommitStamp
from lakewarden.delta.commit_log.version import Snapshot
from lakewarden.delta.lifecycle.states import commit_rows, open_for_rows
from lakewarden.delta.manifest import write_manifest
from lakewarden.delta.parquet.files import INSERT, NewFile
from lakewarden.delta.reading.rows import FileGroup
from lakewarden.delta.scope import has_feed
from lakewarden.delta.table import ScopeTable
from lakewarden.delta.timeline import walk
from lakewarden.errors import Conflict, ConstraintViolation
from lakewarden.log.once import WriterBatch
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps
from lakewarden.tables.direct.effects import Draft, Keep, Replace, carried
from lakewarden.tables.direct.identities import last_write, writer_of
from lakewarden.tables.direct.outputs import Numbers, Outputs
from lakewarden.tables.direct.revise import Revise
from lakewarden.tables.direct.value import Given


# What the commit of a direct write says of itself: operation, parameters and metrics under Spark's names.
def stamp_of(
    operation: str,
    parameters: Mapping[str, str],
    target: ScopeTarget,
    job_id: str,
    given: Sequence[NewFile],
    draft: Draft,
) -> CommitStamp:
    """It names the log and the user, as a flush does, but no rows of the log: it took none."""
    adds = (*given, *draft.adds)
    removed = {"numRemovedFiles": len(draft.removes), "numRemovedBytes": sum(file.size for file in draft.removes)}
    if operation == "WRITE":
        output = {"numOutputRows": sum(file.rows for file in adds), "numOutputBytes": sum(file.size for file in adds)}
        metrics = {"numFiles": len(adds)} | output | (removed if draft.removes else {})
    else:
        added = {"numAddedFiles": len(adds), "numAddedBytes": sum(file.size for file in adds)}
        metrics = added | removed | _rows(operation, sum(file.rows for file in given), draft)
    if draft.changes:
        metrics |= {"numAddedChangeFiles": len(draft.changes)}
    return CommitStamp(job_id, operation, dict(parameters), metrics, app_id=target.app_id, user=target.scope.user)


def _rows(operation: str, inserted: int, draft: Draft) -> dict[str, int]:
    if operation == "MERGE":
        changed = {"Inserted": inserted, "Updated": draft.updated, "Deleted": draft.deleted, "Copied": draft.copied}
        return {f"numTargetRows{word}": count for word, count in changed.items()}
    updated = {"numUpdatedRows": draft.updated} if operation == "UPDATE" else {}
    deleted = {"numDeletedRows": draft.deleted} if draft.deleted or operation != "UPDATE" else {}
    return updated | deleted | {"numCopiedRows": draft.copied}


RUNS = 3
"""How often a write runs again, unless it says otherwise."""

_COMMITS = 100
"""Others' commits that may come between, each of which touched nothing that the write read."""


Effect = Keep | Replace | Revise
"""What a direct write does to the live files."""


@dataclass(frozen=True)
class DirectWrite:
    """A direct write as it was requested."""

    operation: str
    """As history names it: Spark's word."""
    effect: Effect
    given: Given = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    once: WriterBatch | None = None
    """Its writer is as Delta names it (`identities.transaction_app`)."""
    again: int = RUNS
    """How often it runs again where others changed what it reads."""

    @property
    def silent(self) -> bool:
        """Whether subscribers do not hear of it, and go on (FL-44)."""
        return SILENT.items() <= self.parameters.items()


@dataclass(frozen=True)
class DirectVersion:
    """The version that a direct write made, or that it found where it had nothing to do (`committed` is False) or had been made
    before (`repeated`)."""

    snapshot: Snapshot | None
    draft: Draft
    rows: int
    """The rows that were given."""
    committed: bool
    repeated: bool = False


class DirectCommit:
    """One direct write on its way into a scope's table. `still` raises where the place is no longer the table's."""

    def __init__(
        self,
        write: DirectWrite,
        numbers: Numbers,
        outputs: Outputs,
        by: Committer,
        *,
        still: Callable[[], None],
        announce: Callable[[], None],
        reach: Reach = no_faults,
    ) -> None:
        self._target = outputs.target
        self._write = write
        self._numbers = numbers
        self._outputs = outputs
        self._by = by
        self._once = write.once
        self._still = still
        self._announce = announce
        self._reach = reach
        self.may_be_named = False
        """Whether a commit names the files that were written, or may do so."""

    def steps(self) -> Steps[DirectVersion]:
        """Commits the write.

        Raises:
            Conflict: others changed what it reads each time that it ran; nothing was changed.
        """
        try:
            return (yield from self._landed())
        finally:
            if not self.may_be_named:
                self._outputs.discard()

    def _landed(self) -> Steps[DirectVersion]:
        # Before any file is written: a repeated write costs one look.
        if self._once is not None and (found := self._repeated(self._open())) is not None:
            return found
        # Once for all runs: the rows that were given do not depend on what the table has.
        given = self._outputs.fresh(self._write.given)
        self._write.effect.check(given, self._target)
        self._reach("direct:written")
        table, draft = self._open(), Draft()
        for run in range(self._write.again + 1):
            if (found := self._repeated(table)) is not None:
                return found
            # What the last run wrote is of an older version. Its rows may be below those that came between, so new ones are
            # numbered anew.
            if run:
                self._outputs.discard(draft.paths)
                self._numbers.renew()
            draft = self._draft(table, given)
            self._reach("direct:drafted")
            # Nothing to commit. With an identity it is committed all the same: the commit is what says that the write was done
            # (docs/decisions/0047-direct-writes.md).
            if draft.empty and not given and self._once is None:
                return DirectVersion(None if table is None else table.snapshot(self._target.app_id), draft, 0, committed=False)
            table, snapshot = yield from self._committed(table, draft, given)
            if snapshot is not None:
                return DirectVersion(snapshot, draft, sum(file.rows for file in given), committed=True)
        raise Conflict(
            f"{self._target.scope}: others changed what the {self._write.operation} reads, each of the"
            f" {self._write.again + 1} times that it ran; nothing was changed, retry: try again"
        )

    def _repeated(self, table: ScopeTable | None) -> DirectVersion | None:
        """What another call of the same write left, which got no answer, or died.

        Raises:
            FailedPrecondition: whether there is such a call is uncertain since a repair.
        """
        once = self._once
        if once is None or table is None:
            return None
        last = last_write(table, once.writer)
        if once.resumes:
            return self._found(table) if last.certain else None
        return self._found(table) if last.stands_for(once.floor, writer_of(once.writer), self._target.scope.table) else None

    def _found(self, table: ScopeTable) -> DirectVersion:
        return DirectVersion(table.snapshot(self._target.app_id), Draft(), 0, committed=False, repeated=True)

    def _draft(self, table: ScopeTable | None, given: tuple[NewFile, ...]) -> Draft:
        if table is None or not table.files():
            return Draft()
        draft = carried(table, self._target, self._write.effect.draft(table, self._target, self._outputs), self._outputs)
        if not has_feed(table, self._target) or not (draft.adds or draft.changes):
            return draft  # readers of a feed take new files for inserts, and removed ones for deletes
        rows = (FileGroup.of_new(self._target, file).read() for file in given)
        inserts = (made for some in rows for made in self._outputs.changed(some, INSERT))
        return replace(draft, changes=(*draft.changes, *inserts))

    def _open(self) -> ScopeTable | None:
        table = open_for_rows(self._target)
        # Behind the open: a drop or a move that this look does not see begins later, and its own commit makes ours lose.
        self._still()
        return table

    def _committed(
        self, table: ScopeTable | None, draft: Draft, given: tuple[NewFile, ...]
    ) -> Steps[tuple[ScopeTable | None, Snapshot | None]]:
        """Returns the version that was made; or, where the draft is no longer right, the newest table and None."""
        since = table
        for _ in range(_COMMITS):
            # For each version that the commit may follow, after it was opened: so a barrier, a fence or an ALTER since then
            # makes the commit lose.
            self._announce()
            # From before the first byte of the commit on: if the process is interrupted now, the files must stay
            # (docs/decisions/0047-direct-writes.md).
            self.may_be_named = True
            try:
                return table, (yield from self._commit(table, draft, given))
            # Refused before the commit got its name, so no version names the files.
            except (TooLate, ConstraintViolation):
                self.may_be_named = False
                raise
            except Conflict:
                table = self._open()
            # A conflict may be with our own commit, if the answer to it was lost.
            if table is not None and self._is_there(since, table):  # the answer to an attempt was lost
                return table, table.snapshot(self._target.app_id)
            self.may_be_named = False
            # A first version that lost its race read nothing that could be compared.
            if since is None or table is None or self._repeated(table) or not self._stands(draft, since, table):
                return table, None
        raise Conflict(f"{self._target.scope}: other commits kept coming between; nothing was changed, try again")

    def _is_there(self, since: ScopeTable | None, table: ScopeTable) -> bool:
        """Whether one of the commits since is ours."""
        above = -1 if since is None else since.version
        entries = walk(open_store(table.location), table.version, above=above)
        # Writes of one job come one after the other, so a commit of it that came since is ours.
        return any(entry.stamp is not None and entry.stamp.job_id == self._by.job_id for entry in entries)

    def _stands(self, draft: Draft, since: ScopeTable, table: ScopeTable) -> bool:
        found = between(open_store(table.location), since.version, table.version)
        return not found.bar and self._write.effect.stands(draft, found, table, self._target)

    def _commit(self, table: ScopeTable | None, draft: Draft, given: tuple[NewFile, ...]) -> Steps[Snapshot]:
        now, adds, target = self._by.clock(), (*given, *draft.adds), self._target
        stamp = stamp_of(self._write.operation, self._write.parameters, target, self._by.job_id, given, draft)
        position = self._numbers.position
        once = None if self._once is None else (self._once.writer, self._once.batch)
        self._reach("direct:committing")
        if table is not None:
            position = max(position, table.watermark(DIRECT_APP) or 0)  # who took a position earlier may commit later
        change = CommitChange(
            stamp,
            transactions_of(once, direct=position),
            adds=adds,
            removes=draft.removes,
            changes=draft.changes,
            data_change=bool(given or draft.updated or draft.deleted) or not has_feed(table, target),
        )
        snapshot = yield from commit_rows(table, target, change, since=self._by.since, now=now, reach=self._reach)
        self._reach("direct:committed")
        # A crash before it leaves an older one, and what is kept is compared before it is used
        # (docs/decisions/0033-snapshots-without-opening.md).
        write_manifest(target, snapshot, now=now)
        return snapshot
