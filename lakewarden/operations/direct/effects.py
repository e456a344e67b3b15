"""What direct writes do to the files that a table has: nothing, remove them, or change their rows one file at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from lakewarden.delta.between import Between
from lakewarden.delta.parquet.files import DataFile, NewFile
from lakewarden.delta.partitions import Partition
from lakewarden.delta.reading.bounds import Bound, files_within, may_have_within
from lakewarden.delta.reading.rows import read_files
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import ConstraintViolation
from lakewarden.operations.direct.outputs import Outputs
from lakewarden.operations.direct.value import Decide
from lakewarden.operations.optimize.predicate import partitions_within
from lakewarden.target import ScopeTarget


@dataclass(frozen=True)
class Draft:
    """What a commit on one version of the table would do, besides adding the rows that were given."""

    adds: tuple[NewFile, ...] = ()
    removes: tuple[DataFile, ...] = ()
    updated: int = 0
    deleted: int = 0
    copied: int = 0
    """Rows in `adds` that were in `removes` as they are."""

    @property
    def empty(self) -> bool:
        return not (self.adds or self.removes)


class Effect(Protocol):
    """What a direct write does to the live files."""

    def check(self, given: Sequence[NewFile], target: ScopeTarget) -> None:
        """Raises `ConstraintViolation` where the rows that were given do not belong into the commit."""
        ...

    def draft(self, table: ScopeTable, target: ScopeTarget, outputs: Outputs) -> Draft:
        """Computes it for this version; writes the files that it needs."""
        ...

    def stands(self, draft: Draft, since: Between, table: ScopeTable, target: ScopeTarget) -> bool:
        """Whether the draft is right on top of these commits too, which came after its version; `table` has them."""
        ...


@dataclass(frozen=True)
class Keep:
    """Of an append: it reads nothing, so nothing that others commit concerns it."""

    def check(self, given: Sequence[NewFile], target: ScopeTarget) -> None:
        return

    def draft(self, table: ScopeTable, target: ScopeTarget, outputs: Outputs) -> Draft:
        return Draft()

    def stands(self, draft: Draft, since: Between, table: ScopeTable, target: ScopeTarget) -> bool:
        return True


@dataclass(frozen=True)
class Replace:
    """Of an overwrite: all live files go, unread; or those of the partitions that a condition on partition columns names."""

    within: str = ""

    def check(self, given: Sequence[NewFile], target: ScopeTarget) -> None:
        there = {file.partition for file in given}
        if outside := there.difference(_meant(target, self.within, there)):
            values = ", ".join(f"{name} = {value}" for name, value in next(iter(outside)))
            raise ConstraintViolation(
                f"rows with {values} are outside of what is overwritten ({self.within}); nothing was changed"
            )

    def draft(self, table: ScopeTable, target: ScopeTarget, outputs: Outputs) -> Draft:
        meant = _meant(target, self.within, (file.partition for file in table.files()))
        gone = tuple(file for file in table.files() if file.partition in meant)
        return Draft(removes=gone, deleted=sum(file.rows or 0 for file in gone))

    def stands(self, draft: Draft, since: Between, table: ScopeTable, target: ScopeTarget) -> bool:
        return not (_meant(target, self.within, since.partitions) or _removed(draft, since))


@dataclass(frozen=True)
class Revise:
    """Of an update or a delete: each file that may have a row within the bounds is read, and written again where `decide`
    changes it. One file at a time is in memory."""

    decide: Decide
    bounds: Sequence[Bound] = ()
    within: str = ""
    """A condition on partition columns; files of other partitions are not read."""

    def check(self, given: Sequence[NewFile], target: ScopeTarget) -> None:
        return

    def draft(self, table: ScopeTable, target: ScopeTarget, outputs: Outputs) -> Draft:
        table.check_plain()
        named_alike = table.schema_version(target.schemas) is target.schema  # statistics go by name
        adds: list[NewFile] = []
        removes: list[DataFile] = []
        updated = deleted = copied = 0
        meant = _meant(target, self.within, (file.partition for file in table.files()))
        for file in files_within(table, self.bounds if named_alike else ()):
            if file.partition not in meant:
                continue
            rows = read_files(table, [file], target.schemas)
            edit = self.decide(rows)
            if not (len(edit.gone) or edit.rows.num_rows):
                continue
            stays = _without(rows, edit.gone)
            removes.append(file)
            updated += edit.rows.num_rows
            deleted += max(0, rows.num_rows - stays.num_rows - edit.rows.num_rows)
            copied += stays.num_rows
            made = _together(stays, outputs.numbered(edit.rows)) if edit.rows.num_rows else stays
            del rows, edit, stays  # the next file takes their place
            if made.num_rows:
                adds += outputs.write(made)
        return Draft(tuple(adds), tuple(removes), updated, deleted, copied)

    def stands(self, draft: Draft, since: Between, table: ScopeTable, target: ScopeTarget) -> bool:
        touched = _meant(target, self.within, since.partitions)
        read = any(may_have_within(table, partition, self.bounds) for partition in touched)
        return not (read or _removed(draft, since))


def _meant(target: ScopeTarget, within: str, partitions: Iterable[Partition]) -> Collection[Partition]:
    """The partitions that a condition names; all of them without one."""
    every = set(partitions)
    return partitions_within(target.schema, within, every) if within and every else every


def _removed(draft: Draft, since: Between) -> bool:
    """Whether a file that the draft removes is gone."""
    return any(file.path in since.removed for file in draft.removes)


def _without(rows: pa.Table, gone: pa.Array[Any]) -> pa.Table:
    stay = np.ones(rows.num_rows, np.bool_)
    stay[gone.to_numpy(zero_copy_only=False)] = False
    return rows.filter(pa.array(stay))


def _together(stays: pa.Table, comes: pa.Table) -> pa.Table:
    schema = pa.schema([(field.name, field.type) for field in stays.schema])
    return pa.concat_tables([stays.select(schema.names).cast(schema), comes.select(schema.names).cast(schema)])


def carried(table: ScopeTable, target: ScopeTarget, draft: Draft, outputs: Outputs) -> Draft:
    """The draft where the table has the columns of an older schema version: the files that it leaves are written again."""
    if table.schema_version(target.schemas) is target.schema:
        return draft
    table.check_plain()
    gone = {file.path for file in draft.removes}
    left = [file for file in table.files() if file.path not in gone]
    kept = (read_files(table, [file], target.schemas) for file in left)
    adds = [file for rows in kept if rows.num_rows for file in outputs.write(rows)]
    copied = draft.copied + sum(file.rows for file in adds)
    return Draft((*draft.adds, *adds), (*draft.removes, *left), draft.updated, draft.deleted, copied)
