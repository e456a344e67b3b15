"""What direct writes do to the files that a table has: nothing, remove them, or change their rows one file at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from lakewarden.delta.between import Between
from lakewarden.delta.parquet.files import DataFile, NewFile
from lakewarden.delta.reading.bounds import Bound, files_within
from lakewarden.delta.reading.rows import read_files
from lakewarden.delta.table import ScopeTable
from lakewarden.operations.direct.outputs import Outputs
from lakewarden.operations.direct.value import Decide
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

    def draft(self, table: ScopeTable, target: ScopeTarget, outputs: Outputs) -> Draft:
        """Computes it for this version; writes the files that it needs."""
        ...

    def stands(self, draft: Draft, since: Between) -> bool:
        """Whether the draft is right on top of these commits too, which came after its version."""
        ...


@dataclass(frozen=True)
class Keep:
    """Of an append: it reads nothing, so nothing that others commit concerns it."""

    def draft(self, table: ScopeTable, target: ScopeTarget, outputs: Outputs) -> Draft:
        return Draft()

    def stands(self, draft: Draft, since: Between) -> bool:
        return True


@dataclass(frozen=True)
class Replace:
    """Of an overwrite: all live files go, unread."""

    def draft(self, table: ScopeTable, target: ScopeTarget, outputs: Outputs) -> Draft:
        gone = table.files()
        return Draft(removes=gone, deleted=sum(file.rows or 0 for file in gone))

    def stands(self, draft: Draft, since: Between) -> bool:
        return not (since.partitions or since.removed)


@dataclass(frozen=True)
class Revise:
    """Of an update or a delete: each file that may have a row within the bounds is read, and written again where `decide`
    changes it. One file at a time is in memory."""

    decide: Decide
    bounds: Sequence[Bound] = ()

    def draft(self, table: ScopeTable, target: ScopeTarget, outputs: Outputs) -> Draft:
        table.check_plain()
        named_alike = table.schema_version(target.schemas) is target.schema  # statistics go by name
        adds: list[NewFile] = []
        removes: list[DataFile] = []
        updated = deleted = copied = 0
        for file in files_within(table, self.bounds if named_alike else ()):
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

    def stands(self, draft: Draft, since: Between) -> bool:
        inputs = {file.path for file in draft.removes}
        return not since.partitions and not inputs & since.removed


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
