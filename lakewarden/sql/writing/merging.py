"""What a MERGE makes of the rows of its source and of the live rows that they match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lakewarden.delta.reading.rows import empty_rows
from lakewarden.errors import ConstraintViolation, Unsupported
from lakewarden.sql.context import Context
from lakewarden.sql.queries import select
from lakewarden.sql.writing.merge_branches import SOURCE, Branch, DeleteBranch, InsertBranch, KeyPairs, MergeClauses, UpdateBranch
from lakewarden.sql.writing.target import WriteTarget, check_divides, node_of, of_shares
from lakewarden.tables.client.large_writes import Share
from lakewarden.tables.intake import Revision
from lakewarden.tables.keys.seen_keys import SeenKeys
from lakewarden.tables.rows.intake import RowParts


# What a MERGE makes of rows of its source and of the live rows that they match.
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
        """Raises ConstraintViolation: a row is matched by several rows of the source, or a value does not fit."""
        target, key = self.target, list(self.target.schema.primary_key)
        read, extra = {target.table.name: live}, {SOURCE: source}
        found = [(branch, select.run(self.context, branch.query, read, extra)) for branch in self.branches]
        # A DELETE of all that match may match a row several times: it goes once, whichever row of the source says so.
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


# A MERGE whose source is too large to be compared at once: share by share.
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT")


def merge_parts(merging: Merging, statement: MergeClauses, keys: KeyPairs, source: RowParts, *, every: bool) -> int:
    """Returns how many rows were changed.

    Args:
        every: whether a branch reads all live rows.

    Raises:
        Unsupported: not every share can be decided on without the others.
        ConstraintViolation, InvalidArgument: as `Merging.outcome`. Nothing was written.
    """
    for branch in merging.branches:
        check_divides(merging.context, branch.query, SOURCE)
    found = _Keys.of(merging, statement, keys, next(source.tables()).slice(0, 0))
    begin = partial(_begun, merging, found)
    size = of_shares(merging.context).result_bytes
    target = merging.target
    return target.client.revise_parts(source, begin, user=target.user, part_bytes=size, every=every)


@dataclass(frozen=True)
class _Keys:
    """Finds the keys that rows of the source may match."""

    merging: Merging
    query: exp.Select

    @classmethod
    def of(cls, merging: Merging, statement: MergeClauses, keys: KeyPairs, like: pa.Table) -> _Keys:
        """
        Args:
            like: the source without its rows.

        Raises:
            Unsupported: a value of another type than the key's may be equal to a key and not be that key as the key's type.
        """
        table, alias = merging.target.table, statement.known_as
        source = exp.table_(SOURCE, quoted=True, alias=exp.to_identifier(statement.source_alias, quoted=True))
        own = [exp.column(name, alias, quoted=True) for name in keys.values]
        both = exp.select(*_named([*own, *keys.values.values()]), copy=False).from_(node_of(table, alias), copy=False)
        both = both.join(source.copy(), on=exp.false(), copy=False)
        types = select.run(merging.context, both, {table.name: empty_rows(table.schema)}, {SOURCE: like}).types
        casts: list[exp.Expr] = []
        for (name, value), kind, given in zip(keys.values.items(), types[: len(own)], types[len(own) :], strict=True):
            if not _alike(kind, given):
                raise Unsupported(
                    f"MERGE INTO {table.name}: ON compares {name}, which is {kind}, with {given}; of a source with more than"
                    f" {of_shares(merging.context).result_bytes:,} bytes (a fourth of sql.result_bytes), cast the value to {kind}"
                    " in the source's query; nothing was written"
                )
            casts.append(exp.TryCast(this=value.copy(), to=exp.DataType.build(kind, dialect="duckdb")))
        return cls(merging, exp.select(*_named(casts), copy=False).from_(source, copy=False))

    def __call__(self, source: pa.Table) -> pa.Table:
        """NULL for what matches no row."""
        schema = self.merging.target.schema
        found = select.run(self.merging.context, self.query, {}, {SOURCE: source}).table
        types = [column.type.arrow for name in schema.primary_key for column in schema.columns if column.name == name]
        return pa.table(
            {name: values.cast(kind) for name, kind, values in zip(schema.primary_key, types, found.columns, strict=True)}
        )


@contextmanager
def _begun(merging: Merging, keys: _Keys) -> Iterator[_Shares]:
    key = merging.target.schema.primary_key
    with SeenKeys(key) as matched, SeenKeys(key) as inserted, SeenKeys(key) as removed:
        yield _Shares(merging, keys, matched, inserted, removed)


@dataclass(frozen=True)
class _Shares:
    """`Decisions` of one run."""

    merging: Merging
    keys: _Keys
    matched: SeenKeys
    inserted: SeenKeys
    removed: SeenKeys

    def share(self, rows: pa.Table) -> Share:
        return Share(self.keys(rows), partial(self._decide, rows))

    def _decide(self, rows: pa.Table, live: pa.Table) -> Revision:
        outcome = self.merging.outcome(rows, live)
        for keys in outcome.matched:
            self.matched.add(keys)
        for keys in outcome.inserted:
            self.inserted.add(keys)
        if outcome.changes.removed is not None:
            self.removed.add(outcome.changes.removed)
        return outcome.changes

    def close(self) -> int:
        if self.matched.repeated():
            raise ambiguous(self.merging.target, "a row")
        self.inserted.check_once()
        return self.removed.repeated()


def _named(values: list[exp.Expr]) -> list[exp.Expr]:
    return [exp.alias_(value.copy(), f"value {place}", quoted=True) for place, value in enumerate(values)]


def _alike(key: str, given: str) -> bool:
    """Whether a value of one of DuckDB's types is equal to a key only if it is as the key's type. Whole numbers and decimals are
    compared exactly; a DOUBLE is equal to several large whole numbers, and 7 to the texts '7' and '007'."""
    return given in (key, '"NULL"') or (_is_exact(key) and _is_exact(given))


def _is_exact(kind: str) -> bool:
    return kind in _WHOLE or kind.startswith("DECIMAL(")
