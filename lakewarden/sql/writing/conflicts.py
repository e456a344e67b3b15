"""INSERT … ON CONFLICT: rows with new keys are added, and those whose keys are live change them, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lakewarden.delta.reading.bounds import key_bounds
from lakewarden.delta.reading.rows import matches
from lakewarden.errors import InvalidArgument
from lakewarden.sql.context import Context
from lakewarden.sql.queries import select
from lakewarden.sql.query_engine.engine import for_duck
from lakewarden.sql.results import AffectedRows
from lakewarden.sql.writing.returning import Returning
from lakewarden.sql.writing.target import (
    Assignment,
    WriteTarget,
    changed,
    check_divides,
    column_of,
    of_shares,
    of_target,
    reads_itself,
    revision_query,
)
from lakewarden.tables.client.large_writes import Share
from lakewarden.tables.intake import Revision
from lakewarden.tables.keys.seen_keys import SeenKeys
from lakewarden.tables.rows.intake import RowParts, Rows
from lakewarden.tables.strong_read import EVERYTHING, ReadSelection


@dataclass(frozen=True)
class OnConflict:
    """`assignments` is None for DO NOTHING; `columns` is empty where the text names none."""

    columns: tuple[str, ...]
    assignments: tuple[Assignment, ...] | None
    where: exp.Expr | None = None


_EXCLUDED = "excluded"


def insert_on_conflict(
    context: Context, conflict: OnConflict, target: WriteTarget, given: Rows | RowParts, returning: Returning
) -> AffectedRows:
    """Raises:
    InvalidArgument: the table has no key, or ON CONFLICT names other columns.
    ConstraintViolation: a value does not fit, or a key is given twice. Nothing was written.
    """
    _check_columns(target, conflict)
    update = None if conflict.assignments is None else _update(target, returning.alias, conflict, conflict.assignments)
    deciding = _Deciding(context, target, update, returning)
    every = update is not None and reads_itself(context, update.query, target.table, {_EXCLUDED})
    returning.check_in_memory(given)
    if isinstance(given, RowParts):
        if update is not None:
            check_divides(context, update.query, _EXCLUDED)
        size = of_shares(context).result_bytes
        changed_rows = target.client.revise_parts(given, deciding.begin, user=target.user, part_bytes=size, every=every)
        return returning.of(target.affected(changed_rows))
    taken = target.client.take_files(given, target.user)
    rows = target.client.completed(taken.rows, user=target.user, follows=False)
    wanted = EVERYTHING if every else ReadSelection(bounds=key_bounds(target.schema.primary_key, rows))
    decide = partial(deciding.rows, rows)
    return returning.of(target.affected(target.client.revise(decide, user=target.user, wanted=wanted, files=taken.files)))


@dataclass(frozen=True)
class _Update:
    """DO UPDATE. `query` is over the live rows and `excluded`."""

    query: exp.Select
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True)
class _Deciding:
    context: Context
    target: WriteTarget
    update: _Update | None
    """None for DO NOTHING."""
    returning: Returning

    def rows(self, given: pa.Table, live: pa.Table) -> pa.Table:
        """The rows to write, without unchanged ones."""
        key = self.target.schema.primary_key
        fresh = given.filter(pc.invert(matches(given, live, key))) if live.num_rows else given
        if self.update is None or fresh.num_rows == given.num_rows:
            self.returning.note(fresh)
            return fresh
        excluded = {_EXCLUDED: for_duck(given, self.target.schema)}
        found = select.run(self.context, self.update.query, {self.target.table.name: live}, excluded)
        note = partial(self._note, fresh)
        return pa.concat_tables([fresh, changed(self.context, self.target, found, self.update.assignments, note)])

    def _note(self, fresh: pa.Table, updated: pa.Table) -> None:
        self.returning.note(pa.concat_tables([fresh, updated]))

    @contextmanager
    def begin(self) -> Iterator[_Shares]:
        self.returning.begin_parts()
        with SeenKeys(self.target.schema.primary_key) as seen:
            yield _Shares(self, seen)


@dataclass(frozen=True)
class _Shares:
    """`Decisions` on rows that come in parts."""

    deciding: _Deciding
    seen: SeenKeys

    def share(self, rows: pa.Table) -> Share:
        target = self.deciding.target
        given = target.client.completed(rows, user=target.user, follows=False)

        def decide(live: pa.Table) -> Revision:
            self.seen.add(given)
            return Revision(self.deciding.rows(given, live))

        return Share(given.select(target.schema.primary_key), decide)

    def close(self) -> int:
        self.seen.check_once()
        return 0


def _check_columns(target: WriteTarget, conflict: OnConflict) -> None:
    schema = target.schema
    if not schema.primary_key:
        raise InvalidArgument("ON CONFLICT needs a primary key, and the table has none")
    named = {column_of(schema, name).name for name in conflict.columns}
    if named and named != set(schema.primary_key):
        raise InvalidArgument(f"ON CONFLICT names ({', '.join(conflict.columns)}); the key is ({', '.join(schema.primary_key)})")


def _update(target: WriteTarget, alias: str, conflict: OnConflict, assignments: tuple[Assignment, ...]) -> _Update:
    """The live rows whose keys are inserted again, as DO UPDATE changes them."""
    schema = target.schema
    qualified = tuple(Assignment(each.column, of_target(each.value, schema, alias)) for each in assignments)
    on = [
        exp.EQ(this=exp.column(name, alias, quoted=True), expression=exp.column(name, _EXCLUDED, quoted=True))
        for name in schema.primary_key
    ]
    query = revision_query(target, qualified, alias).join(exp.table_(_EXCLUDED, quoted=True), on=exp.and_(*on), copy=False)
    if conflict.where is not None:
        query = query.where(of_target(conflict.where, schema, alias), copy=False)
    return _Update(query, assignments)
