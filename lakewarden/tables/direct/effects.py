"""What direct writes do to the files that a table has: nothing, or remove them; revise.py has what changes their rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.commits import Between
from lakewarden.delta.parquet.files import DELETED, ChangeFile, DataFile, NewFile
from lakewarden.delta.partitions import Partition
from lakewarden.delta.reading.rows import FileGroup
from lakewarden.delta.scope import has_feed
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import ConstraintViolation
from lakewarden.tables.direct.outputs import Outputs
from lakewarden.tables.predicate import partitions_within


@dataclass(frozen=True)
class Draft:
    """What a commit on one version of the table would do, besides adding the rows that were given."""

    adds: tuple[NewFile, ...] = ()
    removes: tuple[DataFile, ...] = ()
    updated: int = 0
    deleted: int = 0
    copied: int = 0
    """Rows in `adds` that were in `removes` as they are."""
    changes: tuple[ChangeFile, ...] = ()
    """For readers of a change data feed: how rows changed, where `adds` and `removes` do not say it."""

    @property
    def empty(self) -> bool:
        return not (self.adds or self.removes)

    @property
    def paths(self) -> list[str]:
        """Of all files that were written for it."""
        return [*(file.path for file in self.adds), *(file.path for file in self.changes)]


@dataclass(frozen=True)
class Keep:
    """Of an append: it reads nothing, so nothing that others commit concerns it."""

    def check(self, given: Sequence[NewFile], target: ScopeTarget) -> None:
        """Raises `ConstraintViolation` where the rows that were given do not belong into the commit."""

    def draft(self, table: ScopeTable, target: ScopeTarget, outputs: Outputs) -> Draft:
        """Computes it for this version; writes the files that it needs."""
        return Draft()

    def stands(self, draft: Draft, since: Between, table: ScopeTable, target: ScopeTarget) -> bool:
        """Whether the draft is right on top of these commits too, which came after its version; `table` has them."""
        return True


@dataclass(frozen=True)
class Replace:
    """Of an overwrite: all live files go, unread; or those of the partitions that a condition on partition columns names."""

    within: str = ""

    def check(self, given: Sequence[NewFile], target: ScopeTarget) -> None:
        there = {file.partition for file in given}
        if outside := there.difference(self.meant(target, there)):
            values = ", ".join(f"{name} = {value}" for name, value in next(iter(outside)))
            raise ConstraintViolation(
                f"rows with {values} are outside of what is overwritten ({self.within}); nothing was changed"
            )

    def draft(self, table: ScopeTable, target: ScopeTarget, outputs: Outputs) -> Draft:
        meant = self.meant(target, {file.partition for file in table.files()})
        gone = tuple(file for file in table.files() if file.partition in meant)
        return Draft(removes=gone, deleted=sum(file.rows or 0 for file in gone))

    def stands(self, draft: Draft, since: Between, table: ScopeTable, target: ScopeTarget) -> bool:
        # A compaction touches no rows, and yet takes files away that the draft removes.
        return not (self.meant(target, since.partitions) or removed(draft, since))

    def meant(self, target: ScopeTarget, partitions: Collection[Partition]) -> Collection[Partition]:
        """The partitions among these that are overwritten."""
        return partitions_within(target.schema, self.within, partitions) if self.within and partitions else partitions


def removed(draft: Draft, since: Between) -> bool:
    """Whether a file that the draft removes is gone."""
    return any(file.path in since.removed for file in draft.removes)


def carried(table: ScopeTable, target: ScopeTarget, draft: Draft, outputs: Outputs) -> Draft:
    """The draft; where files would say something else under the newest columns, those that it leaves are written again."""
    # Readers go by names: files of other columns cannot stay under the newest ones
    # (docs/decisions/0096-columns-without-files.md).
    if table.keeps_files(target.schemas):
        return draft
    # Files with deletion vectors of others cannot be replaced by our commits
    # (docs/decisions/0116-deletion-vectors-of-others.md).
    table.check_plain()
    gone = {file.path for file in draft.removes}
    left = [file for file in table.files() if file.path not in gone]
    kept = (FileGroup.of(table, [file], target.schemas).read() for file in left)
    adds = [file for rows in kept if rows.num_rows for file in outputs.write(rows)]
    copied = draft.copied + sum(file.rows for file in adds)
    # With copies among the new files, adds and removes do not say any more what came and went.
    changes = draft.changes or _gone(table, target, draft.removes, outputs)
    return Draft((*draft.adds, *adds), (*draft.removes, *left), draft.updated, draft.deleted, copied, changes)


def _gone(table: ScopeTable, target: ScopeTarget, files: Sequence[DataFile], outputs: Outputs) -> tuple[ChangeFile, ...]:
    """For readers of a change data feed: the rows of files that go, of which nothing stays."""
    if not has_feed(table, target):
        return ()
    rows = (FileGroup.of(table, [file], target.schemas).read() for file in files)
    return tuple(made for some in rows for made in outputs.changed(some, DELETED))
