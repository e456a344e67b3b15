"""What a MERGE makes of rows of its source and of the live rows that they match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.errors import ConstraintViolation
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.writing.merge_branches import SOURCE, Branch, DeleteBranch, InsertBranch, UpdateBranch
from lakewarden.sql.handlers.writing.target import WriteTarget
from lakewarden.sql.queries import select
from lakewarden.tables.intake import Revision


@dataclass(frozen=True)
class MergeOutcome:
    """What becomes of rows of the source."""

    changes: Revision
    matched: Sequence[pa.Table]
    """The keys of live rows that may be matched once, as often as they are."""
    inserted: Sequence[pa.Table]
    """The keys of new rows."""


@dataclass(frozen=True)
class Merging:
    context: Context
    target: WriteTarget
    branches: tuple[Branch, ...]

    def outcome(self, source: pa.Table, live: pa.Table) -> MergeOutcome:
        """Raises:
        ConstraintViolation: a row is matched by several rows of the source, or a value does not fit.
        """
        target, key = self.target, list(self.target.schema.primary_key)
        read, extra = {target.table.name: live}, {SOURCE: source}
        found = [(branch, select.run(self.context, branch.query, read, extra)) for branch in self.branches]
        matched = [
            each.keys(target, rows)
            for each, rows in found
            if isinstance(each, UpdateBranch) or (isinstance(each, DeleteBranch) and not each.every)
        ]
        if matched:
            counts = pa.concat_tables(matched).group_by(key).aggregate([([], "count_all")])
            for twice in counts.filter(pc.field("count_all") > 1).slice(0, 1).select(key).to_pylist():
                raise ambiguous(target, f"the row {twice}")
        written = [(each, each.rows(self.context, target, rows)) for each, rows in found if not isinstance(each, DeleteBranch)]
        removed = [each.keys(target, rows) for each, rows in found if isinstance(each, DeleteBranch)]
        revision = Revision(
            pa.concat_tables([rows for _, rows in written]) if written else None,
            pa.concat_tables(removed).group_by(key).aggregate([]) if removed else None,
        )
        return MergeOutcome(revision, matched, [rows.select(key) for each, rows in written if isinstance(each, InsertBranch)])

    def revision(self, source: pa.Table, live: pa.Table) -> Revision:
        """Raises as `outcome`."""
        return self.outcome(source, live).changes


def ambiguous(target: WriteTarget, row: str) -> ConstraintViolation:
    return ConstraintViolation(
        f"MERGE INTO {target.table.name}: several rows of the source match {row}, which can be changed once; give each key once"
    )
